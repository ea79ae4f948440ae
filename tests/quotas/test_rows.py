"""Quotas are set, changed and removed with a revision and an audit entry each time."""

import pytest

from clusters.models import Flavor
from kit.errors import InvalidContentError, NotFoundError, StaleWriteError
from quotas.models import Quota
from quotas.services.rows import ChildrenAboveParentError, remove_quota, set_quota
from tenancy.models import AuditEntry, Tenant
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db


def test_a_quota_is_made_changed_and_left_alone() -> None:
    ada, team, flavor = make.admin(), make.tenant("acme/vision"), make.flavor()

    def put(guaranteed: int, **more: int) -> Quota:
        return set_quota(
            actor=ada, tenant=team, flavor=flavor, guaranteed=guaranteed, why="q4", now=NOW, **more
        )

    assert put(64, expected_revision=0).revision == 1
    assert put(64).revision == 1
    assert put(96, borrowing_limit=32, expected_revision=1).revision == 2
    first, second = AuditEntry.objects.filter(object_type="quota").order_by("id")
    place, rest = {"flavor": "h100-sxm-80", "cluster": None}, {"lending_limit": None, "weight": 1}
    assert (first.action, first.before) == ("create", None)
    assert first.after == {**place, "guaranteed": 64, "borrowing_limit": None, **rest}
    assert (second.actor, second.action, second.why) == (ada, "update", "q4")
    assert second.before == first.after
    assert second.after == {**place, "guaranteed": 96, "borrowing_limit": 32, **rest}


@pytest.mark.parametrize("expected", [0, 2, 7])
def test_a_stale_write_changes_nothing(expected: int) -> None:
    team, flavor = make.tenant("acme"), make.flavor()
    set_quota(actor=None, tenant=team, flavor=flavor, guaranteed=8, now=NOW)
    with pytest.raises(StaleWriteError):
        set_quota(
            actor=None,
            tenant=team,
            flavor=flavor,
            guaranteed=9,
            expected_revision=expected,
            now=NOW,
        )
    assert Quota.objects.get().guaranteed == 8


@pytest.mark.parametrize(
    ("guaranteed", "limit", "wrong"),
    [
        (-1, None, ["/guaranteed"]),
        (1_000_001, None, ["/guaranteed"]),
        (True, None, ["/guaranteed"]),
        (1.5, -3, ["/guaranteed", "/borrowing_limit"]),
        (8, "8", ["/borrowing_limit"]),
    ],
)
def test_numbers_that_are_no_quota(guaranteed: object, limit: object, wrong: list[str]) -> None:
    team, flavor = make.tenant("acme"), make.flavor()
    with pytest.raises(InvalidContentError) as error:
        set_quota(
            actor=None,
            tenant=team,
            flavor=flavor,
            guaranteed=guaranteed,  # type: ignore[arg-type]
            borrowing_limit=limit,  # type: ignore[arg-type]
            now=NOW,
        )
    assert [problem.pointer for problem in error.value.errors] == wrong
    assert not Quota.objects.exists()


def test_a_quota_for_one_cluster_stands_beside_the_general_one() -> None:
    team, flavor, cluster = make.tenant("acme"), make.flavor(), make.cluster()
    set_quota(actor=None, tenant=team, flavor=flavor, guaranteed=8, now=NOW)
    set_quota(actor=None, tenant=team, flavor=flavor, cluster=cluster, guaranteed=4, now=NOW)
    found = Quota.objects.order_by("guaranteed").values_list("guaranteed", "cluster__name")
    assert list(found) == [(4, "aurora"), (8, None)]


def test_zero_is_a_quota_and_removing_is_not_zero() -> None:
    team, flavor = make.tenant("acme"), make.flavor()
    quota = set_quota(
        actor=None, tenant=team, flavor=flavor, guaranteed=0, borrowing_limit=0, now=NOW
    )
    with pytest.raises(StaleWriteError):
        remove_quota(actor=None, quota=quota, expected_revision=2, now=NOW)
    remove_quota(actor=None, quota=quota, expected_revision=1, why="over", now=NOW)
    entry = AuditEntry.objects.get(action="remove")
    assert (entry.after, entry.why) == (None, "over")
    with pytest.raises(NotFoundError):
        remove_quota(actor=None, quota=quota, now=NOW)


def put(path: str, guaranteed: object, **more: object) -> Quota:
    flavor = Flavor.objects.filter(name="h100-sxm-80").first() or make.flavor()
    tenant = Tenant.objects.filter(path=path).first() or make.tenant(path)
    return set_quota(
        actor=None, tenant=tenant, flavor=flavor, guaranteed=guaranteed, now=NOW, **more
    )  # type: ignore[arg-type]


def test_children_fit_in_their_parent() -> None:
    put("acme", 64)
    put("acme/vision", 32)
    put("acme/speech", 32)
    with pytest.raises(ChildrenAboveParentError) as raised:
        put("acme/speech", 33)
    assert "acme is guaranteed 64 h100-sxm-80 GPUs, and is to owe 65" in raised.value.detail
    assert "acme/speech 33" in raised.value.detail
    assert "acme/vision 32" in raised.value.detail
    with pytest.raises(ChildrenAboveParentError):
        put("acme", 63)
    found = Quota.objects.values_list("tenant__path", "guaranteed")
    assert dict(found) == {"acme": 64, "acme/vision": 32, "acme/speech": 32}
    assert AuditEntry.objects.filter(object_type="quota").count() == 3


def test_rows_claim_from_the_nearest_row_above() -> None:
    put("acme", 64)
    put("acme/vision/pretrain", 40)  # vision has no row of its own
    with pytest.raises(ChildrenAboveParentError):
        put("acme/speech", 25)
    put("acme/vision", 60)
    with pytest.raises(ChildrenAboveParentError):
        put("acme/vision", 39)
    put("acme/vision/pretrain", 4)
    remove_quota(actor=None, quota=put("acme/vision", 60), now=NOW)
    put("acme/speech", 60)


def test_taking_a_row_away_does_not_let_those_below_claim_too_much() -> None:
    put("acme", 16)
    middle = put("acme/vision", 8)
    put("acme/vision/pretrain", 8)
    put("acme/speech", 8)
    remove_quota(actor=None, quota=middle, now=NOW)  # pretrain claims the same 8 from acme
    again = put("acme/vision", 8)
    put("acme/vision/pretrain", 0)
    put("acme/vision/other", 8)
    remove_quota(actor=None, quota=again, now=NOW)


def test_a_row_of_one_cluster_fits_in_that_of_all() -> None:
    alpha = make.cluster("alpha")
    put("acme", 8)
    with pytest.raises(ChildrenAboveParentError):
        put("acme", 9, cluster=alpha)
    put("acme", 8, cluster=alpha)
    put("acme/vision", 8, cluster=alpha)
    with pytest.raises(ChildrenAboveParentError):
        put("acme/speech", 1, cluster=alpha)


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"lending_limit": 9}, "/lending_limit"),
        ({"lending_limit": -1}, "/lending_limit"),
        ({"weight": 0}, "/weight"),
        ({"weight": 1001}, "/weight"),
        ({"weight": None}, "/weight"),
    ],
)
def test_what_one_row_cannot_say(more: dict[str, object], wrong: str) -> None:
    with pytest.raises(InvalidContentError) as raised:
        put("acme", 8, **more)
    assert [problem.pointer for problem in raised.value.errors] == [wrong]
    assert not Quota.objects.exists()


def test_a_weight_belongs_to_the_row_of_all_clusters() -> None:
    alpha = make.cluster("alpha")
    with pytest.raises(InvalidContentError):
        put("acme", 8, cluster=alpha, weight=2)
    assert put("acme", 8, weight=2).weight == 2
