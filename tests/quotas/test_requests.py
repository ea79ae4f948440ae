"""Requests and grants over PostgreSQL: what holds when, and that the tree always fits."""

from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connection

from clusters.models import Flavor
from clusters.services.configure import set_cluster_flavor
from kit.errors import (
    ConflictError,
    InvalidContentError,
    PermissionDeniedError,
    StaleWriteError,
)
from quotas.core.table import TableRow
from quotas.models import Quota, QuotaRequest
from quotas.selectors import quota_rows, state_of
from quotas.services.requests import RequestDecidedError, Wish, approve, ask, reject, withdraw
from quotas.services.rows import (
    ChildrenAboveParentError,
    GrantsCountError,
    remove_quota,
    set_quota,
)
from quotas.services.tables import apply_table, plan_table
from tenancy.models import AuditEntry, Event, Role, Tenant, User
from tenancy.services.access import set_member
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db
H100 = "h100-sxm-80"
DAY = timedelta(days=1)


@pytest.fixture
def ada() -> User:
    set_cluster_flavor(
        actor=None, cluster=make.cluster(), flavor=make.flavor(), device="h100", now=NOW
    )
    put("acme", 64)
    put("acme/vision", 24)
    put("acme/speech", 16)
    return make.admin()


def put(path: str, guaranteed: int, **more: Any) -> Quota:
    return set_quota(
        actor=None,
        tenant=make.tenant(path),
        flavor=Flavor.objects.get(name=H100),
        guaranteed=guaranteed,
        now=more.pop("now", NOW),
        **more,
    )


def asked(ada: User, gpus: int = 16, path: str = "acme/vision", **more: Any) -> QuotaRequest:
    wish = {"start": NOW, **more}
    return ask(
        actor=ada,
        tenant=make.tenant(path),
        flavor=Flavor.objects.get(name=H100),
        wish=Wish(gpus=gpus, **wish),
        why="a deadline",
        now=NOW,
    )


def grant(ada: User, request: QuotaRequest, **changes: Any) -> QuotaRequest:
    now = changes.pop("now", NOW)
    return approve(actor=ada, request=request, changes=changes, comment="ok", now=now)


def owed(path: str, now: Any = NOW) -> int:
    tenant = Tenant.objects.get(path=path)
    return sum(row.guaranteed for row in quota_rows(now) if row.tenant == tenant.id)


def test_a_grant_begins_and_ends_by_itself(ada: User) -> None:
    request = asked(ada, start=NOW + DAY, end=NOW + 3 * DAY)
    assert owed("acme/vision", NOW + 2 * DAY) == 24
    held = grant(ada, request)
    found = [owed("acme/vision", NOW + days * DAY) for days in (0, 1, 2, 3)]
    assert found == [24, 40, 40, 24]
    assert [state_of(held, NOW + days * DAY) for days in (2, 3)] == ["approved", "ended"]
    assert (
        Quota.objects.get(tenant__path="acme/vision").revision == 2
    )  # plans made before are stale


def test_an_admin_may_change_what_is_granted_and_for_good_is_for_good(ada: User) -> None:
    held = grant(ada, asked(ada, start=NOW - DAY, end=NOW + DAY), gpus=8, end=None)
    assert (held.gpus, held.granted_gpus, held.granted_until) == (16, 8, None)
    assert held.granted_from == NOW  # what was to begin in the past begins now
    assert owed("acme/vision", NOW + 4000 * DAY) == 32


def test_children_fit_in_their_parent_at_every_moment_of_a_grant(ada: User) -> None:
    put("acme/audio", 8)  # of the 64, 16 are headroom now
    grant(ada, asked(ada, 16, "acme/speech", start=NOW + DAY, end=NOW + 3 * DAY))
    with pytest.raises(ChildrenAboveParentError) as raised:
        grant(ada, asked(ada, 8, start=NOW, end=NOW + 2 * DAY))
    assert raised.value.detail.startswith("From 2026-11-30 12:00 UTC on, acme is guaranteed 64")
    assert "acme/audio 8, acme/speech 32, acme/vision 32" in raised.value.detail
    assert owed("acme/vision") == 24
    grant(ada, asked(ada, 8, start=NOW, end=NOW + DAY))  # over when the other begins
    grant(ada, asked(ada, 8, start=NOW + 3 * DAY))  # begins when it is over


def test_no_write_of_rows_takes_away_what_a_grant_to_come_needs(ada: User) -> None:
    grant(ada, asked(ada, 24, start=NOW + DAY, end=NOW + 2 * DAY))
    with pytest.raises(ChildrenAboveParentError):
        put("acme", 63)
    with pytest.raises(ChildrenAboveParentError):
        put("acme/speech", 17)
    with pytest.raises(ChildrenAboveParentError):
        apply_table(
            actor=None, table=[TableRow(1, "acme", H100, None, 63)], prune=False, why="", now=NOW
        )
    put("acme", 40, now=NOW + 2 * DAY)


def test_a_row_on_which_a_grant_counts_stays(ada: User) -> None:
    held = grant(ada, asked(ada, 8, end=NOW + DAY))
    row = Quota.objects.get(tenant__path="acme/vision")
    with pytest.raises(GrantsCountError):
        remove_quota(actor=ada, quota=row, now=NOW)
    with pytest.raises(GrantsCountError):
        plan_table(table=[], prune=True, now=NOW)
    remove_quota(actor=ada, quota=row, now=NOW + DAY)
    held.refresh_from_db()
    assert held.state == "approved"


def test_a_tenant_without_a_row_gets_one_that_says_nothing(ada: User) -> None:
    grant(ada, asked(ada, 8, "acme/new", end=NOW + DAY))
    row = Quota.objects.get(tenant__path="acme/new")
    assert (row.guaranteed, row.borrowing_limit) == (0, None)  # as acme's row says
    assert [owed("acme/new", NOW + days * DAY) for days in (0, 1)] == [8, 0]
    grant(ada, asked(ada, 8, "beta", end=NOW + DAY, borrowing_limit=4))
    assert Quota.objects.get(tenant__path="beta").borrowing_limit == 0
    (held,) = (row for row in quota_rows(NOW) if row.tenant == make.tenant("beta").id)
    assert (held.guaranteed, held.borrowing_limit) == (8, 4)
    (later,) = (row for row in quota_rows(NOW + DAY) if row.tenant == make.tenant("beta").id)
    assert (later.guaranteed, later.borrowing_limit) == (0, 0)


def test_a_request_is_decided_once(ada: User) -> None:
    request = asked(ada, 8)
    held = grant(ada, request)
    for act in (
        lambda: grant(ada, request),
        lambda: reject(actor=ada, request=request, comment="no", now=NOW),
    ):
        with pytest.raises(RequestDecidedError, match="was approved by ada"):
            act()
    with pytest.raises(StaleWriteError):
        withdraw(actor=ada, request=request, expected_revision=1, now=NOW)
    assert owed("acme/vision") == 32
    assert held.revision == 2


def test_a_rejected_request_grants_nothing(ada: User) -> None:
    held = reject(actor=ada, request=asked(ada, 8), comment="not this year", now=NOW)
    assert (held.state, held.comment, held.decided_by) == ("rejected", "not this year", ada)
    assert owed("acme/vision") == 24
    with pytest.raises(RequestDecidedError):
        withdraw(actor=ada, request=held, now=NOW)


def test_withdrawing_ends_a_grant_now_unless_others_were_promised_of_it(ada: User) -> None:
    open_one = withdraw(actor=ada, request=asked(ada, 8), now=NOW)
    assert (open_one.state, open_one.granted_gpus) == ("withdrawn", None)
    ahead = grant(ada, asked(ada, 8, start=NOW + DAY))
    assert withdraw(actor=ada, request=ahead, now=NOW).state == "withdrawn"
    wide = grant(ada, asked(ada, 8))
    below = grant(ada, asked(ada, 32, "acme/vision/pretrain"))
    with pytest.raises(ChildrenAboveParentError):
        withdraw(actor=ada, request=wide, now=NOW + DAY)
    withdraw(actor=ada, request=below, now=NOW + DAY)
    done = withdraw(actor=ada, request=wide, now=NOW + DAY)
    assert (state_of(done, NOW + DAY), done.granted_until) == ("ended", NOW + DAY)
    assert owed("acme/vision", NOW + DAY) == 24
    with pytest.raises(RequestDecidedError, match="over"):
        withdraw(actor=ada, request=done, now=NOW + DAY)


@pytest.mark.parametrize(
    ("wish", "wrong"),
    [
        ({"gpus": 0}, ["/amount"]),
        ({"gpus": -8}, ["/amount"]),
        ({"gpus": True}, ["/amount"]),
        ({"gpus": 10**12, "borrowing_limit": -1}, ["/amount", "/borrowing_limit"]),
        ({"end": NOW}, ["/until"]),
        ({"end": NOW - DAY}, ["/until"]),
        ({"start": NOW + 2 * DAY, "end": NOW + 2 * DAY}, ["/until"]),
        ({"start": NOW.replace(year=2200)}, ["/from"]),
    ],
)
def test_what_is_no_request(ada: User, wish: dict[str, Any], wrong: list[str]) -> None:
    for act in (
        lambda: asked(ada, **wish),
        lambda: grant(ada, asked(ada), **wish),
    ):
        with pytest.raises(InvalidContentError) as raised:
            act()
        assert [problem.pointer for problem in raised.value.errors] == wrong
    assert owed("acme/vision") == 24


def test_it_may_be_too_late_to_grant_what_was_asked(ada: User) -> None:
    request = asked(ada, end=NOW + DAY)
    with pytest.raises(InvalidContentError):
        grant(ada, request, now=NOW + DAY)
    assert grant(ada, request, now=NOW + DAY, end=NOW + 2 * DAY).state == "approved"


def test_every_act_has_its_audit_entry_and_its_event(ada: User) -> None:
    request = asked(ada, 8)
    grant(ada, request, gpus=4)
    withdraw(actor=ada, request=request, comment="done", now=NOW)
    entries = AuditEntry.objects.filter(object_type="quota_request").order_by("id")
    assert [(one.action, one.actor, one.why) for one in entries] == [
        ("ask", ada, "a deadline"), ("approve", ada, "ok"), ("end", ada, "done"),
    ]  # fmt: skip
    assert {one.object_id for one in entries} == {"acme/vision h100-sxm-80"}
    assert entries[1].before == entries[0].after
    assert entries[2].before == entries[1].after
    assert entries[1].after["granted"]["amount"] == 4
    events = Event.objects.filter(subject=str(request.pk)).order_by("id")
    assert [(one.kind, one.tenant_id) for one in events] == [
        (f"quota.{action}", request.tenant_id) for action in ("ask", "approve", "end")
    ]


def test_nothing_is_half_done(ada: User) -> None:
    request = asked(ada, 8, "beta/lab")
    put("beta/lab/a", 8)
    before = AuditEntry.objects.count()
    with pytest.raises(ChildrenAboveParentError):
        grant(ada, request, start=NOW + DAY)  # its new row would owe 8 and have 0 until then
    assert AuditEntry.objects.count() == before
    assert QuotaRequest.objects.get(pk=request.pk).state == "open"
    assert not Quota.objects.filter(tenant__path="beta/lab").exists()


def test_an_owner_shares_out_only_what_a_tenant_above_has(ada: User) -> None:
    owner = make.person("olga")
    for path in ("acme", "beta"):
        set_member(actor=None, tenant=make.tenant(path), user=owner, role=Role.OWNER, now=NOW)
    with pytest.raises(PermissionDeniedError):
        grant(owner, asked(ada, 8, "beta/lab"))
    with pytest.raises(ConflictError):
        grant(owner, asked(ada, 25))
    assert grant(owner, asked(ada, 24)).decided_by == owner


@pytest.mark.django_db(transaction=True)
def test_two_who_decide_at_the_same_moment_decide_once(transactional_db: None) -> None:
    ada = make.admin()
    set_cluster_flavor(
        actor=None, cluster=make.cluster(), flavor=make.flavor(), device="h100", now=NOW
    )
    put("acme", 64)
    request = asked(ada, 8, "acme/vision")
    start, told = Barrier(4), []

    def decide(number: int) -> None:
        try:
            start.wait(timeout=20)
            act = grant if number % 2 else reject_it
            act(ada, request)
            told.append("decided")
        except ConflictError as error:
            told.append(error.code)
        finally:
            connection.close()

    def reject_it(actor: User, one: QuotaRequest) -> QuotaRequest:
        return reject(actor=actor, request=one, now=NOW)

    threads = [Thread(target=decide, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(told) == ["decided", *["request_decided"] * 3]
    assert AuditEntry.objects.filter(object_type="quota_request").count() == 2
