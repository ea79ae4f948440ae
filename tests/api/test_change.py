from typing import Any

import pytest

from clusters.models import Command
from federation.models import Attempt, Job
from tenancy.models import AuditEntry, Event
from tests.api.world import TEAM, World, problem, spots


def last_event(job: Job) -> Event:
    return Event.objects.filter(subject=str(job.uuid)).latest("id")


def test_cancel_while_queued_ends_it_at_once(world: World) -> None:
    job = world.job()
    answer = world.bob.post(f"/jobs/{job.uuid}/cancel").json()
    assert (answer["state"], answer["version"]) == ("cancelled", 2)
    assert answer["ended_at"] is not None
    event = last_event(job)
    assert (event.kind, event.cause, event.data) == ("job.cancelled", "cancelled", {"user": "bob"})
    entry = AuditEntry.objects.get(object_type="job", object_id=str(job.uuid))
    assert (entry.action, entry.before, entry.after) == (
        "cancel",
        {"state": "queued"},
        {"state": "cancelled"},
    )


def test_cancel_before_the_order_was_sent_drops_the_order(world: World) -> None:
    job = world.job()
    attempt = world.bind(job, sent=False)
    assert world.bob.post(f"/jobs/{job.uuid}/cancel").json()["state"] == "cancelled"
    attempt.refresh_from_db()
    assert (attempt.state, attempt.end_cause) == ("ended", "cancelled")
    assert Command.objects.get(key=f"submit:{attempt.id}").state == "dropped"
    assert not Command.objects.filter(kind="cancel").exists()


@pytest.mark.parametrize("state", ["dispatching", "pending", "running", "unknown"])
def test_cancel_of_a_bound_job_orders_it_of_the_cluster_once(world: World, state: str) -> None:
    job = world.job()
    attempt = world.bind(job, state=state)
    if state == "unknown":
        Attempt.objects.filter(pk=attempt.pk).update(state="lost")
    first = world.bob.post(f"/jobs/{job.uuid}/cancel").json()
    again = world.bob.post(f"/jobs/{job.uuid}/cancel").json()
    assert first["state"] == "stopping"
    assert first["cancel_asked_at"] is not None
    assert again == first
    command = Command.objects.get(kind="cancel")
    assert (command.key, command.state) == (f"cancel:{attempt.id}", "waiting")
    assert (command.fence, command.payload["account"]) == (attempt.fence, "bob")
    attempt.refresh_from_db()
    assert (attempt.state, attempt.end_cause) == ("stopping", "cancelled")


def test_cancelling_twice_is_cancelling_once(world: World) -> None:
    job = world.job()
    first = world.bob.post(f"/jobs/{job.uuid}/cancel").json()
    again = world.bob.post(f"/jobs/{job.uuid}/cancel")
    assert (again.status_code, again.json()) == (200, first)
    assert Event.objects.filter(subject=str(job.uuid)).count() == 2


@pytest.mark.parametrize("action", ["cancel", "hold", "release"])
def test_what_is_over_is_over(world: World, action: str) -> None:
    job = world.job()
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    answer = world.bob.post(f"/jobs/{job.uuid}/{action}")
    assert (answer.status_code, problem(answer)["code"]) == (409, "already_final")


def test_hold_and_release_of_a_waiting_job(world: World) -> None:
    job = world.job()
    held = world.bob.post(f"/jobs/{job.uuid}/hold").json()
    assert (held["state"], held["held_by"]) == ("held", "owner")
    assert [reason["code"] for reason in held["reasons"]] == ["held"]
    assert world.bob.post(f"/jobs/{job.uuid}/hold").json() == held
    free = world.bob.post(f"/jobs/{job.uuid}/release").json()
    assert (free["state"], free["held_by"], free["version"]) == ("queued", None, 3)
    kinds = Event.objects.filter(subject=str(job.uuid)).order_by("id").values_list("kind", "cause")
    assert list(kinds) == [
        ("job.queued", "submitted"),
        ("job.held", "held_by_owner"),
        ("job.queued", "released"),
    ]


def test_hold_of_a_bound_job_stops_its_attempt_first(world: World) -> None:
    job = world.job()
    attempt = world.bind(job)
    held = world.bob.post(f"/jobs/{job.uuid}/hold").json()
    assert held["state"] == "stopping"
    job.refresh_from_db()
    assert (job.hold_asked_by, job.held_by) == ("owner", "")
    attempt.refresh_from_db()
    assert (attempt.state, attempt.end_cause) == ("stopping", "held")
    assert Command.objects.filter(key=f"cancel:{attempt.id}").count() == 1


def test_hold_before_the_order_was_sent_holds_at_once(world: World) -> None:
    job = world.job()
    attempt = world.bind(job, sent=False)
    held = world.bob.post(f"/jobs/{job.uuid}/hold").json()
    assert (held["state"], held["class_now"]) == ("held", None)
    assert Attempt.objects.get(pk=attempt.pk).state == "ended"


def test_release_while_it_still_stops_takes_the_hold_back(world: World) -> None:
    job = world.job()
    attempt = world.bind(job)
    world.bob.post(f"/jobs/{job.uuid}/hold")
    free = world.bob.post(f"/jobs/{job.uuid}/release").json()
    assert free["state"] == "stopping"
    job.refresh_from_db()
    assert job.hold_asked_by == ""
    assert Attempt.objects.get(pk=attempt.pk).end_cause == "held"


def test_what_an_admin_holds_only_an_admin_releases(world: World) -> None:
    job = world.job()
    assert world.ada.post(f"/jobs/{job.uuid}/hold").json()["held_by"] == "admin"
    answer = world.bob.post(f"/jobs/{job.uuid}/release")
    assert (answer.status_code, problem(answer)["code"]) == (403, "permission_denied")
    assert world.bob.post(f"/jobs/{job.uuid}/hold").json()["held_by"] == "admin"
    assert world.ada.post(f"/jobs/{job.uuid}/release").json()["state"] == "queued"


def test_a_cancelled_job_cannot_be_held(world: World) -> None:
    job = world.job()
    world.bind(job)
    world.bob.post(f"/jobs/{job.uuid}/cancel")
    assert world.bob.post(f"/jobs/{job.uuid}/hold").status_code == 409
    assert world.bob.post(f"/jobs/{job.uuid}/release").status_code == 409


@pytest.mark.parametrize("action", ["cancel", "hold", "release"])
def test_who_may_change_a_job(world: World, action: str) -> None:
    path = f"/jobs/{world.job().uuid}/{action}"
    assert world.nobody.post(path).status_code == 401
    assert world.charlie.post(path).status_code == 404
    assert world.vera.post(path).status_code == 403
    job = Job.objects.get()
    assert (job.state, job.version) == ("queued", 1)


def test_an_owner_changes_the_jobs_of_others_a_submitter_does_not(world: World) -> None:
    job = world.job()
    Job.objects.filter(pk=job.pk).update(user=world.alice.user)
    assert world.bob.post(f"/jobs/{job.uuid}/hold").status_code == 403
    Job.objects.filter(pk=job.pk).update(user=world.bob.user)
    assert world.alice.post(f"/jobs/{job.uuid}/hold").json()["state"] == "held"


def test_patch_changes_what_waits(world: World) -> None:
    job = world.job()
    change = {"priority": "high", "time_limit": "2h", "class": "spot", "labels": {"a": "b"}}
    answer = world.bob.patch(f"/jobs/{job.uuid}", change)
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["priority"], body["time_limit"], body["class"]) == (700, 7200, "spot")
    assert (body["labels"], body["version"]) == ({"a": "b"}, 2)
    job.refresh_from_db()
    assert (job.priority, job.time_limit_ms, job.wanted_class) == (700, 7_200_000, "spot")
    event = last_event(job)
    assert event.kind == "job.changed"
    assert set(event.data["fields"]) == {"priority", "time_limit", "class", "labels"}


def test_patch_that_changes_nothing_writes_nothing(world: World) -> None:
    job = world.job()
    assert world.bob.patch(f"/jobs/{job.uuid}", {"priority": "normal"}).json()["version"] == 1
    assert Event.objects.filter(subject=str(job.uuid)).count() == 1


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"priority": 5000}, "/priority", "out_of_range"),
        ({"gang": {"nodes": 1}}, "/gang", "not_changeable"),
        ({"colour": "red"}, "/colour", "unknown_field"),
        ({"flavors": ["tpu"]}, "/flavors/0", "unknown_flavor"),
        ({"flavors": ["mi300x"]}, "/flavors", "flavor_not_accepted"),
        ([], "", "wrong_type"),
    ],
    ids=str,
)
def test_bad_patches(world: World, body: Any, pointer: str, code: str) -> None:
    job = world.job()
    answer = world.bob.patch(f"/jobs/{job.uuid}", body)
    assert answer.status_code == 422
    assert (pointer, code) in spots(answer)
    job.refresh_from_db()
    assert (job.version, job.priority) == (1, 500)


def test_a_bound_job_takes_new_labels_only(world: World) -> None:
    job = world.job()
    world.bind(job)
    answer = world.bob.patch(f"/jobs/{job.uuid}", {"priority": "high", "labels": {"a": "b"}})
    assert answer.status_code == 409
    assert spots(answer) == [("/priority", "not_changeable_now")]
    assert world.bob.patch(f"/jobs/{job.uuid}", {"labels": {"a": "b"}}).status_code == 200
    assert Job.objects.get().labels == {"a": "b"}


@pytest.mark.parametrize(
    ("header", "status"), [('"1"', 200), ("*", 200), ('"2"', 412), ("1", 412), ('W/"1"', 412)]
)
def test_a_stale_patch_is_412(world: World, header: str, status: int) -> None:
    job = world.job()
    answer = world.bob.patch(f"/jobs/{job.uuid}", {"priority": 1}, if_match=header)
    assert answer.status_code == status
    assert Job.objects.get().priority == (1 if status == 200 else 500)


def test_jobs_of_a_batch_are_changed_one_by_one(world: World) -> None:
    first, second = world.job(), world.job()
    world.bob.post(f"/jobs/{first.uuid}/cancel")
    second.refresh_from_db()
    assert (second.state, second.version, second.tenant.path) == ("queued", 1, TEAM)
