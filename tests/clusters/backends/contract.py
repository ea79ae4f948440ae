"""What every Slurm must do for Muster: the same scenarios on recordings, simulator, real Slurm."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from clusters.backends.slurm import SlurmBackend
from clusters.backends.slurm.client import SlurmClient
from clusters.backends.slurm.limits import NOT_TAKEN
from clusters.core.backend import (
    NOT_RUNNING,
    BackendAmbiguousError,
    BackendRejectedError,
    BackendUnavailableError,
)
from clusters.core.observation import GangState, NodeState, Run
from clusters.core.resources import GangShape, NodeShape
from tests.clusters.backends.site import NOW_MS, Site
from tests.clusters.backends.transports import LosesAnswers, is_release, is_submit

Scenario = Callable[[Site], None]
RUNNING = GangState.RUNNING


def observes_the_fleet(site: Site) -> None:
    observed = site.look()
    assert observed.begun_ms == NOW_MS
    assert observed.cluster_ms > 0
    assert observed.cluster_ms % 1000 == 0
    assert observed.accounting_answered
    node = observed.nodes[0]
    assert (node.state, node.device, node.gpus) == (NodeState.UP, "h100", 8)
    assert node.cpus > 0
    assert node.memory_mib > 0
    assert [tier for tier, _ in node.path] == ["spine", "leaf"]
    assert len({node.path for node in observed.nodes}) > 1
    assert node.queues == ("batch",)
    queue = next(queue for queue in observed.queues if queue.name == "batch")
    assert queue.is_open
    assert queue.nodes == len(observed.nodes)
    assert queue.max_time_s == 14 * 86_400
    assert observed.foreign.running == 0


def submits_held_then_releases_once(site: Site) -> None:
    pinned = site.nodes()[1:3]
    gang = site.gang("once", pinned, "sleep 5")
    first = site.backend().submit(gang, is_repeat=False)
    running = site.until_state(gang.fence, RUNNING)
    assert running.backend_id == first.backend_id
    assert running.nodes == tuple(pinned)
    assert running.gpus == 16
    assert running.account == site.user
    assert running.started_ms is not None
    assert running.ended_ms is None
    again = site.backend().submit(gang)
    assert again == first
    ended = site.until_state(gang.fence, GangState.SUCCEEDED)
    assert site.backend().submit(gang) == first
    assert ended.exit_code == 0
    (run,) = ended.runs
    assert run.end_ms is not None
    assert 3_000 <= (run.end_ms - run.start_ms) * site.speed <= 20_000
    assert (run.gpus, run.nodes, run.state) == (16, tuple(pinned), GangState.SUCCEEDED)


def converges_after_a_lost_submit(site: Site) -> None:
    gang = site.gang("lost", site.nodes()[:1], "sleep 4")
    with pytest.raises(BackendAmbiguousError):
        site.backend(LosesAnswers(site.transport, is_submit)).submit(gang)
    (held,) = site.seen(gang.fence)
    assert held.state is GangState.HELD
    assert held.runs == ()
    answer = site.backend().submit(gang)
    assert answer.backend_id == held.backend_id
    ended = site.until_state(gang.fence, GangState.SUCCEEDED)
    assert len(ended.runs) == 1


def converges_after_a_lost_release(site: Site) -> None:
    gang = site.gang("rel", site.nodes()[:1], "sleep 3")
    with pytest.raises(BackendAmbiguousError):
        site.backend(LosesAnswers(site.transport, is_release)).submit(gang)
    answer = site.backend().submit(gang)
    assert answer.duplicates_cancelled == 0
    ended = site.until_state(gang.fence, GangState.SUCCEEDED)
    assert ended.backend_id == answer.backend_id
    assert len(ended.runs) == 1


def cancels_duplicates(site: Site) -> None:
    gang = site.gang("twin", site.nodes()[:1], "sleep 4")
    for _ in range(2):
        with pytest.raises(BackendAmbiguousError):
            site.backend(LosesAnswers(site.transport, is_submit)).submit(gang, is_repeat=False)
    lowest, second = sorted(site.seen(gang.fence), key=lambda seen: int(seen.backend_id))
    assert {lowest.state, second.state} == {GangState.HELD}
    answer = site.backend().submit(gang)
    assert (answer.backend_id, answer.duplicates_cancelled) == (lowest.backend_id, 1)
    site.until_state(gang.fence, GangState.SUCCEEDED)
    states = {seen.backend_id: (seen.state, seen.runs) for seen in site.seen(gang.fence)}
    assert states[second.backend_id] == (GangState.CANCELLED, ())


def never_revives_what_was_cancelled(site: Site) -> None:
    gang = site.gang("late", site.nodes()[:1])
    with pytest.raises(BackendAmbiguousError):
        site.backend(LosesAnswers(site.transport, is_submit)).submit(gang, is_repeat=False)
    site.backend().cancel(gang.fence, gang.account)
    late = site.backend().submit(gang, is_repeat=False)  # a call that was long on its way
    assert late.duplicates_cancelled == 1
    seen = site.seen(gang.fence)
    assert {one.state for one in seen} == {GangState.CANCELLED}
    assert all(one.runs == () for one in seen)


def leaves_foreign_objects_alone(site: Site) -> None:
    gang = site.gang("same", site.nodes()[:1], "sleep 30")
    theirs = site.outsider(gang.fence, site.nodes()[-1], "sleep 90")
    site.until(lambda: site.look().foreign.running == 1, "the stranger's job runs")
    site.backend().cancel(gang.fence, gang.account)
    answer = site.backend().submit(gang)
    assert answer.backend_id != str(theirs)
    site.until_state(gang.fence, RUNNING)
    observed = site.look(gang.fence)
    assert [seen.backend_id for seen in observed.gangs if seen.fence == gang.fence] == [
        answer.backend_id
    ]
    load = observed.foreign
    node = site.nodes()[-1]
    assert load.running == 1
    assert load.gpus == {node: 3}
    assert load.cpus[node] >= 2
    assert load.memory_mib == {node: 3000}
    site.backend().cancel(gang.fence, gang.account)
    site.until_state(gang.fence, GangState.CANCELLED)
    assert site.look().foreign.running == 1
    site.end_outsider(theirs)
    site.until(lambda: site.look().foreign.running == 0, "the stranger's job is gone")


def cancels_in_every_state(site: Site) -> None:
    backend = site.backend()
    pinned = site.nodes()[:1]
    runs, waits = site.gang("c1", pinned), site.gang("c2", pinned)
    backend.submit(runs)
    site.until_state(runs.fence, RUNNING)
    backend.submit(waits)
    site.until_state(waits.fence, GangState.PENDING)
    backend.cancel(waits.fence, site.user)
    assert site.until_state(waits.fence, GangState.CANCELLED).runs == ()
    backend.cancel(runs.fence, site.user)
    ended = site.until_state(runs.fence, GangState.CANCELLED)
    assert len(ended.runs) == 1
    backend.cancel(runs.fence, site.user)
    backend.cancel(site.fence("c3"), site.user)
    assert site.seen(site.fence("c3")) == []


def tells_exit_codes(site: Site) -> None:
    gang = site.gang("exit", site.nodes()[:1], "sleep 1\nexit 3")
    site.backend().submit(gang)
    ended = site.until_state(gang.fence, GangState.FAILED)
    assert ended.exit_code == 3
    assert ended.reason == "NonZeroExitCode"


def a_dead_node_ends_the_gang(site: Site) -> None:
    nodes = site.nodes()[:2]
    gang = site.gang("node", nodes)
    site.backend().submit(gang)
    site.until_state(gang.fence, RUNNING)
    site.hands.node_down(nodes[0])
    try:
        ended = site.until_state(gang.fence, GangState.NODE_FAILED)
        assert len(ended.runs) == 1
        observed = {node.name: node for node in site.look().nodes}
        assert observed[nodes[0]].state is NodeState.DOWN
        assert observed[nodes[0]].reason == "contract"
        assert observed[nodes[1]].state is NodeState.UP
    finally:
        site.hands.node_up(nodes[0])


def a_requeue_makes_two_runs(site: Site) -> None:
    gang = site.gang("req", site.nodes()[:1], "sleep 20")
    answer = site.backend().submit(gang)
    site.until_state(gang.fence, RUNNING)
    site.hands.requeue(answer.backend_id)

    def both() -> tuple[Run, ...] | None:
        gangs = site.seen(gang.fence)
        runs = gangs[0].runs if gangs else ()
        return runs if len(runs) == 2 else None

    first, second = site.until(both, "two runs")
    assert site.seen(gang.fence), "the next reading tells of it too"
    assert first.state is GangState.PREEMPTED
    assert first.end_ms is not None
    assert first.end_ms <= second.start_ms
    assert second.end_ms is None
    assert (first.gpus, second.gpus) == (8, 8)
    site.backend().cancel(gang.fence, gang.account)


def remembers_what_the_controller_forgot(site: Site) -> None:
    gang = site.gang("old", site.nodes()[:1], "sleep 1")
    site.hands.forget_finished(2)
    try:
        answer = site.backend().submit(gang)

        def is_forgotten() -> bool:
            return not any(seen.fence == gang.fence for seen in site.look().gangs)

        site.until(is_forgotten, "the controller forgets the job")
        (seen,) = site.until(lambda: site.seen(gang.fence), "accounting knows it")
        assert (seen.backend_id, seen.state) == (answer.backend_id, GangState.SUCCEEDED)
        assert len(seen.runs) == 1
        assert seen.exit_code == 0
        assert site.backend().submit(gang) == answer  # it has run: never again
        assert [one.backend_id for one in site.seen(gang.fence)] == [answer.backend_id]
    finally:
        site.hands.forget_finished(600)


def signals_what_runs(site: Site) -> None:
    script = "# simulate: seconds=8 checkpoint_on=USR1\nsleep 8 & wait $!\nwait"
    gang = site.gang("sig", site.nodes()[:1], script, signal="USR1", grace_s=60)
    backend = site.backend()
    with pytest.raises(BackendRejectedError) as early:
        backend.signal(gang.fence, gang.account, "USR1")
    assert early.value.code == NOT_RUNNING
    backend.submit(gang)
    site.until_state(gang.fence, RUNNING)
    time.sleep(5 * site.pause_s)  # Slurm says so before the shell is there that is to be guarded
    backend.signal(gang.fence, gang.account, "USR1")
    # the guarded shell lives on; what ended is the script's own wait
    ended = site.until_state(gang.fence, GangState.SUCCEEDED, GangState.FAILED)
    assert ended.state is GangState.SUCCEEDED
    with pytest.raises(BackendRejectedError) as late:
        backend.signal(gang.fence, gang.account, "USR1")
    assert late.value.code == NOT_RUNNING
    with pytest.raises(BackendRejectedError):
        backend.signal(gang.fence, gang.account, "NO SUCH")


def reads_checkpoints_from_the_comment(site: Site) -> None:
    gang = site.gang("note", site.nodes()[:1])
    backend = site.backend()
    job_id = backend.submit(gang, is_repeat=False).backend_id
    assert site.until_state(gang.fence, RUNNING).checkpoint_step is None
    for comment, step in (
        ("muster-checkpoint=120", 120),
        ("muster-checkpoint=-5", None),
        (f"muster:{gang.fence} muster-checkpoint=240", 240),
    ):
        site.comment(job_id, comment)
        (seen,) = site.seen(gang.fence)
        assert (seen.state, seen.checkpoint_step) == (RUNNING, step)
    # nobody asks for it by its fence: its mark says whose it is, without one it is a stranger's
    for comment, is_ours in (
        (f"muster:{gang.fence} muster-checkpoint=1", True),
        ("muster-checkpoint=360", False),
    ):
        site.comment(job_id, comment)
        observed = site.look()
        assert (gang.fence in {one.fence for one in observed.gangs}) is is_ours
        assert observed.foreign.running == int(not is_ours)
    assert backend.submit(gang).backend_id == job_id
    backend.cancel(gang.fence, gang.account)
    assert site.until_state(gang.fence, GangState.CANCELLED).checkpoint_step == 360


REFUSALS = {
    "partition": ({"queue": "nope"}, "2000"),
    "charge": ({"charge": "nope"}, "2045"),
    "class": ({"service_class": "nope"}, "2066"),
}


def refuses_in_its_own_words(site: Site) -> None:
    for label, (changes, code) in REFUSALS.items():
        gang = site.gang(f"no{label}", site.nodes()[:1], **changes)
        with pytest.raises(BackendRejectedError) as refused:
            site.backend().submit(gang, is_repeat=False)
        assert refused.value.code == code, label
        assert site.seen(gang.fence) == []


def says_why_the_impossible_waits(site: Site) -> None:
    """A held submit skips Slurm's look at the nodes (2014): what cannot run waits, and says so."""
    shape = GangShape(1, NodeShape(9, 2, 2000), exclusive=True)
    gang = site.gang("nine", site.nodes()[:1], shape=shape)
    site.backend().submit(gang)

    def reason() -> str:
        return next((seen.reason for seen in site.seen(gang.fence)), "")

    assert site.until(reason, "a reason") == "BadConstraints"
    (seen,) = site.seen(gang.fence)
    assert (seen.state, seen.nodes, seen.runs) == (GangState.PENDING, (), ())
    site.backend().cancel(gang.fence, gang.account)
    site.until_state(gang.fence, GangState.CANCELLED)


def tells_a_bad_token_from_a_refusal(site: Site) -> None:
    wrong = replace(site, connection=replace(site.connection, secret=b"x" * 32), made=[])
    with pytest.raises(BackendUnavailableError) as refused:
        wrong.backend().observe(NOW_MS, [])
    assert refused.value.code == "auth"
    with pytest.raises(BackendUnavailableError):
        wrong.backend().submit(site.gang("tok", ["n0"]))
    findings = wrong.backend().probe(NOW_MS).findings
    assert [(finding.capability, finding.is_on) for finding in findings] == [("reachable", False)]
    wrong.close()


def probes_its_capabilities(site: Site) -> None:
    report = site.backend().probe(NOW_MS)
    assert report.api == "v0.0.38"
    assert report.version.startswith("22.05")
    on = {name for name, is_on in report.capabilities.items() if is_on}
    assert {"reachable", "accounting", "queues", "devices", "topology", "signal"} <= on
    assert on.isdisjoint({"drain", "logs", "reclassify"})
    assert all(finding.fix for finding in report.findings if not finding.is_on)


def sets_limits_of_accounts_and_nothing_else(site: Site) -> None:
    seen = site.backend().limits()
    assert seen.obstacle is None
    assert {"gpu", "gpu:h100"} <= seen.counted
    mine = {one.account for one in seen.holders if one.user == site.user and one.is_default}
    assert len(mine) == 1
    first, second = "vision", "ml"
    for one in (second, first):  # whichever stood first, now the latter does
        site.backend().set_limits({one: {"gpu:h100": 4}}, seen.name)
    for gpus in (8, 16):  # one of them stands first, and Slurm drops the order
        wanted = {first: {"gpu:h100": gpus}, second: {"gpu:h100": 2 * gpus}}
        assert site.backend().set_limits(wanted, seen.name) == {first: "", second: ""}
        assert site.backend().set_limits(wanted, seen.name) == {first: "", second: ""}
    held = next(one for one in seen.holders if one.account == second and not one.user)
    all_gpus = held.gpus.get("gpu", 40) + 1
    taken = {second: {"gpu": all_gpus, "gpu:h100": 32}}
    assert site.backend().set_limits(taken, seen.name) == {second: ""}
    told = site.backend().set_limits({second: {"gpu": all_gpus + 1}}, seen.name)
    assert told == {second: NOT_TAKEN}
    taken = {second: {"gpu": all_gpus + 1, "gpu:h100": 32}}
    beside = {first: {"gpu:h100": 16}, **taken}  # which is set already, and steps before it
    assert site.backend().set_limits(beside, seen.name) == {first: "", second: ""}
    after = site.backend().limits()
    known = {first: {"gpu:h100": 16}, second: taken[second]}
    for before in seen.holders:
        is_ours = before.account in known and not before.user
        gpus = known[before.account] if is_ours else before.gpus
        assert replace(before, gpus=gpus) in after.holders


def sets_no_limit_that_it_may_not_or_cannot(site: Site) -> None:
    seen = site.backend().limits()
    told = site.backend().set_limits({"nobodys": {"gpu:h100": 8}}, seen.name)
    assert told == {"nobodys": "there is no such account in its accounting"}
    told = site.backend().set_limits({"root": {"gpu:h100": 8}}, seen.name)
    assert told == {"root": "it has no account above it"}
    told = site.backend().set_limits({"vision": {"gpu:zzz": 8}}, seen.name)
    assert "Couldn't find TRES matching name:gpu:zzz" in told["vision"]
    person = SlurmBackend(
        SlurmClient(replace(site.connection, account=site.user), transport=site.transport)
    )
    obstacle = person.limits().obstacle
    assert obstacle is not None
    assert obstacle.code == "no_right"
    assert "AdminLevel=Operator" in obstacle.fix
    told = person.set_limits({"vision": {"gpu:h100": 9}, "ml": {"gpu:h100": 9}}, seen.name)
    assert set(told.values()) == {"Access/permission denied"}
    assert site.backend().limits() == seen
    person.close()


SCENARIOS: tuple[Scenario, ...] = (
    observes_the_fleet,
    submits_held_then_releases_once,
    converges_after_a_lost_submit,
    converges_after_a_lost_release,
    cancels_duplicates,
    never_revives_what_was_cancelled,
    leaves_foreign_objects_alone,
    cancels_in_every_state,
    tells_exit_codes,
    a_dead_node_ends_the_gang,
    a_requeue_makes_two_runs,
    remembers_what_the_controller_forgot,
    signals_what_runs,
    reads_checkpoints_from_the_comment,
    refuses_in_its_own_words,
    says_why_the_impossible_waits,
    tells_a_bad_token_from_a_refusal,
    probes_its_capabilities,
    sets_limits_of_accounts_and_nothing_else,
    sets_no_limit_that_it_may_not_or_cannot,
)
