"""Quotas are set, changed and removed with a revision and an audit entry each time."""

import pytest

from kit.errors import InvalidContentError, NotFoundError, StaleWriteError
from quotas.models import Quota
from quotas.services import remove_quota, set_quota
from tenancy.models import AuditEntry
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
    place = {"flavor": "h100-sxm-80", "cluster": None}
    assert (first.action, first.before) == ("create", None)
    assert first.after == {**place, "guaranteed": 64, "borrowing_limit": None}
    assert (second.actor, second.action, second.why) == (ada, "update", "q4")
    assert second.before == first.after
    assert second.after == {**place, "guaranteed": 96, "borrowing_limit": 32}


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
