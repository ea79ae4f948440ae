"""Faults on the wire, one table: what each does before the cluster acts, and after.

A new kind of fault is one line in `KINDS` and, if it needs a new deed, one in `Deed`; what a
replaced answer says is a line in `simulator.slurm.replies`.
"""

import re
from dataclasses import dataclass, field
from enum import Enum, auto


class Deed(Enum):
    """What can be done to a request or its answer."""

    DELAY = auto()
    DROP = auto()
    RESET = auto()
    TRUNCATE = auto()
    REPLY = auto()


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the deed, and whether the cluster has acted by then."""

    deed: Deed
    acted: bool
    meaning: str


KINDS: dict[str, Kind] = {
    "delay_before": Kind(Deed.DELAY, acted=False, meaning="wait `ms`, then act and answer"),
    "delay_after": Kind(Deed.DELAY, acted=True, meaning="act, wait `ms`, then answer"),
    "drop_before": Kind(Deed.DROP, acted=False, meaning="close the connection, nothing done"),
    "drop_after": Kind(Deed.DROP, acted=True, meaning="act, then close without an answer"),
    "reset_before": Kind(Deed.RESET, acted=False, meaning="reset (RST), nothing done"),
    "reset_after": Kind(Deed.RESET, acted=True, meaning="act, then reset (RST)"),
    "truncate": Kind(Deed.TRUNCATE, acted=True, meaning="act, send half of the answer, close"),
    "half_json": Kind(Deed.REPLY, acted=True, meaning="act, answer 200 with half of the JSON"),
    "empty_answer": Kind(Deed.REPLY, acted=True, meaning="act, answer 200 with nothing in it"),
    "errors_in_200": Kind(Deed.REPLY, acted=False, meaning="200 with errors[], nothing done"),
    "errors_in_200_after": Kind(Deed.REPLY, acted=True, meaning="act, answer 200 with errors[]"),
    "bad_token": Kind(Deed.REPLY, acted=False, meaning="as for a bad token (500), nothing done"),
    "token_dies": Kind(Deed.REPLY, acted=True, meaning="act, then answer as for a bad token"),
    "controller_dies": Kind(
        Deed.REPLY, acted=True, meaning="act, then answer as without slurmctld (500)"
    ),
    "too_many": Kind(
        Deed.REPLY, acted=False, meaning="429, Retry-After of `ms` in whole seconds, nothing done"
    ),
    "bad_gateway": Kind(Deed.REPLY, acted=True, meaning="act, answer 502 with a proxy's page"),
    "reply_before": Kind(
        Deed.REPLY, acted=False, meaning="answer with `status` and `text` instead"
    ),
    "reply_after": Kind(
        Deed.REPLY, acted=True, meaning="act, answer with `status` and `text` instead"
    ),
}


@dataclass
class Fault:
    """A fault in force on matching requests: on `times` of them (None: until cleared) after the
    first `skip`."""

    id: int
    kind: str
    method: str = ""
    path: str = ""
    times: int | None = 1
    skip: int = 0
    ms: int = 0
    status: int = 503
    text: str = ""
    hits: int = 0
    passed: int = 0

    def strikes(self, method: str, path: str) -> bool:
        """Does it strike this request? `path` is an expression searched for. Counts either way."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method not in {"", method} or re.search(self.path, path) is None:
            return False
        if self.passed < self.skip:
            self.passed += 1
            return False
        self.hits += 1
        return True


@dataclass
class FaultBoard:
    """The faults of one cluster: services that are down, and faults in force on the wire.

    `refuse_ms` is for the server, which shuts its door for so long and sets it back to 0.
    """

    controller_down: bool = False
    accounting_down: bool = False
    nodes_unknown_until_ms: int = 0
    refused_until_ms: int = 0
    refuse_ms: int = 0
    faults: list[Fault] = field(default_factory=list)
    next_id: int = 1

    def add(self, fault: Fault) -> None:
        """Put a fault into force. ValueError for an unknown kind or a bad expression."""
        if fault.kind not in KINDS:
            raise ValueError(f"unknown kind of fault: {fault.kind}")
        if fault.ms < 0 or fault.skip < 0:
            raise ValueError("ms and skip are not negative")
        try:
            re.compile(fault.path)
        except re.error as error:
            raise ValueError(f"path: {error}") from error
        self.faults.append(fault)
        self.next_id = fault.id + 1

    def strike(self, method: str, path: str, *, acted: bool) -> list[Fault]:
        """The faults that hit this request at this stage; each counts as used."""
        stage = [fault for fault in self.faults if KINDS[fault.kind].acted is acted]
        return [fault for fault in stage if fault.strikes(method, path)]

    def refuse(self, now_ms: int, ms: int) -> None:
        """Let nobody in for so long."""
        self.refused_until_ms, self.refuse_ms = now_ms + ms, ms

    def clear(self) -> None:
        """All services up, no fault in force."""
        self.controller_down = self.accounting_down = False
        self.nodes_unknown_until_ms = self.refused_until_ms = self.refuse_ms = 0
        self.faults.clear()
