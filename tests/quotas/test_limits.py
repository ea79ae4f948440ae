"""Limits are set, changed and removed with a revision and an audit entry each time."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from federation.core.spec.table import JOB
from kit.errors import InvalidContentError, NotFoundError, StaleWriteError
from quotas.core.limits import LABEL_NAME, LimitRow, Scope
from quotas.models import Limit
from quotas.selectors import limit_rows, limits_of, limits_under
from quotas.services.limits import Whose, remove_limit, set_limit
from tenancy.models import AuditEntry, Tenant
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db

EVERYBODY = Whose()
EACH = Whose("user")


def put(tenant: Tenant, whose: Whose = EVERYBODY, **bounds: Any) -> Limit:
    return set_limit(actor=None, tenant=tenant, whose=whose, now=NOW, **bounds)


def test_a_limit_is_made_changed_left_alone_and_removed() -> None:
    ada, team = make.admin(), make.tenant("acme/vision")
    revision = Tenant.objects.get(pk=team.pk).revision
    made = set_limit(
        actor=ada, tenant=team, whose=EACH, running_gpus=64, expected_revision=0, why="q4", now=NOW
    )
    assert made.revision == 1
    assert put(team, EACH, running_gpus=64).revision == 1  # the same again
    assert put(team, EACH, running_gpus=32, waiting_jobs=5, expected_revision=1).revision == 2
    assert limit_rows() == (LimitRow(team.id, Scope.USER, running_gpus=32, waiting_jobs=5),)
    remove_limit(actor=ada, tenant=team, whose=EACH, expected_revision=2, why="free", now=NOW)
    assert limit_rows() == ()
    first, second, third = AuditEntry.objects.filter(object_type="limit").order_by("id")
    nothing = {"running_jobs": None, "longest_ms": None}
    assert (first.actor, first.action, first.before, first.why) == (ada, "create", None, "q4")
    assert first.object_id == "acme/vision each person"
    assert first.after == {"running_gpus": 64, "waiting_jobs": None, **nothing}
    assert second.before == first.after
    assert second.after == {"running_gpus": 32, "waiting_jobs": 5, **nothing}
    assert (third.action, third.before, third.after) == ("remove", second.after, None)
    # What was decided on other limits is stale: the tenant's revision is compared at commit.
    assert Tenant.objects.get(pk=team.pk).revision == revision + 3
    with pytest.raises(NotFoundError):
        remove_limit(actor=ada, tenant=team, whose=EACH, now=NOW)


@pytest.mark.parametrize("expected", [0, 2, 7])
def test_a_stale_write_changes_nothing(expected: int) -> None:
    team = make.tenant("acme")
    put(team, running_jobs=8)
    with pytest.raises(StaleWriteError):
        put(team, running_jobs=9, expected_revision=expected)
    with pytest.raises(StaleWriteError):
        remove_limit(actor=None, tenant=team, whose=EVERYBODY, expected_revision=expected, now=NOW)
    assert Limit.objects.get().running_jobs == 8
    assert AuditEntry.objects.filter(object_type="limit").count() == 1


@pytest.mark.parametrize("name", ["running_gpus", "running_jobs", "waiting_jobs"])
@pytest.mark.parametrize("bound", [-1, 0, 1_000_001, 10**30, True, 1.5, "8"])
def test_numbers_that_are_no_limit(name: str, bound: object) -> None:
    team = make.tenant("acme")
    with pytest.raises(InvalidContentError) as error:
        put(team, **{name: bound})
    assert [problem.pointer for problem in error.value.errors] == [f"/{name}"]
    assert not Limit.objects.exists()


@pytest.mark.parametrize(
    ("whose", "bounds", "wrong"),
    [
        (EVERYBODY, {}, ["/running_gpus"]),
        (EVERYBODY, {"longest_ms": 999}, ["/longest_ms"]),
        (EVERYBODY, {"longest_ms": 10**15}, ["/longest_ms"]),
        (EVERYBODY, {"running_jobs": 1, "why": "a\0b"}, ["/why"]),
        (Whose("group"), {"running_jobs": 1}, ["/scope"]),
        (Whose("label"), {"running_jobs": 1}, ["/label"]),
        (Whose("label", label="a b", text="x"), {"running_jobs": 1}, ["/label"]),
        (Whose("label", label="-a", text="x"), {"running_jobs": 1}, ["/label"]),
        (Whose("label", label="a" * 64, text="x"), {"running_jobs": 1}, ["/label"]),
        (Whose("label", label="a", text="x" * 256), {"running_jobs": 1}, ["/label"]),
        (Whose("label", label="a", text="x\0"), {"running_jobs": 1}, ["/label"]),
        (Whose("tenant", label="a", text="x"), {"running_jobs": 1}, ["/label"]),
        (Whose("user", label="a"), {"running_jobs": 1}, ["/label"]),
        (EVERYBODY, {"running_gpus": 0, "longest_ms": -5}, ["/running_gpus", "/longest_ms"]),
    ],
)
def test_bad_input_names_each_field(whose: Whose, bounds: Any, wrong: list[str]) -> None:
    team = make.tenant("acme")
    with pytest.raises(InvalidContentError) as error:
        put(team, whose, **bounds)
    assert [problem.pointer for problem in error.value.errors] == wrong
    assert not Limit.objects.exists()


def test_a_person_goes_with_the_scope_user_only() -> None:
    mia, team = make.person(), make.tenant("acme")
    put(team, Whose("user", mia), running_jobs=2)
    put(team, EACH, running_jobs=4)
    for whose in (Whose("tenant", mia), Whose("label", mia, "a", "x")):
        with pytest.raises(InvalidContentError) as error:
            put(team, whose, running_jobs=1)
        assert [problem.pointer for problem in error.value.errors] == ["/user"]
    assert {(row.user, row.running_jobs) for row in limit_rows()} == {(mia.id, 2), (None, 4)}


@pytest.mark.parametrize(
    "row",
    [
        {"scope": "tenant", "running_jobs": 1, "label": "a"},
        {"scope": "label", "running_jobs": 1},
        {"scope": "else", "running_jobs": 1},
        {"scope": "user"},
        {"scope": "user", "longest_ms": -1},
    ],
)
def test_the_database_refuses_what_no_service_writes(row: dict[str, Any]) -> None:
    team = make.tenant("acme")
    with pytest.raises(IntegrityError), transaction.atomic():
        Limit.objects.create(tenant=team, **row)


def test_the_same_place_twice_is_refused_by_the_database() -> None:
    team = make.tenant("acme")
    put(team, EACH, running_jobs=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Limit.objects.create(tenant=team, scope="user", running_jobs=2)


def test_whose_limits_speak_for_a_tenant_and_who_sees_which() -> None:
    team, other = make.tenant("acme/vision"), make.tenant("zeta")
    above = Tenant.objects.get(path="acme")
    put(team, EACH, running_jobs=1)
    put(above, running_jobs=9)
    put(other, running_jobs=5)
    assert [limit.tenant.path for limit in limits_of(team)] == ["acme", "acme/vision"]
    assert [limit.tenant.path for limit in limits_of(above)] == ["acme"]
    assert limits_under(make.person()) == []
    assert [one.tenant.path for one in limits_under(make.admin())] == [
        "acme", "acme/vision", "zeta",
    ]  # fmt: skip


def test_reads_take_one_query_however_many_there_are(django_assert_num_queries: Any) -> None:
    team, ada = make.tenant("acme/vision"), make.admin()
    for number in range(30):
        put(team, Whose("label", label=f"k{number}", text="v"), running_jobs=1)
    for read in (limit_rows, lambda: limits_of(team), lambda: limits_under(ada)):
        with django_assert_num_queries(1):
            assert len([str(one) for one in read()]) == 30


@pytest.mark.parametrize(
    "name", ["a", "team/x", "a.b_c-d", "A9", "a" * 63, "a" * 64, "-a", "a ", "", "é"]
)
def test_a_label_is_named_as_in_a_jobs_body(name: str) -> None:
    problems: list[Any] = []
    JOB.fields["labels"].kind.read({name: "x"}, "", problems)
    assert (LABEL_NAME.fullmatch(name) is not None) == (not problems)
