"""The reconciler over REST: who may, what is shown, what a dry run and an act change."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounting.models import UsageInterval
from clusters.models import Cluster, Command, Lease, Node, Observation
from federation.models import Attempt, Job
from federation.services.reconcile import reconcile_cluster
from kit.intervals import from_ms, to_ms
from tenancy.models import AuditEntry, Event
from tenancy.services.records import Change, write_events
from tests.api.world import UNKNOWN_ID, World, problem, spots

MINUTE = timedelta(minutes=1)
ACTIONS = {"adopt", "forget", "resubmit", "cancel"}


def gang(fence: str, number: int, state: str = "running", **changes: object) -> dict[str, Any]:
    """An object as a stored observation tells it."""
    return {
        "fence": fence, "backend_id": str(number), "state": state, "reason": "", "account": "bob",
        "nodes": ["n1"], "gpus": 8, "submitted_ms": 1_800_000_000_000, "started_ms": None,
        "ended_ms": None, "exit_code": None, "comment": f"muster:{fence}", "runs": [], **changes,
    }  # fmt: skip


def show(world: World, *gangs: dict[str, Any], begun: datetime | None = None) -> None:
    """The cluster is read: these objects bear our mark.

    An hour ahead, so that it does not fall silent while a slow test runs.
    """
    begun = begun or timezone.now()
    Observation.objects.filter(cluster=world.cluster).update(
        begun_at=begun, ended_at=begun, gangs=list(gangs), accounting_answered=True
    )
    Cluster.objects.filter(pk=world.cluster.pk).update(last_seen_at=begun + 60 * MINUTE)


def lose(world: World, job: Job | None = None) -> Attempt:
    """A job that ran for 20 minutes and was found lost 5 minutes ago."""
    now = timezone.now()
    attempt = world.bind(job or world.job(), state="running")
    start_ms = to_ms(now - 20 * MINUTE)
    Attempt.objects.filter(pk=attempt.pk).update(
        state="lost", started_at=from_ms(start_ms), runs=[[start_ms, None, 32]]
    )
    UsageInterval.objects.create(
        id=attempt.id, attempt_id=attempt.id, job_id=attempt.job.uuid, tenant=attempt.job.tenant,
        user=attempt.job.user, user_name="bob", flavor_id=attempt.flavor_id, cluster=world.cluster,
        service_class="guaranteed", gpus=32, run_start_ms=start_ms, started_ms=start_ms,
        metered_ms=start_ms, started_at=now,
    )  # fmt: skip
    Job.objects.filter(pk=attempt.job_id).update(state="unknown")
    change = Change("job.unknown", str(attempt.job.uuid), attempt.job.tenant_id, "lost", {})
    write_events(changes=[change], now=now - 5 * MINUTE)
    show(world)
    attempt.refresh_from_db()
    return attempt


def cases(world: World, query: str = "") -> list[dict[str, Any]]:
    answer = world.ada.get(f"/reconciler/cases{query}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["items"])


def only(world: World, kind: str) -> dict[str, Any]:
    (found,) = cases(world, f"?kind={kind}")
    return found


def offers(case: dict[str, Any]) -> set[str]:
    return {offer["action"] for offer in case["actions"] if offer["is_offered"]}


def act(world: World, case: dict[str, Any], action: str, **body: object) -> Any:
    path = f"/reconciler/cases/{case['id']}/{action}"
    return world.ada.post(path, {"why": "seen with my own eyes", **body})


def rows() -> list[list[Any]]:
    """Everything that an action may change."""
    kinds: tuple[Any, ...] = (Job, Attempt, Command, AuditEntry, Event, UsageInterval)
    return [list(kind.objects.order_by("pk").values()) for kind in kinds]


def test_nobody_but_admins(world: World) -> None:
    case = f"/reconciler/cases/{only(world, 'lost')['id']}" if lose(world) else ""
    before = rows()
    for caller in (world.alice, world.bob, world.vera, world.charlie):
        for path in ("/reconciler", "/reconciler/cases", case):
            assert caller.get(path).status_code == 403
        assert caller.post(f"{case}/forget", {"why": "mine"}).status_code == 403
    assert rows() == before


def test_every_cluster_stands_with_its_numbers(world: World) -> None:
    now = timezone.now()
    lose(world)
    show(world, gang("mst-aaaaaaaaaaaa-a1", 7))
    Cluster.objects.filter(pk=world.cluster.pk).update(clock_skew_ms=-2500)
    Lease.objects.create(
        cluster=world.cluster, kind="dispatch", expires_at=now + MINUTE, failures=4, holder="w"
    )
    for number, state in enumerate(("waiting", "sent", "sent")):
        Command.objects.create(
            key=f"cancel:{number}", cluster=world.cluster, kind="cancel", fence="x", payload={},
            state=state, created_at=now - 3 * MINUTE, not_before=now - MINUTE, sent_at=now,
            tries=2 if number == 2 else 0,
        )  # fmt: skip
    Command.objects.filter(kind="submit").update(answer={"duplicates": 2})
    (row,) = world.ada.get("/reconciler").json()["items"]
    assert row["cluster"] == "aurora"
    assert row["is_reachable"] is True
    assert row["age_ms"] == 0
    assert row["clock_skew_ms"] == -2500
    assert row["breakers"]["dispatch"]["is_open"] is True
    assert row["breakers"]["dispatch"]["failures"] == 4
    assert row["breakers"]["observe"] == {"is_open": False, "failures": 0, "until": None}
    assert row["outbox"] == {"depth": 3, "waiting": 1, "sent": 2}
    assert row["lag_ms"] >= 180_000
    assert row["duplicates_cancelled"] == 2
    counts = {kind: count for kind, count in row["cases"].items() if count}
    assert counts == {"lost": 1, "orphan": 1, "ambiguous": 1}


def test_a_silent_cluster_is_a_case_of_its_own(world: World) -> None:
    Cluster.objects.filter(pk=world.cluster.pk).update(
        last_seen_at=timezone.now() - MINUTE, failing_since=timezone.now(), failure="refused"
    )
    (row,) = world.ada.get("/reconciler").json()["items"]
    assert (row["is_reachable"], row["failure"]) == (False, "refused")
    case = only(world, "silent")
    assert (case["fence"], case["job"], case["evidence"]["failure"]) == ("", None, "refused")
    assert offers(case) == set()
    for action in ACTIONS:
        answer = act(world, case, action)
        assert (answer.status_code, problem(answer)["code"]) == (409, "not_safe")


def test_the_number_of_queries_does_not_grow(world: World) -> None:
    signed = {"Authorization": f"Bearer {world.ada.token}"}

    def count(path: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert world.ada.client.get(path, headers=signed).status_code == 200
        return len(queries)

    paths = ("/api/v1/reconciler", "/api/v1/reconciler/cases", "/metrics")
    lose(world)
    before = [count(path) for path in paths]
    for _ in range(3):
        lose(world)
    show(world, *(gang(f"mst-{letter * 12}-a1", 7) for letter in "abcd"))
    assert [count(path) for path in paths] == before


def test_cases_are_filtered_and_paged(world: World) -> None:
    lose(world)
    show(world, *(gang(f"mst-{letter * 12}-a1", 7) for letter in "cab"))
    assert [case["kind"] for case in cases(world)] == ["lost", "orphan", "orphan", "orphan"]
    assert len(cases(world, "?cluster=aurora&kind=orphan")) == 3
    seen: list[str] = []
    path = "/reconciler/cases?limit=2"
    while path:
        page = world.ada.get(path).json()
        seen += [case["fence"] for case in page["items"]]
        path = page["next"]
    assert seen == [case["fence"] for case in cases(world)]
    assert len(seen) == 4
    missing = world.ada.get("/reconciler/cases?cluster=nowhere")
    assert missing.status_code == 404
    assert spots(world.ada.get("/reconciler/cases?kind=odd")) == [("?kind", "invalid_parameter")]


def test_a_case_shows_its_evidence_and_keeps_its_id(world: World) -> None:
    attempt = lose(world)
    Node.objects.filter(name__in=["n2", "n3"]).update(state="down")
    case = only(world, "lost")
    assert case["job"]["id"] == str(attempt.job.uuid)
    assert case["attempt"]["state"] == "lost"
    evidence = case["evidence"]
    assert evidence["last_reading"]["accounting_answered"] is True
    assert evidence["lost_at"] == case["since"]
    assert evidence["nodes_away"] == ["n2", "n3"]
    assert [(o["kind"], o["state"]) for o in evidence["orders"]] == [("submit", "done")]
    assert offers(case) == {"forget", "cancel"}
    (refused,) = (offer for offer in case["actions"] if offer["action"] == "resubmit")
    assert "n2, n3" in refused["why_not"]
    assert world.ada.get(f"/reconciler/cases/{case['id']}").json() == case
    assert world.ada.get(f"/reconciler/cases/{UNKNOWN_ID}").status_code == 404


BAD_BODIES: list[tuple[object, list[tuple[str, str]]]] = [
    ({}, [("/why", "missing")]),
    ({"why": " "}, [("/why", "invalid_value")]),
    ({"why": 7, "dry_run": "yes"}, [("/why", "invalid_value"), ("/dry_run", "wrong_type")]),
    ({"why": "x" * 1001}, [("/why", "invalid_value")]),
    ({"why": "x", "version": True}, [("/version", "invalid_value")]),
    ({"why": "x", "version": 0}, [("/version", "invalid_value")]),
    ({"why": "x", "force": True}, [("/force", "unknown_field")]),
    ([], [("", "wrong_type")]),
]


def test_bad_bodies_change_nothing(world: World) -> None:
    lose(world)
    case, before = only(world, "lost"), rows()
    for body, found in BAD_BODIES:
        answer = world.ada.post(f"/reconciler/cases/{case['id']}/forget", body)
        assert answer.status_code == 422
        assert spots(answer) == found
    assert rows() == before


def test_unknown_cases_and_actions_are_404(world: World) -> None:
    lose(world)
    case = only(world, "lost")
    assert act(world, case, "destroy").status_code == 404
    assert act(world, {"id": UNKNOWN_ID}, "cancel").status_code == 404


def lost(world: World) -> str:
    lose(world)
    return "lost"


def orphan(world: World) -> str:
    show(world, gang("mst-aaaaaaaaaaaa-a1", 7))
    return "orphan"


def duplicate(world: World) -> str:
    attempt = world.bind(world.job())
    show(world, gang(attempt.fence, 7), gang(attempt.fence, 8, "held"))
    return "duplicate"


def parked(world: World) -> str:
    old = timezone.now() - 5 * MINUTE
    attempt = world.bind(world.job(), state="dispatching")
    Command.objects.filter(fence=attempt.fence).update(
        state="waiting", answered_at=None, tries=9, created_at=old, error="connection refused",
        not_before=timezone.now() + MINUTE,
    )  # fmt: skip
    return "parked"


def ambiguous(world: World) -> str:
    parked(world)
    Command.objects.update(state="sent")
    return "ambiguous"


def rejected(world: World) -> str:
    old = timezone.now() - 5 * MINUTE
    attempt = world.bind(world.job())
    world.bob.post(f"/jobs/{attempt.job.uuid}/cancel")
    Command.objects.filter(kind="cancel").update(
        state="rejected", sent_at=old, answered_at=old, error="Access denied"
    )
    show(world, gang(attempt.fence, 7))
    return "rejected"


OFFERED = [
    (lost, "forget"), (lost, "resubmit"), (lost, "cancel"), (orphan, "cancel"),
    (duplicate, "adopt"), (duplicate, "cancel"), (parked, "resubmit"), (parked, "cancel"),
    (ambiguous, "resubmit"), (ambiguous, "cancel"), (rejected, "resubmit"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "action"), OFFERED)
def test_a_dry_run_says_all_and_changes_nothing_and_the_act_is_done_once(
    world: World, make: Callable[[World], str], action: str
) -> None:
    case = only(world, make(world))
    assert action in offers(case)
    before = rows()
    dry = act(world, case, action, dry_run=True)
    assert dry.status_code == 200, dry.content
    assert rows() == before
    said = dry.json()
    assert (said["dry_run"], said["is_done"]) == (True, False)
    (offer,) = (offer for offer in case["actions"] if offer["action"] == action)
    assert (said["does"], said["steps"]) == (offer["does"], offer["steps"])
    done = act(world, case, action).json()
    assert (done["dry_run"], done["is_done"], done["steps"]) == (False, True, said["steps"])
    entry = AuditEntry.objects.get(object_type="case")
    assert (entry.object_id, entry.action) == (case["id"], action)
    assert (entry.why, entry.actor) == ("seen with my own eyes", world.ada.user)
    assert entry.after == {"steps": said["steps"]}
    told = Event.objects.get(kind="cluster.repaired")
    assert (told.subject, told.cause, told.tenant_id) == ("aurora", action, None)
    if action == "resubmit" and "send_again" in said["steps"]:
        return  # sending once more is an act each time
    after = rows()
    again = act(world, case, action)
    assert again.status_code == 200, again.content
    assert again.json()["steps"] == []
    assert rows() == after


@pytest.mark.parametrize(
    ("make", "action"), [(lost, "forget"), (orphan, "cancel"), (parked, "resubmit")]
)
def test_what_changed_meanwhile_is_looked_at_again_first(
    world: World, make: Callable[[World], str], action: str
) -> None:
    case = only(world, make(world))
    if case["job"] is None:
        answer = act(world, case, action, version=1)
        assert (answer.status_code, problem(answer)["code"]) == (412, "stale_write")
        return
    version = case["job"]["version"]
    assert act(world, case, action, version=version, dry_run=True).status_code == 200
    Job.objects.filter(uuid=case["job"]["id"]).update(version=version + 1)
    before = rows()
    answer = act(world, case, action, version=version)
    assert (answer.status_code, problem(answer)["code"]) == (412, "stale_write")
    assert rows() == before


def test_every_action_that_is_not_offered_is_refused_and_changes_nothing(world: World) -> None:
    lose(world)
    show(world, gang("mst-aaaaaaaaaaaa-a1", 7))
    before = rows()
    seen = 0
    for case in cases(world):
        for offer in case["actions"]:
            if not offer["is_offered"]:
                answer = act(world, case, offer["action"])
                assert answer.status_code == 409
                assert problem(answer)["detail"] == offer["why_not"]
                seen += 1
    assert seen == 4
    assert rows() == before


def test_what_is_forgotten_is_billed_until_it_was_lost(world: World) -> None:
    attempt = lose(world)
    case = only(world, "lost")
    assert act(world, case, "forget").status_code == 200
    attempt.refresh_from_db()
    job = Job.objects.get(pk=attempt.job_id)
    assert (attempt.state, attempt.end_cause) == ("ended", "lost")
    assert (job.state, job.outcome) == ("failed", "Lost on aurora, and given up by ada.")
    interval = UsageInterval.objects.get()
    assert interval.ended_ms == to_ms(Event.objects.get(kind="job.unknown").at)
    assert interval.ended_ms - interval.started_ms == pytest.approx(15 * 60_000, abs=1_000)
    assert Event.objects.filter(kind="job.failed", cause="given_up").count() == 1
    assert not Command.objects.filter(kind="cancel").exists()
    assert cases(world) == []


def test_what_is_resubmitted_is_ended_first(world: World) -> None:
    attempt = lose(world)
    assert act(world, only(world, "lost"), "resubmit").status_code == 200
    job = Job.objects.get(pk=attempt.job_id)
    attempt.refresh_from_db()
    assert (job.state, attempt.state, attempt.end_cause) == ("stopping", "stopping", "resubmitted")
    assert Command.objects.get(kind="cancel").key == f"cancel:{attempt.id}"
    assert UsageInterval.objects.get().ended_ms == to_ms(Event.objects.get(kind="job.unknown").at)


def test_an_order_that_is_sent_again_is_due_now(world: World) -> None:
    case, now = only(world, parked(world)), timezone.now()
    Lease.objects.create(
        cluster=world.cluster, kind="dispatch", expires_at=now + MINUTE, failures=9, holder="w"
    )
    assert act(world, case, "resubmit").status_code == 200
    order = Command.objects.get()
    assert order.state == "waiting"
    assert order.not_before <= timezone.now()
    breaker = Lease.objects.get()
    assert (breaker.failures, breaker.expires_at <= timezone.now()) == (0, True)


def test_a_refused_cancel_goes_out_once_more(world: World) -> None:
    assert act(world, only(world, rejected(world)), "resubmit").status_code == 200
    order = Command.objects.get(kind="cancel")
    assert (order.state, order.answered_at) == ("waiting", None)
    assert order.sent_at is not None  # so the cluster is asked before it is told


def test_an_orphan_is_cancelled_as_its_own_account(world: World) -> None:
    case = only(world, orphan(world))
    assert act(world, case, "cancel").status_code == 200
    order = Command.objects.get(fence="mst-aaaaaaaaaaaa-a1")
    assert (order.kind, order.payload, order.state) == (
        "cancel",
        {"v": 1, "account": "bob"},
        "waiting",
    )


def test_an_orphan_under_several_accounts_is_cancelled_as_each_of_them(world: World) -> None:
    fence = "mst-aaaaaaaaaaaa-a1"
    accounts = ("bob", "eve", "bob")
    show(world, *(gang(fence, 7 + n, account=name) for n, name in enumerate(accounts)))
    case = only(world, "orphan")
    assert act(world, case, "cancel").status_code == 200
    orders = Command.objects.filter(fence=fence, kind="cancel", state="waiting")
    assert sorted(order.payload["account"] for order in orders) == ["bob", "eve"]
    assert act(world, case, "cancel").json()["steps"] == []  # both are out


def test_what_outlives_its_attempt_is_cancelled_as_each_account_until_it_is_gone(
    world: World,
) -> None:
    attempt = world.bind(world.job())
    Attempt.objects.filter(pk=attempt.pk).update(state="ended", ended_at=timezone.now())
    show(world, *(gang(attempt.fence, n, account=name) for n, name in enumerate(("bob", "eve"))))
    orders = Command.objects.filter(fence=attempt.fence, kind="cancel")

    def judge() -> list[tuple[str, str]]:
        reconcile_cluster(cluster_id=world.cluster.pk, now=timezone.now())
        return sorted((order.payload["account"], order.state) for order in orders.all())

    assert judge() == [("bob", "waiting"), ("eve", "waiting")]
    orders.update(state="done", answered_at=timezone.now() - MINUTE)
    show(world, gang(attempt.fence, 1, account="eve"))
    assert judge() == [("bob", "done"), ("eve", "waiting")]  # hers lives on: once more


def test_an_order_that_nobody_needs_is_dropped(world: World) -> None:
    parked(world)
    Attempt.objects.update(state="ended", ended_at=timezone.now())
    case = only(world, "parked")
    assert offers(case) == {"forget", "resubmit"}
    assert act(world, case, "forget").status_code == 200
    assert Command.objects.get().state == "dropped"
    assert cases(world) == []


def test_ids_differ_by_kind_cluster_and_fence(world: World) -> None:
    lose(world)
    lose(world)
    show(world, gang("mst-aaaaaaaaaaaa-a1", 7))
    ids = {UUID(case["id"]) for case in cases(world)}
    assert len(ids) == 3


def test_what_is_named_like_ours_is_shown_and_never_touched(world: World) -> None:
    attempt = world.bind(world.job())
    Observation.objects.filter(cluster=world.cluster).update(
        namesakes=[gang(attempt.fence, 9, comment=""), gang("mst-aaaaaaaaaaaa-a1", 10, comment="x")]
    )
    found = {case["fence"]: case for case in cases(world, "?kind=foreign_name")}
    assert set(found) == {attempt.fence, "mst-aaaaaaaaaaaa-a1"}
    mine = found[attempt.fence]
    assert mine["job"]["id"] == str(attempt.job.uuid)  # its comment was lost
    assert [seen["backend_id"] for seen in mine["evidence"]["objects"]] == ["9"]
    before = rows()
    for case in found.values():
        assert offers(case) == set()
        assert {act(world, case, action).status_code for action in ACTIONS} == {409}
    assert rows() == before
