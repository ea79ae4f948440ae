"""What a job says when it proves a checkpoint: the body of `POST /jobs/{id}/checkpoints`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.core.checkpoint_note import MOST_STEP
from federation.core.spec.kinds import Problems, Schema
from federation.core.spec.objects import Field, Object
from federation.core.spec.scalars import Integer, Text
from kit.errors import FieldProblem

LONGEST_PATH = 1024

PROOF: Final = Object(
    {
        "step": Field(Integer(0, MOST_STEP), "The training step that was saved."),
        "path": Field(Text(LONGEST_PATH), "Where; the next attempt is told.", ""),
    }
)


@dataclass(frozen=True, slots=True)
class Saved:
    """A step that was saved, and where; "" = not said."""

    step: int
    path: str


def parse_proof(body: object) -> Saved | tuple[FieldProblem, ...]:
    """What was saved, or everything that is wrong with the body."""
    problems: Problems = []
    values: Mapping[str, Any] = PROOF.read(body, "", problems)
    return tuple(problems) if problems else Saved(values["step"], values["path"])


def resume_environment(step: int | None, path: str) -> dict[str, str]:
    """What an attempt is told of its job's newest checkpoint; nothing when there is none."""
    if step is None:
        return {}
    told = {"MUSTER_RESUME": "1", "MUSTER_RESUME_STEP": str(step)}
    return {**told, "MUSTER_RESUME_PATH": path} if path else told


def proof_schema() -> Schema:
    """JSON Schema (2020-12) of the body."""
    return PROOF.schema()
