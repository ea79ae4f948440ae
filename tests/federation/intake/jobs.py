"""The federation that the Volcano Jobs of these tests are read for."""

from typing import Any

from federation.intake.job import ForeignJob
from federation.intake.vcjob import read_vcjob, vcjob_of
from tests.federation.intake.place import MODELS, place

GPUS = {
    "nvidia.com/gpu": ("a100-sxm-80", "h100-sxm-80"),
    "nvidia.com/gpu:h200": ("h200-sxm-141",),
    "huawei.com/ascend910": ("ascend-910b",),
}
QUOTA = ("h100-sxm-80", "a100-sxm-80", "ascend-910b")


def read(text: str, **changes: Any) -> Any:
    """What a file becomes, for a tenant with quota for three models of four."""
    known = {"models": {**MODELS, **GPUS}, "entitled": QUOTA, **changes}
    return vcjob_of(read_vcjob(text), place(**known))


def outcome(text: str, **changes: Any) -> dict[str, Any]:
    """The same as plain values: the job, or what it is refused for."""
    made = read(text, **changes)
    if not isinstance(made, ForeignJob):
        return {"refused": [[one.pointer, one.code, _field(one.detail)] for one in made]}
    return {
        "job": made.body,
        "warnings": [[one.line, one.code, one.option] for one in made.warnings],
        "dropped": [[one.line, one.option] for one in made.dropped],
    }


def _field(detail: str) -> str:
    """The field that a problem names behind its line; "" where it names none."""
    where = detail.partition(": ")[0]
    return where.partition(", ")[2]
