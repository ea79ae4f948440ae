"""Faults on the wire, one table: what each does before the cluster acts, and after.

A new kind of fault is one line in `KINDS` and, if it needs a new deed, one in `Deed`.
"""

import re
from dataclasses import dataclass, field
from enum import Enum, auto


class Deed(Enum):
    """What can be done to a request or its answer."""

    DELAY = auto()
    DROP = auto()
    TRUNCATE = auto()
    REPLY = auto()


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the deed, and whether the cluster has acted by then."""

    deed: Deed
    acted: bool
    meaning: str


KINDS: dict[str, Kind] = {
    "delay_before": Kind(Deed.DELAY, acted=False, meaning="wait, then act and answer"),
    "delay_after": Kind(Deed.DELAY, acted=True, meaning="act, wait, then answer"),
    "drop_before": Kind(Deed.DROP, acted=False, meaning="close the connection, nothing done"),
    "drop_after": Kind(Deed.DROP, acted=True, meaning="act, then close without an answer"),
    "truncate": Kind(Deed.TRUNCATE, acted=True, meaning="act, send half of the answer, close"),
    "reply_before": Kind(Deed.REPLY, acted=False, meaning="answer with status and text instead"),
    "reply_after": Kind(Deed.REPLY, acted=True, meaning="act, answer with status and text instead"),
}


@dataclass
class Fault:
    """A fault in force on matching requests, for `times` of them (None: until cleared)."""

    id: int
    kind: str
    method: str = ""
    path: str = ""
    times: int | None = 1
    ms: int = 0
    status: int = 503
    text: str = ""
    hits: int = 0

    def matches(self, method: str, path: str) -> bool:
        """Does it strike this request? `path` is a regular expression searched for."""
        if self.times is not None and self.hits >= self.times:
            return False
        return self.method in {"", method} and re.search(self.path, path) is not None


@dataclass
class FaultBoard:
    """The faults of one cluster: services that are down, and faults in force on the wire."""

    controller_down: bool = False
    accounting_down: bool = False
    nodes_unknown_until_ms: int = 0
    faults: list[Fault] = field(default_factory=list)
    next_id: int = 1

    def add(self, fault: Fault) -> None:
        """Put a fault into force. ValueError for an unknown kind or a bad expression."""
        if fault.kind not in KINDS:
            raise ValueError(f"unknown kind of fault: {fault.kind}")
        try:
            re.compile(fault.path)
        except re.error as error:
            raise ValueError(f"path: {error}") from error
        self.faults.append(fault)
        self.next_id = fault.id + 1

    def strike(self, method: str, path: str, *, acted: bool) -> list[Fault]:
        """The faults that hit this request at this stage; each counts as used."""
        struck = [
            fault
            for fault in self.faults
            if KINDS[fault.kind].acted is acted and fault.matches(method, path)
        ]
        for fault in struck:
            fault.hits += 1
        return struck

    def clear(self) -> None:
        """All services up, no fault in force."""
        self.controller_down = self.accounting_down = False
        self.nodes_unknown_until_ms = 0
        self.faults.clear()
