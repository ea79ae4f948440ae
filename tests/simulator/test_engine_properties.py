"""What holds for every history of a cluster, whatever users and accidents do."""

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import Cluster, Foreign, Tier, User
from simulator.engine.clockwork import advance, new_world
from simulator.engine.commands import Actor, cancel, send_signal, set_nodes, submit, update
from simulator.engine.model import RefusedError, Request, State, World
from simulator.engine.saving import restore_world, save_world

START = 1_800_000_000_000
MIA = Actor("www-data")
CONFIG = Cluster(
    name="alpha",
    jwt_key_file="",
    nodes=8,
    tiers=[Tier("leaf", 4)],
    users=[User("www-data", 33, ["ml"])],
    min_job_age_ms=60_000,
)
STREAM = Foreign(percent=40, nodes=[1, 3], seconds=[20, 90], every_seconds=15)
BUSY = replace(CONFIG, foreign=STREAM)


@dataclass(frozen=True)
class Step:
    """Something that happens, after waiting so long."""

    wait_ms: int
    deed: str
    number: int
    request: Request


def requests() -> st.SearchStrategy[Request]:
    def build(
        nodes: int, gpus: int, seconds: int, minutes: int, options: tuple[bool, bool, bool, bool]
    ) -> Request:
        hold, requeue, exclusive, singleton = options
        return Request(
            user="www-data",
            uid=33,
            name="run",
            account="ml",
            partition="batch",
            qos="low",
            script=f"#!/bin/sh\n# simulate: seconds={seconds} exit={seconds % 2}\n",
            nodes_min=nodes,
            nodes_max=nodes,
            gpus_per_node=gpus,
            gpu_type="h100",
            time_limit=minutes,
            hold=hold,
            requeue=requeue,
            exclusive=exclusive,
            dependency="singleton" if singleton else "",
        )

    flags = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans())
    return st.builds(
        build, st.integers(1, 8), st.integers(0, 8), st.integers(0, 200), st.integers(1, 3), flags
    )


DEEDS = ["submit", "submit", "submit", "cancel", "signal", "release", "hold"]
DEEDS += ["down", "up", "drain", "undrain"]
HISTORIES = st.lists(
    st.builds(Step, st.integers(0, 40_000), st.sampled_from(DEEDS), st.integers(0, 40), requests()),
    max_size=40,
)


def act(world: World, step: Step, now_ms: int) -> None:
    """One step; what Slurm refuses is refused."""
    job_id = 1 + step.number % max(1, world.next_job_id)
    node = f"alpha-n{step.number % 8:03d}"
    try:
        match step.deed:
            case "submit":
                submit(world, step.request, now_ms)
            case "cancel":
                cancel(world, job_id, MIA, now_ms)
            case "signal":
                send_signal(world, job_id, 10, MIA, now_ms)
            case "release" | "hold":
                update(world, job_id, {"hold": step.deed == "hold"}, MIA, now_ms)
            case _:
                set_nodes(world, [node], step.deed, "test", now_ms)
    except RefusedError:
        pass


def check(world: World) -> None:
    """No node over capacity, a GPU has one owner, a gang is whole or nothing."""
    for node in world.nodes.values():
        shares = [world.jobs[i].shares[node.name] for i in node.jobs]
        assert node.cpus_used == sum(s.cpus for s in shares) <= node.cpus
        assert node.memory_used_mb == sum(s.memory_mb for s in shares) <= node.memory_mb
        owned = {i: owner for i, owner in enumerate(node.owners) if owner}
        assert owned == {g: j for j in node.jobs for g in world.jobs[j].shares[node.name].gpus}
        assert node.exclusive_by == 0 or node.jobs == {node.exclusive_by}
        running = [j for j in node.jobs if world.jobs[j].state is State.RUNNING]
        assert not (node.down and running)
    for job in world.jobs.values():
        if job.state is State.RUNNING:
            assert len(job.shares) == job.demand.nodes
            assert all(len(s.gpus) == job.demand.gpus for s in job.shares.values())
            assert all(job.id in world.nodes[name].jobs for name in job.shares)
        if job.waiting:
            assert job.shares == {}
            assert job.id in world.waiting


def check_accounting(world: World) -> None:
    """Every run is there once, in order, without overlap; the last one says how the job stands."""
    by_job: dict[int, list[int]] = {run.job_id: [] for run in world.records}
    for index, run in enumerate(world.records):
        by_job[run.job_id].append(index)
    for job_id, indexes in by_job.items():
        runs = [world.records[i] for i in indexes]
        job = world.jobs.get(job_id)
        assert len(runs) == 1 + (job.restarts if job else len(runs) - 1)
        assert all(run.end_ms for run in runs[:-1])
        assert all(run.state is State.NODE_FAIL for run in runs[:-1])
        for run in runs:
            assert run.submit_ms <= (run.start_ms or run.submit_ms) <= (run.end_ms or START * 2)
            assert bool(run.shares) == bool(run.start_ms)
        for before, after in pairwise(runs):
            assert before.end_ms <= after.submit_ms
        if job is not None:
            assert runs[-1].state is job.state


@settings(max_examples=60, deadline=None)
@given(history=HISTORIES)
def test_capacity_gangs_and_accounting_hold_through_any_history(
    history: list[Step],
) -> None:
    world, now_ms = new_world(CONFIG, START), START
    for step in history:
        now_ms += step.wait_ms
        advance(world, now_ms)
        check(world)
        act(world, step, now_ms)
        check(world)
        check_accounting(world)
    set_nodes(world, list(world.nodes), "up", "", now_ms)
    for job_id in list(world.jobs):
        if world.jobs[job_id].priority == 0:
            cancel(world, job_id, MIA, now_ms)
    advance(world, now_ms + 86_400_000)
    assert not world.waiting
    assert all(run.end_ms for run in world.records)
    check(world)
    check_accounting(world)


@settings(max_examples=40, deadline=None)
@given(history=HISTORIES, cuts=st.lists(st.integers(1, 39_999), max_size=4))
def test_the_same_history_gives_the_same_world_however_it_is_watched(
    history: list[Step], cuts: list[int]
) -> None:
    """Looking in between changes nothing, and neither does a restart from the saved state."""
    once, watched, now_ms = new_world(BUSY, START), new_world(BUSY, START), START
    for step in history:
        for cut in sorted(cuts):
            if cut < step.wait_ms:
                advance(watched, now_ms + cut)
        now_ms += step.wait_ms
        act(once, step, now_ms)
        act(watched, step, now_ms)
        watched = restore_world(save_world(watched), BUSY)
    advance(once, now_ms + 1000)
    advance(watched, now_ms + 1000)
    assert save_world(once) == save_world(watched)


@settings(max_examples=40, deadline=None)
@given(history=HISTORIES)
def test_foreign_load_obeys_the_same_rules(history: list[Step]) -> None:
    world, now_ms = new_world(BUSY, START), START
    for step in history:
        now_ms += step.wait_ms
        act(world, step, now_ms)
        check(world)
        check_accounting(world)
