"""What a container asks of its node: GPUs, CPUs, memory, network devices."""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final

from federation.intake.findings import Findings
from federation.intake.vcjob.quantities import read_mebibytes, read_quantity
from federation.intake.vcjob.walk import Spot

# As the job's own field `run.rdma` tells GPUs from network devices.
_GPU = re.compile(r"gpu|mig-|npu|ascend|gaudi|i915|/xe|tpu|accelerator", re.IGNORECASE)
_PART = re.compile(r"vgpu|vnpu|gpu-|gpumem|gpucores|mig-|\.shared", re.IGNORECASE)
_DISK: Final = "ephemeral-storage"


@dataclass(slots=True)
class Need:
    """What each pod needs. `cpus` and `memory_mib` 0 = not asked; `lines` by what it is."""

    resource: str = ""
    gpus: int = 0
    cpus: int = 0
    memory_mib: int = 0
    rdma: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


def read_need(container: Spot, findings: Findings) -> Need:
    """The limits, and requests where there is no limit; what cannot be asked is told."""
    need = Need()
    asked: dict[str, Spot] = {}
    for kind in ("limits", "requests"):
        at = container.get("resources", kind)
        for name, one in at.fields() if at else ():
            if name in asked and _GPU.search(name) and not _same(asked[name], one):
                detail = f"{one.text} is not the limit, {asked[name].text}. GPUs are asked whole."
                findings.refuse(one.line, "contradiction", one.path, detail)
            asked.setdefault(name, one)
    for name, one in asked.items():
        _take(name, one, need, findings)
    return need


def _same(one: Spot, other: Spot) -> bool:
    return read_quantity(one.text) == read_quantity(other.text)


def _take(name: str, one: Spot, need: Need, findings: Findings) -> None:
    amount = read_quantity(one.text)
    if amount is None:
        detail = f"Give a quantity, as in 8, 500m or 900Gi, not {one.text[:60]!r}."
        findings.refuse(one.line, "invalid_value", one.path, detail)
    elif not amount:
        return
    elif name == "cpu":
        need.cpus, need.lines["cpus"] = ceil(amount), one.line
    elif name == "memory":
        need.memory_mib, need.lines["memory"] = read_mebibytes(one.text) or 0, one.line
    elif name == _DISK:
        findings.drop(one.line, one.path, "Local disks are not known to Muster yet.")
    else:
        _take_device(name, amount, one, need, findings)


def _take_device(name: str, amount: Fraction, one: Spot, need: Need, findings: Findings) -> None:
    """GPUs, or else network devices."""
    if _PART.search(name):
        detail = "Parts of GPUs are not supported: a gang's GPUs are whole."
        findings.refuse(one.line, "not_supported", one.path, detail)
    elif "/" not in name:
        detail = "It cannot be asked for. There are GPUs, cpu, memory and network devices."
        findings.refuse(one.line, "refused", one.path, detail)
    elif amount.denominator != 1:
        detail = f"{one.text[:60]} is no whole number. Devices are asked for whole."
        findings.refuse(one.line, "invalid_value", one.path, detail)
    elif not _GPU.search(name):
        need.rdma[name], need.lines[f"rdma/{name}"] = int(amount), one.line
        need.lines.setdefault("rdma", one.line)
    elif need.gpus:
        detail = f"{need.resource} is asked for, too. A gang's GPUs are of one kind."
        findings.refuse(one.line, "contradiction", one.path, detail)
    else:
        need.resource, need.gpus, need.lines["gpus"] = name, int(amount), one.line
