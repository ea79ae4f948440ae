"""What holds for every history with upheavals: states lost, clocks that jump, an operator's hand."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import Partition
from simulator.engine import operator, restarts
from simulator.engine.clocks import jump, set_skew, shown_ms
from simulator.engine.clockwork import advance, new_world
from simulator.engine.commands import blink, cancel, set_nodes
from simulator.engine.foreign import submit_foreign, take_nodes
from simulator.engine.model import RefusedError, State, World
from simulator.engine.saving import restore_world, save_world
from simulator.slurm.accounting import known_runs
from tests.simulator.test_engine_properties import (
    BUSY,
    DEEDS,
    START,
    Step,
    act,
    check,
    requests,
)

CONFIG = replace(
    BUSY,
    partitions=[Partition("batch", default=True), Partition("small", "alpha-n[000-003]")],
)
Upheaval = Callable[[World, int, int], object]


def a_node(number: int) -> str:
    return f"alpha-n{number % 8:03d}"


def a_job(world: World, number: int) -> int:
    """The id of a job that slurmctld knows; 1 if it knows none."""
    ids = sorted(world.jobs)
    return ids[number % len(ids)] if ids else 1


def ambush(world: World, number: int, now_ms: int) -> None:
    world.ambushes, world.ambush_seconds = number % 3, 30


def impostor(world: World, number: int, now_ms: int) -> None:
    advance(world, now_ms)
    submit_foreign(world, user="eve", account="", name="run", nodes=1 + number % 3, seconds=number)


def take(world: World, number: int, now_ms: int) -> None:
    advance(world, now_ms)
    take_nodes(world, [a_node(number), a_node(number + 1)], seconds=number + 1)


def deaf(world: World, number: int, now_ms: int) -> None:
    world.accounting_deaf = number % 2 == 0


def lag(world: World, number: int, now_ms: int) -> None:
    world.accounting_lag_ms = number * 1000


UPHEAVALS: dict[str, Upheaval] = {
    "lost": lambda w, n, t: restarts.lose_state(w, t, cold=n % 2 == 0),
    "older": lambda w, n, t: restarts.recall_state(w, t - n * 2500, t),
    "older still": lambda w, n, t: restarts.recall_state(w, t - n * 20_000, t),
    "next id": lambda w, n, t: restarts.set_next_id(w, 1 + n, t),
    "vanish": lambda w, n, t: restarts.vanish(w, a_job(w, n), t, [None, State.FAILED][n % 2]),
    "forget finished": lambda w, n, t: restarts.forget_finished(w, t),
    "lose records": lambda w, n, t: restarts.lose_records(w, {n}),
    "freeze records": lambda w, n, t: restarts.freeze_records(w, {n}),
    "requeue": lambda w, n, t: operator.requeue_by_hand(w, a_job(w, n), t),
    "hold": lambda w, n, t: operator.hold(w, a_job(w, n), t),
    "release": lambda w, n, t: operator.release_by_hand(w, a_job(w, n), t),
    "move": lambda w, n, t: operator.move(w, a_job(w, n), t, partition=["small", "batch"][n % 2]),
    "repin": lambda w, n, t: operator.move(w, a_job(w, n), t, nodes=(a_node(n),)),
    "limit": lambda w, n, t: operator.set_time_limit(w, a_job(w, n), 1 + n % 4, t),
    "cancel by hand": lambda w, n, t: operator.cancel_by_hand(w, a_job(w, n), t),
    "blink": lambda w, n, t: blink(w, [a_node(n)], 1 + n * 300, t),
    "silent": lambda w, n, t: blink(w, [a_node(n)], 1 + n * 300, t, silent=True),
    "jump": lambda w, n, t: jump(w, (n - 20) * 60_000),
    "skew": lambda w, n, t: set_skew(w, (n - 20) * 1000),
    "ambush": ambush,
    "impostor": impostor,
    "take": take,
    "deaf": deaf,
    "lag": lag,
}
HISTORIES = st.lists(
    st.builds(
        Step,
        st.integers(0, 40_000),
        st.sampled_from([*DEEDS, *DEEDS[:4], *UPHEAVALS]),
        st.integers(0, 40),
        requests(),
    ),
    max_size=40,
)


def do(world: World, step: Step, now_ms: int) -> None:
    if step.deed in UPHEAVALS:
        advance(world, now_ms)
        with suppress(RefusedError):
            UPHEAVALS[step.deed](world, step.number, now_ms)
    else:
        act(world, step, now_ms)


def check_memory(world: World) -> None:
    """slurmctld's indexes agree, and nothing is due to a job that is gone."""
    assert world.waiting == {job.id for job in world.jobs.values() if job.waiting}
    named = {i for ids in world.by_name.values() for i in ids}
    assert named == set(world.jobs)
    about_jobs = {"finish", "limit", "completed", "purge", "eligible"}
    assert {e[3] for e in world.heap if e[2] in about_jobs} <= set(world.jobs)
    assert all(e[0] >= world.now_ms for e in world.heap)
    for job in world.jobs.values():
        assert job.run.job_id == job.id
        assert job.run.state is job.state
        assert job.run.request is job.request


def check_records(world: World) -> None:
    """Each record makes sense by itself, also as a lagging accounting shows it."""
    for run in [*world.records, *known_runs(world, world.now_ms)]:
        assert run.submit_ms <= (run.start_ms or run.submit_ms) <= (run.end_ms or START * 2)
        assert bool(run.shares) == bool(run.start_ms)


def check_truth(world: World) -> None:
    """What really ran: what runs now is all that stays, and no node was anybody's twice."""
    alive = [job for job in world.jobs.values() if job.state is State.RUNNING]
    open_stays = {id(stay) for stay in world.stays if not stay.end_ms}
    assert open_stays == {id(job.stay) for job in alive}
    assert all(job.stay and set(job.stay.nodes) == set(job.shares) for job in alive)
    whole: dict[str, list[tuple[int, int]]] = {}
    for stay in world.stays:
        assert stay.start_ms <= (stay.end_ms or world.now_ms)
        for node in stay.nodes if stay.name.startswith("foreign") else ():  # they take whole nodes
            whole.setdefault(node, []).append((stay.start_ms, stay.end_ms or world.now_ms))
    for times in whole.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(times)))


@settings(max_examples=60, deadline=None)
@given(history=HISTORIES)
def test_a_cluster_stays_whole_through_any_upheaval(history: list[Step]) -> None:
    world, now_ms = new_world(CONFIG, START), START
    for step in history:
        now_ms += step.wait_ms
        do(world, step, now_ms)
        assert world.now_ms == now_ms
        check(world)
        check_memory(world)
        check_records(world)
        check_truth(world)
    set_nodes(world, list(world.nodes), "up", "", now_ms)
    world.foreign = None
    for job_id in sorted(world.waiting):
        cancel(world, job_id, operator.ROOT, now_ms)
    advance(world, now_ms + 86_400_000)
    assert not world.jobs
    assert all(node.owners == [0] * 8 and node.available for node in world.nodes.values())


@settings(max_examples=30, deadline=None)
@given(history=HISTORIES, cuts=st.lists(st.integers(1, 39_999), max_size=3))
def test_upheavals_too_give_the_same_world_however_it_is_watched(
    history: list[Step], cuts: list[int]
) -> None:
    once, watched, now_ms = new_world(CONFIG, START), new_world(CONFIG, START), START
    for step in history:
        for cut in sorted(cuts):
            if cut < step.wait_ms:
                advance(watched, now_ms + cut)
        now_ms += step.wait_ms
        do(once, step, now_ms)
        do(watched, step, now_ms)
        watched = restore_world(save_world(watched), CONFIG)
    assert save_world(once) == save_world(watched)


@given(jumps=st.lists(st.tuples(st.integers(0, 90_000), st.integers(-90_000, 90_000)), max_size=6))
def test_what_the_clock_has_shown_is_never_written_anew(jumps: list[tuple[int, int]]) -> None:
    world, now_ms, written = new_world(CONFIG, START), START, {}
    for wait_ms, by_ms in jumps:
        now_ms += wait_ms + 1
        advance(world, now_ms)
        written[now_ms - 1] = shown_ms(world, now_ms - 1)
        before = shown_ms(world, now_ms)
        jump(world, by_ms)
        assert shown_ms(world, now_ms) == before + by_ms
        assert world.now_ms == now_ms
    assert written == {ms: shown_ms(world, ms) for ms in written}
    assert shown_ms(world, 0) == 0


def test_a_state_saved_by_the_first_version_is_read() -> None:
    """Requests were kept by job id then; an upgrade of the program keeps a cluster's jobs."""
    old = json.loads((Path(__file__).parent / "states" / "first_version.json").read_text())
    config = replace(BUSY, nodes=2, gpus_per_node=2, foreign=None, accounting_lag_ms=7)
    world = restore_world(old, config)
    check(world)
    check_memory(world)
    found = {job.request.name: job.state for job in world.jobs.values()}
    assert found == {
        "over": State.COMPLETED,
        "running": State.PENDING,
        "waiting": State.RUNNING,
        "held": State.PENDING,
    }
    assert world.accounting_lag_ms == 7
    assert restore_world(save_world(world), config).now_ms == world.now_ms
    advance(world, world.now_ms + 400_000)
    names = [run.request.name for run in world.records if run.state is State.COMPLETED]
    assert names == ["over", "waiting"]
