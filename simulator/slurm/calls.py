"""One REST call after its checks, and the answers it can get."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.engine.commands import Actor
from simulator.runtime import Running
from simulator.slurm.errors import Body

RELEASE = "22.05.8"


@dataclass(frozen=True)
class Call:
    """What a handler needs. `peer` is the client's port, which some error texts repeat."""

    cluster: Running
    actor: Actor
    now_ms: int
    argument: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    peer: int = 0

    @property
    def job_id(self) -> int:
        """The job id in the path, 0 if it is not a number."""
        return int(self.argument) if self.argument.isdigit() else 0


@dataclass(frozen=True)
class Answer:
    """Status and text of a reply."""

    status: int
    text: str
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def meta(plugin: str) -> Body:
    """The `meta` object: `openapi` or `dbv0.0.38`."""
    name = "Slurm OpenAPI v0.0.38" if plugin == "v0.0.38" else "Slurm OpenAPI DB v0.0.38"
    return {
        "plugin": {"type": f"openapi/{plugin}", "name": name},
        "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": RELEASE},
    }


def answer(body: Mapping[str, Any], status: int = 200, *, plugin: str = "v0.0.38") -> Answer:
    """A JSON reply under the usual `meta`."""
    return Answer(status, json.dumps({"meta": meta(plugin), **body}))


def rows_answer(key: str, rows: list[str]) -> Answer:
    """A JSON reply of rows that are JSON text already."""
    head = json.dumps({"meta": meta("v0.0.38"), "errors": []})
    return Answer(200, f'{head[:-1]}, "{key}": [{", ".join(rows)}]}}')


def plain(status: int, text: str) -> Answer:
    """A reply in plain text."""
    return Answer(status, text, "text/plain")


class DropConnection(Exception):  # noqa: N818
    """The connection is to be closed without another byte, or `reset`; half of `sent` goes out."""

    def __init__(self, sent: Answer | None = None, *, reset: bool = False) -> None:
        super().__init__()
        self.sent = sent
        self.reset = reset
