"""A job proves its checkpoints with a token good for that alone; people have it save one."""

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import Command
from federation.models import Attempt, Job
from kit.ids import fence
from kit.job_token import fence_of, job_token
from tenancy.models import AuditEntry, Event
from tests.api.test_routes import HANDLERS, path_of
from tests.api.world import UNKNOWN_ID, Caller, World, problem, spots

SAVES = {"signal": "USR2", "grace": 60, "store": "lustre-a"}


def running(world: World, **changes: Any) -> tuple[Job, Attempt, Caller]:
    """A job that runs, its attempt, and the job itself as one who asks."""
    job = world.job(**{"checkpoint": SAVES, **changes})
    attempt = world.bind(job)
    return job, attempt, Caller(world.bob.user, job_token(attempt.fence))


def prove(caller: Caller, job: Job, step: Any, **more: Any) -> Any:
    return caller.post(f"/jobs/{job.uuid}/checkpoints", {"step": step, **more})


def events(job: Job, kind: str) -> list[Event]:
    return list(Event.objects.filter(subject=str(job.uuid), kind=kind).order_by("id"))


def test_a_proof_stands_at_the_attempt_the_job_and_in_the_timeline(world: World) -> None:
    job, attempt, itself = running(world)
    answer = prove(itself, job, 120, path="/lustre/run7/120")
    assert answer.status_code == 200, answer.content
    saved = answer.json()
    assert (saved["step"], saved["path"]) == (120, "/lustre/run7/120")
    shown = world.bob.get(f"/jobs/{job.uuid}").json()
    assert shown["checkpoint_saved"] == shown["attempt"]["checkpoint_saved"] == saved
    (event,) = events(job, "job.checkpointed")
    assert event.cause == "job"
    assert event.data == {"step": 120, "path": "/lustre/run7/120", "source": "job", "attempt": 1}
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert attempt.saved_at == job.saved_at is not None
    assert job.version == 1, "nobody's If-Match is stale for it"


def test_a_step_not_beyond_the_proven_one_changes_nothing(world: World) -> None:
    job, _, itself = running(world)
    first = prove(itself, job, 120, path="/a").json()
    for step in (120, 7, 0):
        again = prove(itself, job, step, path="/other")
        assert (again.status_code, again.json()) == (200, first)
    assert prove(itself, job, 121).json()["path"] is None, "where it lies was said of step 120"
    assert [event.data["step"] for event in events(job, "job.checkpointed")] == [120, 121]


def test_step_zero_is_a_proof_too(world: World) -> None:
    job, _, itself = running(world)
    assert world.bob.get(f"/jobs/{job.uuid}").json()["checkpoint_saved"] is None
    assert prove(itself, job, 0).json()["step"] == 0
    assert world.bob.get(f"/jobs/{job.uuid}").json()["checkpoint_saved"]["step"] == 0


def test_what_a_later_attempt_proves_is_the_newest(world: World) -> None:
    """It may have gone back behind a checkpoint that could not be read."""
    job, attempt, itself = running(world)
    prove(itself, job, 120, path="/a")
    Attempt.objects.filter(pk=attempt.pk).update(state="ended")
    values = {**Attempt.objects.filter(pk=attempt.pk).values()[0], "number": 2, "state": "running"}
    values |= {"fence": fence(job.uuid, 2), "id": UNKNOWN_ID, "saved_step": None, "saved_at": None}
    second = Attempt.objects.create(**values)
    shown = world.bob.get(f"/jobs/{job.uuid}").json()
    assert shown["attempt"]["checkpoint_saved"] is None
    assert (shown["checkpoint_saved"]["step"], shown["checkpoint_saved"]["path"]) == (120, "/a")
    later = Caller(world.bob.user, job_token(second.fence))
    assert prove(later, job, 80).json()["step"] == 80
    assert world.bob.get(f"/jobs/{job.uuid}").json()["checkpoint_saved"]["step"] == 80
    first, second_shown = world.bob.get(f"/jobs/{job.uuid}/attempts").json()["items"]
    assert (first["checkpoint_saved"]["step"], second_shown["checkpoint_saved"]["step"]) == (
        120,
        80,
    )


@pytest.mark.parametrize("state", ["dispatching", "pending", "running", "stopping", "lost"])
def test_it_proves_while_its_attempt_is_open(world: World, state: str) -> None:
    """Muster sees a start some seconds after the job does; and it saves while it is being stopped."""
    job, attempt, itself = running(world)
    Attempt.objects.filter(pk=attempt.pk).update(state=state)
    assert prove(itself, job, 3).status_code == 200


def test_an_attempt_that_is_over_proves_nothing(world: World) -> None:
    job, attempt, itself = running(world)
    Attempt.objects.filter(pk=attempt.pk).update(state="ended", end_cause="preempted")
    refused = problem(prove(itself, job, 3))
    assert (refused["status"], refused["code"]) == (409, "attempt_over")
    assert "preempted" in refused["detail"]
    assert not events(job, "job.checkpointed")


def test_another_jobs_token_finds_nothing(world: World) -> None:
    job, _, _ = running(world)
    _, _, other = running(world)
    answer = prove(other, job, 3)
    assert answer.status_code == 404
    missing = other.post(f"/jobs/{UNKNOWN_ID}/checkpoints", {"step": 3})
    assert answer.json() == missing.json()


@pytest.mark.parametrize("who", ["ada", "alice", "bob", "vera", "charlie"])
def test_people_cannot_prove_for_a_job(world: World, who: str) -> None:
    job, _, _ = running(world)
    refused = problem(prove(getattr(world, who), job, 3))
    assert (refused["status"], refused["code"]) == (403, "permission_denied")
    assert "MUSTER_JOB_TOKEN" in refused["detail"]


def test_nobody_and_forgers_are_401(world: World, settings: LazySettings) -> None:
    job, attempt, itself = running(world)
    good = itself.token
    other = job_token(fence(job.uuid, 2)).partition(".")[2]
    forged = ("", "mjt_", good[:-1], f"{good}x", f"mjt_{attempt.fence}.{other}", good[4:])
    for token in forged:
        answer = prove(Caller(world.bob.user, token), job, 3)
        assert answer.status_code == 401, token
    settings.SECRET_KEY = "another key of more than thirty-two characters"
    assert prove(itself, job, 3).status_code == 401
    assert fence_of(good) is None


def test_a_jobs_token_opens_nothing_else(world: World) -> None:
    job, _, itself = running(world)
    others = [entry for entry in HANDLERS if entry[0] != "jobs/<uuid:job_id>/checkpoints"]
    assert len(others) == len(HANDLERS) - 1
    for route, method, _ in others:
        answer = itself.call(method.upper(), path_of(route, job.uuid))
        assert (answer.status_code, problem(answer)["code"]) == (401, "not_authenticated"), route
    assert itself.get("/events").status_code in (401, 403, 404)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, [("/step", "required")]),
        ({"step": None}, [("/step", "required")]),
        ({"step": -1}, [("/step", "out_of_range")]),
        ({"step": 2**53 + 1}, [("/step", "out_of_range")]),
        ({"step": "7"}, [("/step", "wrong_type")]),
        ({"step": 7.0}, [("/step", "wrong_type")]),
        ({"step": True}, [("/step", "wrong_type")]),
        ({"step": 7, "path": 8}, [("/path", "wrong_type")]),
        ({"step": 7, "path": "a" * 1025}, [("/path", "too_long")]),
        ({"step": 7, "path": "/a\n/b"}, [("/path", "control_character")]),
        ({"step": 7, "path": "\x00"}, [("/path", "control_character")]),
        ({"step": 7, "path": "\ud800"}, [("/path", "control_character")]),
        ({"step": 7, "loss": 1}, [("/loss", "unknown_field")]),
        ({"step": -1, "path": 8}, [("/step", "out_of_range"), ("/path", "wrong_type")]),
        ([7], [("", "wrong_type")]),
    ],
)
def test_bad_bodies_are_422_and_say_where(world: World, body: Any, wrong: Any) -> None:
    job, _, itself = running(world)
    answer = itself.post(f"/jobs/{job.uuid}/checkpoints", body)
    assert (answer.status_code, spots(answer)) == (422, wrong)
    assert not events(job, "job.checkpointed")


def test_the_largest_and_the_longest_are_taken(world: World) -> None:
    job, _, itself = running(world)
    assert prove(itself, job, 2**53, path="ß" * 1024).status_code == 200
    assert itself.call("POST", f"/jobs/{job.uuid}/checkpoints", raw=b"{").status_code == 400
    assert prove(itself, job, 1, path=None).status_code == 200
    assert itself.post(f"/jobs/{job.uuid}/checkpoints?x=1", {"step": 1}).status_code == 422
    assert itself.get(f"/jobs/{job.uuid}/checkpoints").status_code == 405


def test_a_proof_is_seven_queries_whatever_there_is(world: World) -> None:
    job, _, itself = running(world)
    counts = []
    for step in (1, 2):
        with CaptureQueriesContext(
            connection,
        ) as asked:
            assert prove(itself, job, step).status_code == 200
        counts.append(len(asked))
        for _ in range(3):
            running(world)
    assert counts[0] == counts[1] <= 7


def test_a_jobs_proofs_are_limited_as_others_writes(world: World, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, rate_writes=0)
    job, _, itself = running(world)
    another, _, other = running(world)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, rate_writes=2)
    codes = [prove(itself, job, step).status_code for step in (1, 2, 3)]
    assert codes == [200, 200, 429]
    assert prove(other, another, 1).status_code == 200, "another job has its own"


def test_the_token_is_in_no_log_and_in_no_row(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    job, attempt, itself = running(world)
    prove(itself, job, 5)
    prove(itself, job, "x")
    signature = itself.token.partition(".")[2]
    assert signature not in caplog.text
    rows = [*Event.objects.values_list("data", flat=True)]
    rows += Command.objects.filter(fence=attempt.fence).values_list("payload", flat=True)
    assert signature not in str(rows)


def ask(caller: Caller, job: Job) -> Any:
    return caller.post(f"/jobs/{job.uuid}/checkpoint")


@pytest.mark.parametrize("who", ["bob", "alice", "ada"])
def test_a_person_has_a_running_job_save(world: World, who: str) -> None:
    job, attempt, _ = running(world)
    answer = ask(getattr(world, who), job)
    assert answer.status_code == 200, answer.content
    assert answer.json()["attempt"]["checkpoint_asked_at"] is not None
    order = Command.objects.get(kind="signal")
    assert (order.key, order.fence) == (f"signal:{attempt.id}:1", attempt.fence)
    assert order.payload == {"v": 1, "account": "bob", "name": "USR2"}
    assert (order.state, order.tries, order.cluster_id) == ("waiting", 0, world.cluster.pk)
    (event,) = events(job, "job.checkpoint_asked")
    assert (event.cause, event.data) == ("asked", {"user": who, "signal": "USR2", "attempt": 1})
    entry = AuditEntry.objects.get(object_type="job", object_id=str(job.uuid))
    assert (entry.action, entry.actor_id) == ("checkpoint", getattr(world, who).user.pk)


def test_asking_again_signals_again_once_the_last_was_delivered(world: World) -> None:
    job, attempt, _ = running(world)
    for _ in range(2):
        assert ask(world.bob, job).status_code == 200
    assert Command.objects.filter(kind="signal").count() == 1
    first = Command.objects.get(kind="signal")
    Command.objects.filter(kind="signal").update(state="done")
    assert ask(world.bob, job).status_code == 200
    keys = Command.objects.filter(kind="signal").order_by("id").values_list("key", flat=True)
    assert list(keys) == [f"signal:{attempt.id}:1", f"signal:{attempt.id}:2"]
    Command.objects.filter(pk=first.pk).delete()  # as retention does
    Command.objects.filter(kind="signal").update(state="done")
    assert ask(world.bob, job).status_code == 200
    assert Command.objects.filter(key=f"signal:{attempt.id}:3").exists()


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({"checkpoint": None}, "running", "no `checkpoint`"),
        ({}, "pending", "is pending"),
        ({}, "dispatching", "is dispatching"),
        ({}, "unknown", "is unknown"),
    ],
)
def test_what_cannot_save_is_409_with_the_reason(
    world: World, changes: dict[str, Any], state: str, words: str
) -> None:
    job, attempt, _ = running(world, **changes)
    Job.objects.filter(pk=job.pk).update(state=state)
    refused = problem(ask(world.bob, job))
    assert (refused["status"], refused["code"]) == (409, "conflict")
    assert words in refused["detail"]
    attempt.refresh_from_db()
    assert attempt.signal_asked_at is None
    assert not Command.objects.filter(kind="signal").exists()


def test_a_job_that_waits_ends_or_is_over_is_not_asked(world: World) -> None:
    waiting = world.job(checkpoint=SAVES)
    assert ask(world.bob, waiting).status_code == 409
    job, _, _ = running(world)
    world.bob.post(f"/jobs/{job.uuid}/cancel")
    assert ask(world.bob, job).status_code == 409
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    assert problem(ask(world.bob, job))["code"] == "already_final"
    assert not Command.objects.filter(kind="signal").exists()


def test_who_may_not_change_a_job_may_not_have_it_save(world: World) -> None:
    job, _, _ = running(world)
    assert ask(world.vera, job).status_code == 403
    assert ask(world.charlie, job).status_code == 404
    assert world.bob.post(f"/jobs/{job.uuid}/checkpoint", {"now": True}).status_code == 422


def test_a_proof_answers_within_the_same_second(world: World) -> None:
    job, attempt, itself = running(world)
    ask(world.bob, job)
    prove(itself, job, 9)
    attempt.refresh_from_db()
    assert attempt.signal_asked_at is not None
    assert attempt.saved_at is not None
    assert timedelta() <= attempt.saved_at - attempt.signal_asked_at < timedelta(seconds=30)
