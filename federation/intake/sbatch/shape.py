"""The shape of the gang: from sbatch's many ways to ask for nodes, GPUs, tasks, CPUs and memory.

Slurm may spread GPUs and tasks unevenly; a gang has equal nodes. So what does not divide is refused,
and what contradicts is refused naming both lines.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from federation.core.spec.quantities import write_memory
from federation.intake.findings import Findings
from federation.intake.sbatch.arguments import Given
from federation.intake.sbatch.quantities import (
    Gpus,
    read_count,
    read_gpus,
    read_gres,
    read_memory_mib,
)

_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_LIST = re.compile(r"[0-9,:-]+")
_COUNTED = (
    "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu", "mincpus",
)  # fmt: skip
_GPUS = ("gres", "gpus-per-node", "gpus", "gpus-per-task")
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# The most GPUs that are taken for one node where nobody says how many nodes there are.
_ONE_NODE = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """Equal nodes. `cpus_per_gpu`, and `memory_mib` of a node: None = not asked."""

    nodes: int
    gpus_per_node: int
    tasks_per_node: int
    cpus_per_gpu: int | None
    memory_mib: int | None

    def gang(self) -> dict[str, Any]:
        """The sizes as fields of `gang`."""
        sizes: dict[str, Any] = {"nodes": self.nodes, "gpus_per_node": self.gpus_per_node}
        if self.cpus_per_gpu is not None:
            sizes["cpus_per_gpu"] = self.cpus_per_gpu
        if self.memory_mib is not None:
            sizes["memory_per_node"] = write_memory(self.memory_mib)
        return sizes


class _UnusableError(Exception):
    """The shape cannot be worked out; what is wrong has been told."""


def read_shape(given: Mapping[str, Given], findings: Findings) -> Shape | None:
    """The shape, or None with everything wrong with it told."""
    known = len(findings.problems)
    asked = _Asked(given, findings)
    asked.read()
    if len(findings.problems) > known:
        return None
    try:
        return asked.shape()
    except _UnusableError:
        return None


def gpu_kinds(given: Mapping[str, Given]) -> dict[str, Given]:
    """The GPU types that were named, in lower case, each with the option that names it."""
    kinds: dict[str, Given] = {}
    for name in _GPUS:
        one = given.get(name)
        gpus = None if one is None else _read_gpus(name, one.text)
        if one is not None and isinstance(gpus, Gpus) and gpus.kind:
            kinds.setdefault(gpus.kind.lower(), one)
    return kinds


def _read_gpus(name: str, text: str) -> Gpus | str | None:
    return read_gres(text) if name == "gres" else read_gpus(text)


class _Asked:
    """What was asked, read once: numbers by option."""

    def __init__(self, given: Mapping[str, Given], findings: Findings) -> None:
        self.given, self.findings = given, findings
        self.counts: dict[str, int] = {}
        self.memory_mib: dict[str, int] = {}

    def read(self) -> None:
        """Reads every number; tells those that are none."""
        readers = {
            **dict.fromkeys(_COUNTED, self._read_count),
            **dict.fromkeys(_MEMORY, self._read_memory),
            **dict.fromkeys(_GPUS, self._read_gpus),
            "nodes": self._read_nodes,
        }
        for name, reader in readers.items():
            if name in self.given:
                reader(name)
        by_tasks = {"ntasks", "ntasks-per-gpu"} <= self.given.keys()
        if not by_tasks and not any(name in self.given for name in _GPUS):
            self._tell_no_gpus()

    def shape(self) -> Shape:
        """The whole shape. Raises _UnusableError."""
        nodes = self._nodes()
        gpus = self._gpus_asked(nodes)
        said = self._tasks(nodes, gpus)
        gpus, tasks = self._gpus_by_task(gpus, said), said or 1
        if not gpus:
            self._tell_no_gpus()
            raise _UnusableError
        cpus, cpus_per_gpu = self._cpus(gpus, tasks)
        memory_mib = self._memory(gpus, cpus)
        self._note_origins()
        return Shape(nodes, gpus, tasks, cpus_per_gpu, memory_mib)

    def _read_count(self, name: str) -> None:
        self._keep(name, read_count(self.given[name].text), "a number of at least 1")

    def _read_memory(self, name: str) -> None:
        amount = read_memory_mib(self.given[name].text)
        if amount is None:
            self._invalid(name, "a number with K, M, G or T behind it")
        else:
            self.memory_mib[name] = amount

    def _keep(self, name: str, count: int | None, form: str) -> None:
        if count is None:
            self._invalid(name, form)
        else:
            self.counts[name] = count

    def _invalid(self, name: str, form: str) -> None:
        one = self.given[name]
        detail = f"Give {form}, not {one.text[:60]!r}."
        self.findings.refuse(one.line, "invalid_value", one.option.long, detail)

    def _tell_no_gpus(self) -> None:
        detail = (
            "It asks for no GPUs, and Muster runs jobs on GPUs only. "
            f"Add a line such as #SBATCH --gpus-per-node=8.{self.findings.ignored()}"
        )
        self.findings.refuse(self._line(*_GPUS), "no_gpus", "--gpus-per-node", detail)

    def _read_gpus(self, name: str) -> None:
        one = self.given[name]
        gpus = _read_gpus(name, one.text)
        if isinstance(gpus, Gpus):
            self.counts[name] = gpus.count
        elif gpus is None:
            form = "gpu:8 or gpu:h100:8" if name == "gres" else "8 or h100:8"
            self._invalid(name, f"a number of GPUs of one model, such as {form}")
        else:
            detail = f"Muster counts whole GPUs (gpu), not {gpus[:60]!r}."
            self.findings.refuse(one.line, "not_supported", one.option.long, detail)

    def _read_nodes(self, name: str) -> None:
        one = self.given[name]
        count = read_count(one.text)
        span = _RANGE.fullmatch(one.text)
        if span and int(span[1]) == int(span[2]):
            count = int(span[1]) or None
        if count is None and one.text and _LIST.fullmatch(one.text) and not one.text.isdigit():
            detail = (
                f"Several numbers of nodes ({one.text[:60]}) make an elastic job, which is not "
                "supported yet. Give one number."
            )
            self.findings.refuse(one.line, "not_supported", one.option.long, detail)
        else:
            self._keep(name, count, "one number of nodes")

    def _line(self, *names: str) -> int:
        return next((self.given[name].line for name in names if name in self.given), 1)

    def _contradict(self, first: str, second: str, why: str) -> NoReturn:
        """Two options that cannot both hold, told at the later line. Raises _UnusableError."""
        one, other = sorted((self.given[first], self.given[second]), key=lambda g: g.line)
        detail = (
            f"{why} (line {one.line}, {one.option.long}; line {other.line}, {other.option.long})."
        )
        self.findings.refuse(other.line, "contradiction", other.option.long, detail)
        raise _UnusableError

    def _uneven(self, name: str, what: str) -> NoReturn:
        """Something that does not divide. Raises _UnusableError."""
        one = self.given[name]
        detail = f"{what}: a gang's nodes are equal. Give a number that divides."
        self.findings.refuse(one.line, "uneven", one.option.long, detail)
        raise _UnusableError

    def _nodes(self) -> int:
        """Nodes as said, or as they follow from the rest; else one, with a warning."""
        counts = self.counts
        if "nodes" in counts:
            return counts["nodes"]
        if "gpus" in counts and (each := self._per_node()):
            if counts["gpus"] % each:
                self._uneven("gpus", f"{counts['gpus']} GPUs are no multiple of {each} a node")
            return max(counts["gpus"] // each, 1)
        tasks, each = self._all_tasks(), counts.get("ntasks-per-node", 0)
        if not each and "gpus-per-task" in counts and self._per_node():
            each = self._per_node() // max(counts["gpus-per-task"], 1)
        if each and tasks:
            if tasks > each and tasks % each:
                name = "ntasks" if "ntasks" in counts else "gpus"
                self._uneven(name, f"{tasks} tasks are no multiple of {each} a node")
            return max(tasks // each, 1)
        return self._one_node()

    def _all_tasks(self) -> int:
        """Tasks of the whole job, as said or as the total of its GPUs says; 0 = neither."""
        counts = self.counts
        if "ntasks" in counts:
            return counts["ntasks"]
        gpus, share = counts.get("gpus", 0), counts.get("gpus-per-task", 0)
        return gpus // share if share else gpus * counts.get("ntasks-per-gpu", 0)

    def _one_node(self) -> int:
        counts = self.counts
        tasks = counts.get("ntasks", 1)
        total = counts.get("gpus", tasks * counts.get("gpus-per-task", 0))
        line = self._line("gpus", "gpus-per-task", "ntasks")
        if total > _ONE_NODE:
            likely = -(-total // 8)
            detail = f"{total} GPUs on how many nodes? Add a line such as #SBATCH --nodes={likely}."
            self.findings.refuse(line, "no_nodes", "--nodes", detail)
            raise _UnusableError
        if total or tasks > 1:
            detail = "It says no number of nodes: taken as one node."
            self.findings.warn(line, "nodes_assumed", "--nodes", detail)
        return 1

    def _per_node(self) -> int:
        """GPUs a node as said of a node; 0 = not said."""
        counts = self.counts
        gres, flag = counts.get("gres"), counts.get("gpus-per-node")
        if gres is not None and flag is not None and gres != flag:
            self._contradict("gres", "gpus-per-node", f"{gres} and {flag} GPUs a node")
        return gres or flag or 0

    def _gpus_asked(self, nodes: int) -> int:
        """GPUs a node as far as they do not hang on tasks; 0 = not said."""
        counts, each = self.counts, self._per_node()
        if "gpus" in counts:
            total = counts["gpus"]
            if each and total != each * nodes:
                name = "gres" if "gres" in counts else "gpus-per-node"
                self._contradict("gpus", name, f"{total} GPUs are not {nodes} x {each}")
            if total % nodes:
                self._uneven("gpus", f"{total} GPUs over {nodes} nodes")
            return total // nodes
        if (
            not each
            and {"ntasks", "ntasks-per-gpu"} <= counts.keys()
            and "gpus-per-task" not in counts
        ):
            share, total = counts["ntasks-per-gpu"] * nodes, counts["ntasks"]
            if total % share:
                self._uneven("ntasks", f"{total} tasks over GPUs of {nodes} nodes")
            return total // share
        return each

    def _tasks(self, nodes: int, gpus: int) -> int:
        """Tasks a node; 0 = the script does not say."""
        counts = self.counts
        each = counts.get("ntasks-per-node", 0)
        by_gpu = counts.get("ntasks-per-gpu", 0) * gpus
        if each and by_gpu and each != by_gpu:
            self._contradict(
                "ntasks-per-node", "ntasks-per-gpu", f"{each} and {by_gpu} tasks a node"
            )
        if "ntasks" in counts:
            return self._tasks_over(nodes, each, by_gpu)
        if each or by_gpu:
            return each or by_gpu
        share = counts.get("gpus-per-task", 0)
        if share and gpus:
            if gpus % share:
                self._uneven("gpus-per-task", f"{gpus} GPUs a node over tasks of {share}")
            return gpus // share
        return 0

    def _tasks_over(self, nodes: int, each: int, by_gpu: int) -> int:
        """The total over the nodes. Beside it --ntasks-per-node is a most, as in Slurm."""
        total = self.counts["ntasks"]
        if total < nodes and "nodes" in self.given:
            self._contradict("ntasks", "nodes", f"{total} tasks cannot fill {nodes} nodes")
        if total % nodes:
            self._uneven("ntasks", f"{total} tasks over {nodes} nodes")
        tasks = total // nodes
        if each and tasks > each:
            self._contradict("ntasks", "ntasks-per-node", f"{total} tasks are not {nodes} x {each}")
        if by_gpu and tasks != by_gpu:
            self._contradict(
                "ntasks", "ntasks-per-gpu", f"{total} tasks are not {nodes} x {by_gpu}"
            )
        return tasks

    def _gpus_by_task(self, gpus: int, tasks: int) -> int:
        share = self.counts.get("gpus-per-task")
        if share is None:
            return gpus
        if gpus and tasks and gpus != share * tasks:
            name = next(n for n in ("gres", "gpus-per-node", "gpus") if n in self.counts)
            self._contradict(
                name, "gpus-per-task", f"{gpus} GPUs a node are not {tasks} tasks x {share}"
            )
        return gpus or share * (tasks or 1)

    def _cpus(self, gpus: int, tasks: int) -> tuple[int, int | None]:
        """CPUs a node, and for each GPU (None = not asked)."""
        counts = self.counts
        if {"cpus-per-task", "cpus-per-gpu"} <= counts.keys():
            self._contradict("cpus-per-task", "cpus-per-gpu", "Slurm takes one of them only")
        asked = counts.get("cpus-per-gpu", 0) * gpus or counts.get("cpus-per-task", 1) * tasks
        cpus = max(asked, counts.get("mincpus", 0))
        each = -(-cpus // gpus)
        named = next((n for n in ("cpus-per-task", "mincpus") if n in counts), None)
        if named and each * gpus != cpus:
            detail = f"{cpus} CPUs a node over {gpus} GPUs are rounded up to {each} for each GPU."
            self.findings.warn(self.given[named].line, "rounded_up", f"--{named}", detail)
        is_asked = named is not None or "cpus-per-gpu" in counts
        return each * gpus, each if is_asked or each > 1 else None

    def _memory(self, gpus: int, cpus: int) -> int | None:
        """MiB a node; None = the cluster's own rule."""
        amounts = self.memory_mib
        if len(amounts) > 1:
            first, second = list(amounts)[:2]
            self._contradict(first, second, "Slurm takes one of them only")
        for name, amount in amounts.items():
            if amount:
                return amount * {"mem": 1, "mem-per-gpu": gpus, "mem-per-cpu": cpus}[name]
            detail = (
                "0 asks for all memory of a node; the cluster's own rule holds. "
                "Name an amount to be sure of it."
            )
            self.findings.drop(self.given[name].line, f"--{name}", detail)
        return None

    def _note_origins(self) -> None:
        origins, gpus = self.findings.origins, self._line(*_GPUS)
        origins["/gang"] = origins["/gang/nodes"] = self._line("nodes", *_GPUS)
        origins["/gang/gpus_per_node"] = gpus
        origins["/gang/cpus_per_gpu"] = self._line(
            "cpus-per-gpu", "cpus-per-task", "mincpus", *_GPUS
        )
        origins["/gang/memory_per_node"] = self._line(*_MEMORY, *_GPUS)
        tasks = self._line("ntasks-per-node", "ntasks", "ntasks-per-gpu", "gpus-per-task", *_GPUS)
        origins["/run/tasks_per_node"] = tasks
