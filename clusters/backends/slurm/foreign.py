"""What others hold: every job on nodes that is not ours, and what nodes say beyond that."""

from collections import Counter
from collections.abc import Iterable, Sequence

from clusters.backends.slurm.memo import SeenJob, SeenNode
from clusters.core.observation import ForeignLoad, GangState

_WAITS = (GangState.PENDING, GangState.HELD)


def foreign_load(
    others: Iterable[SeenJob], ours: Iterable[SeenJob], nodes: Sequence[SeenNode]
) -> ForeignLoad:
    """Load of jobs that are not ours.

    Where a site hides other people's jobs (PrivateData), a node still says how many of its GPUs are
    in use; what no visible job explains is foreign too.
    """
    gpus: Counter[str] = Counter()
    cpus: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    running = pending = pending_gpus = 0
    for job in others:
        state = job.row.state
        if state in _WAITS:
            pending += 1
            pending_gpus += job.row.gpus
        running += state.holds_nodes
        for name, shape in job.usage.items():
            gpus[name] += shape.gpus
            cpus[name] += shape.cpus
            memory[name] += shape.memory_mib
    _add_hidden(gpus, ours, nodes)
    return ForeignLoad(dict(gpus), dict(cpus), dict(memory), running, pending, pending_gpus)


def _add_hidden(gpus: Counter[str], ours: Iterable[SeenJob], nodes: Iterable[SeenNode]) -> None:
    own: Counter[str] = Counter()
    for job in ours:
        for name, shape in job.usage.items():
            own[name] += shape.gpus
    for seen in nodes:
        name = seen.node.name
        hidden = seen.gpus_used - own[name] - gpus[name]
        # jobs and nodes are two reads: only a node whose jobs are hidden for certain counts
        if hidden > 0 and not own[name] and not gpus[name]:
            gpus[name] += hidden
