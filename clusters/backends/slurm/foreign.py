"""What others hold: every job on nodes that is not ours, and what nodes say beyond that."""

from collections import Counter
from collections.abc import Iterable, Sequence

from clusters.backends.slurm import gres
from clusters.backends.slurm.hostlist import expand
from clusters.backends.slurm.read import controller_job, usage_by_node
from clusters.backends.slurm.values import Json, number
from clusters.core.observation import ForeignLoad, GangState


def foreign_load(
    others: Iterable[Json], ours: Iterable[Json], nodes: Sequence[Json]
) -> ForeignLoad:
    """Load of jobs that are not ours; raw rows of `jobs` (others, ours) and `nodes`.

    Where a site hides other people's jobs (PrivateData), a node still says how many of its GPUs are
    in use; what no visible job explains is foreign too.
    """
    threads_of = {str(raw.get("name")): number(raw.get("threads")) or 1 for raw in nodes}
    gpus: Counter[str] = Counter()
    cpus: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    running = pending = pending_gpus = 0
    for raw in others:
        row = controller_job(raw)
        if row.state in {GangState.PENDING, GangState.HELD}:
            pending += 1
            pending_gpus += row.gpus
        if not row.state.holds_nodes:
            continue
        running += 1
        for name, shape in usage_by_node(raw, _threads(raw, threads_of)).items():
            gpus[name] += shape.gpus
            cpus[name] += shape.cpus
            memory[name] += shape.memory_mib
    _add_hidden(gpus, ours, nodes)
    return ForeignLoad(dict(gpus), dict(cpus), dict(memory), running, pending, pending_gpus)


def _threads(raw: Json, threads_of: dict[str, int]) -> int:
    names = expand(raw.get("nodes"))
    return threads_of.get(names[0], 1) if names else 1


def _add_hidden(gpus: Counter[str], ours: Iterable[Json], nodes: Iterable[Json]) -> None:
    own: Counter[str] = Counter()
    for raw in ours:
        if controller_job(raw).state.holds_nodes:
            own.update({name: shape.gpus for name, shape in usage_by_node(raw, 1).items()})
    for raw in nodes:
        name = str(raw.get("name"))
        hidden = gres.count(raw.get("gres_used")) - own[name] - gpus[name]
        # jobs and nodes are two reads: only a node whose jobs are hidden for certain counts
        if hidden > 0 and not own[name] and not gpus[name]:
            gpus[name] += hidden
