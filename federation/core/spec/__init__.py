"""What a job may say: `parse_spec` reads a body, `JobSpec` is the result, `job_schema` describes it."""

from federation.core.spec.kinds import MOST_PROBLEMS, Schema
from federation.core.spec.parse import CHANGEABLE, change_spec, parse_spec
from federation.core.spec.table import CLASSES, JOB, PRIORITIES, TIERS
from federation.core.spec.values import (
    Checkpoint,
    FlavorChoice,
    GangAsk,
    JobSpec,
    Parallelism,
    Run,
    UnknownSpecVersionError,
)

__all__ = [
    "CHANGEABLE",
    "CLASSES",
    "MOST_PROBLEMS",
    "PRIORITIES",
    "TIERS",
    "Checkpoint",
    "FlavorChoice",
    "GangAsk",
    "JobSpec",
    "Parallelism",
    "Run",
    "UnknownSpecVersionError",
    "change_schema",
    "change_spec",
    "job_schema",
    "parse_spec",
]


def job_schema() -> Schema:
    """JSON Schema (2020-12) of a job's body, from the parser's own declaration."""
    return JOB.schema()


def change_schema() -> Schema:
    """JSON Schema of the body of `PATCH /jobs/{id}`."""
    properties = JOB.schema()["properties"]
    kept = {name: properties[name] for name in CHANGEABLE}
    return {"type": "object", "properties": kept, "additionalProperties": False}
