"""The contract's services: proofs by comment, asks for many, where a saved job goes, what it is told."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.core.gang import Gang
from clusters.core.observation import GangSeen, GangState
from clusters.models import Command, Observation
from clusters.selectors.traffic import gang_to_json
from clusters.services.deliver import furnished
from federation.core.cycle import decide
from federation.models import Attempt, Job
from federation.selectors.snapshot import take_snapshot
from federation.services.checkpoint import (
    FROM_JOB,
    Proof,
    ask_checkpoint,
    record_notes,
    record_proofs,
)
from federation.services.commit import begin_term, commit_plan
from federation.services.reconcile import reconcile_cluster
from kit.job_token import fence_of
from tenancy.models import Event
from tests.clusters.backends.test_translate import GANG
from tests.federation.world import NOW, World

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(minutes=5)


def bind(world: World, job: Job, now: datetime = NOW) -> Attempt:
    """The arbiter binds the job; its newest attempt."""
    commit_plan(plan=decide(take_snapshot(now)), epoch=begin_term(now=now), now=now)
    return Attempt.objects.filter(job=job).latest("number")


def run(attempt: Attempt) -> Attempt:
    """It was forwarded and runs."""
    Command.objects.filter(key=f"submit:{attempt.id}").update(
        state="done", sent_at=NOW, answered_at=NOW, answer={"backend_id": "7"}
    )
    Attempt.objects.filter(pk=attempt.pk).update(state="running", accepted_at=NOW, started_at=NOW)
    Job.objects.filter(pk=attempt.job_id).update(state="running")
    return attempt


def end(attempt: Attempt) -> None:
    """It was evicted; the job waits again."""
    Attempt.objects.filter(pk=attempt.pk).update(state="ended", ended_at=NOW)
    Job.objects.filter(pk=attempt.job_id).update(state="queued", class_now="")


def seen(attempt: Attempt, comment: str, **changes: object) -> GangSeen:
    gang = GangSeen(
        fence=attempt.fence,
        backend_id="7",
        state=GangState.RUNNING,
        reason="",
        account=attempt.account,
        nodes=tuple(attempt.nodes),
        gpus=8,
        submitted_ms=0,
        started_ms=0,
        ended_ms=None,
        exit_code=None,
        comment=comment,
    )
    return replace(gang, **changes)  # type: ignore[arg-type]


def noted(attempt: Attempt, comment: str, **changes: object) -> int | None:
    """What stands proven of it after its comment was read."""
    gangs = [seen(attempt, comment, **changes)]
    record_notes(cluster_id=attempt.cluster_id, gangs=gangs, now=LATER)
    attempt.refresh_from_db()
    return attempt.saved_step


def test_a_comment_proves_forwards_only() -> None:
    world = World()
    attempt = run(bind(world, world.job()))
    steps = [
        noted(attempt, f"muster-checkpoint={said}")
        for said in ("120", "120", "7", "-3", "much", str(2**60), "240")
    ]
    assert steps == [120, 120, 120, 120, 120, 120, 240]
    assert (attempt.saved_at, attempt.saved_path) == (LATER, "")
    told = Event.objects.filter(kind="job.checkpointed").order_by("id")
    assert [(event.cause, event.data["step"]) for event in told] == [
        ("comment", 120),
        ("comment", 240),
    ]
    job = Job.objects.get()
    assert (job.saved_step, job.saved_at) == (240, LATER)


def test_a_comment_proves_for_its_own_attempt_alone() -> None:
    world = World(clusters=("c1", "c2"))
    attempt = run(bind(world, world.job()))
    other = world.clusters["c2" if attempt.cluster.name == "c1" else "c1"]
    assert noted(attempt, "muster-checkpoint=1", account="eve") is None
    assert noted(attempt, "muster-checkpoint=1", fence="mst-aaaaaaaaaaaa-a1") is None
    record_notes(cluster_id=other.id, gangs=[seen(attempt, "muster-checkpoint=1")], now=LATER)
    end(attempt)
    assert noted(attempt, "muster-checkpoint=1") is None
    assert not Event.objects.filter(kind="job.checkpointed").exists()


def test_reconciling_reads_the_comments() -> None:
    world = World()
    attempt = run(bind(world, world.job()))
    Observation.objects.create(
        cluster=attempt.cluster,
        begun_at=LATER,
        ended_at=LATER,
        accounting_answered=True,
        gangs=[gang_to_json(seen(attempt, "muster-checkpoint=88"))],
        queues=[],
        reservations=[],
    )
    reconcile_cluster(cluster_id=attempt.cluster_id, now=LATER)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.saved_step) == ("running", 88)


def test_nothing_noted_asks_the_database_nothing() -> None:
    world = World()
    attempt = run(bind(world, world.job()))
    with CaptureQueriesContext(connection) as asked:
        record_notes(cluster_id=attempt.cluster_id, gangs=[seen(attempt, "muster:x")], now=NOW)
    assert not asked.captured_queries


def test_a_proof_that_comes_with_the_end_is_too_late() -> None:
    world = World()
    attempt = run(bind(world, world.job()))
    end(attempt)
    assert record_proofs(proofs=[Proof(attempt.id, 3, "", FROM_JOB)], now=NOW) == 0
    assert Job.objects.get().saved_step is None


def test_proofs_of_many_take_the_statements_of_one() -> None:
    world = World(guaranteed=1000)
    jobs = [world.job() for _ in range(4)]
    bind(world, jobs[0])
    attempts = [run(attempt) for attempt in Attempt.objects.all()]
    assert len(attempts) == 4
    counts = []
    for some in (attempts[:1], attempts):
        proofs = [Proof(a.id, 10 + len(some), f"/{a.number}", FROM_JOB) for a in some]
        with CaptureQueriesContext(connection) as asked:
            assert record_proofs(proofs=proofs, now=NOW) == len(some)
        counts.append(len(asked))
    assert counts[0] == counts[1]
    assert set(Job.objects.values_list("saved_step", flat=True)) == {14}


def test_asking_many_signals_those_that_run_and_can_save() -> None:
    world = World(guaranteed=1000)
    jobs = [world.job() for _ in range(4)]
    bind(world, jobs[0])
    attempts = [run(a) for a in Attempt.objects.order_by("job_id")]
    mute, waits = attempts[1], attempts[2]
    Job.objects.filter(pk=mute.job_id).update(spec={**mute.job.spec, "checkpoint": None})
    Attempt.objects.filter(pk=waits.pk).update(state="pending")
    with CaptureQueriesContext(connection) as one:
        ask_checkpoint(attempts=[attempts[0].id], cause="reclaim", now=NOW)
    with CaptureQueriesContext(connection) as many:
        asked = ask_checkpoint(
            attempts=[a.id for a in attempts], cause="reclaim", now=LATER, told={"for": "x"}
        )
    assert len(one) == len(many)
    assert set(asked) == {attempts[0].id, attempts[3].id}
    orders = Command.objects.filter(kind="signal").order_by("fence")
    assert {order.key for order in orders} == {f"signal:{a}:1" for a in asked}
    assert {order.payload["name"] for order in orders} == {"USR1"}
    signalled = Attempt.objects.exclude(signal_asked_at=None)
    assert set(signalled.values_list("signal_asked_at", flat=True)) == {LATER}
    told = Event.objects.filter(kind="job.checkpoint_asked").order_by("id").last()
    assert told is not None
    assert (told.cause, told.data) == ("reclaim", {"for": "x", "signal": "USR1", "attempt": 1})


def test_the_next_attempt_is_told_of_the_newest_proof() -> None:
    world = World()
    job = world.job()
    first = run(bind(world, job))
    payload = Command.objects.get(key=f"submit:{first.id}").payload
    assert not any(name.startswith("MUSTER_RESUME") for name in payload["environment"])
    record_proofs(proofs=[Proof(first.id, 120, "/lustre/120", FROM_JOB)], now=NOW)
    end(first)
    second = run(bind(world, job))
    told = Command.objects.get(key=f"submit:{second.id}").payload["environment"]
    assert told["MUSTER_ATTEMPT"] == "2"
    assert {name: told[name] for name in told if name.startswith("MUSTER_RESUME")} == {
        "MUSTER_RESUME": "1",
        "MUSTER_RESUME_STEP": "120",
        "MUSTER_RESUME_PATH": "/lustre/120",
    }
    noted(second, "muster-checkpoint=80")  # it went back, and tells no path
    end(second)
    told = Command.objects.get(key=f"submit:{bind(world, job).id}").payload["environment"]
    assert told["MUSTER_RESUME_STEP"] == "80"
    assert "MUSTER_RESUME_PATH" not in told


def test_the_token_is_made_when_the_order_is_delivered() -> None:
    world = World()
    attempt = bind(world, world.job())
    payload = Command.objects.get(key=f"submit:{attempt.id}").payload
    assert "MUSTER_JOB_TOKEN" not in payload["environment"]
    made = furnished(Gang.from_json(payload), "https://muster.example").environment
    assert fence_of(made["MUSTER_JOB_TOKEN"]) == attempt.fence
    assert made["MUSTER_URL"] == "https://muster.example"
    assert made["MUSTER_JOB_ID"] == str(attempt.job.uuid)
    forged = replace(GANG, environment={"MUSTER_JOB_TOKEN": "mine", "MUSTER_URL": "http://evil"})
    assert furnished(forged, "").environment["MUSTER_JOB_TOKEN"] != "mine"


def test_a_saved_job_waits_for_a_cluster_that_has_its_store() -> None:
    world = World(clusters=("c1", "c2"))
    world.clusters["c2"].stores = ["lustre-a"]
    world.clusters["c2"].save()
    job = world.job()
    spec = {**job.spec, "checkpoint": {**job.spec["checkpoint"], "store": "lustre-a"}}
    Job.objects.update(spec=spec, stores=["lustre-a"], saved_step=5, saved_at=NOW)
    plan = decide(take_snapshot(NOW))
    assert [binding.cluster_name for binding in plan.bindings] == ["c2"]
    world.clusters["c2"].stores = []
    world.clusters["c2"].save()
    told = decide(take_snapshot(NOW)).reasons[job.id]
    assert {reason.code for reason in told} == {"checkpoint_unreachable"}
    Job.objects.update(saved_step=None)
    told = decide(take_snapshot(NOW)).reasons[job.id]
    assert {reason.code for reason in told} == {"store_unavailable"}
