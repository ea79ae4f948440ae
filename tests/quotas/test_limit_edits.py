"""Several limits changed at once: what is planned, what is refused, and that it is all or nothing."""

from typing import Any

import pytest

from kit.errors import InvalidContentError, StaleWriteError
from quotas.core.limits import LimitRow, Scope
from quotas.models import Limit
from quotas.selectors import limit_rows
from quotas.services.limit_edits import LimitEdit, apply_limits, plan_limits
from quotas.services.limits import Whose, set_limit
from tenancy.models import AuditEntry, Tenant, User
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db

ALL, EACH = Whose(), Whose("user")
NONE: dict[str, Any] = dict.fromkeys(("running_gpus", "running_jobs", "waiting_jobs", "longest_ms"))


def edit(tenant: Tenant, whose: Whose, revision: int = 0, **more: Any) -> LimitEdit:
    gone = more.pop("gone", False)
    return LimitEdit(tenant, whose, {**NONE, **more}, revision, gone)


@pytest.fixture
def ada() -> User:
    return make.admin()


@pytest.fixture
def team() -> Tenant:
    tenant = make.tenant("acme")
    set_limit(actor=None, tenant=tenant, whose=EACH, running_jobs=8, now=NOW)
    return tenant


def test_a_plan_says_what_would_be_and_writes_nothing(team: Tenant) -> None:
    edits = [edit(team, EACH, 1, running_jobs=4, running_gpus=16), edit(team, ALL, waiting_jobs=9)]
    plan = plan_limits(edits=edits)
    assert [(one.before, one.after) for one in plan.changes] == [
        ({**NONE, "running_jobs": 8}, {**NONE, "running_jobs": 4, "running_gpus": 16}),
        (None, {**NONE, "waiting_jobs": 9}),
    ]
    assert set(plan.rows) == {
        LimitRow(team.pk, Scope.USER, running_jobs=4, running_gpus=16),
        LimitRow(team.pk, waiting_jobs=9),
    }
    assert plan_limits(edits=[edit(team, EACH, 1, gone=True)]).rows == ()
    assert plan_limits(edits=[edit(team, EACH, 1, running_jobs=8)]).changes == ()
    assert limit_rows() == (LimitRow(team.pk, Scope.USER, running_jobs=8),)


def test_all_are_written_with_one_reason_or_none(ada: User, team: Tenant) -> None:
    other = make.tenant("rival")
    edits = [edit(team, EACH, 1, gone=True), edit(other, ALL, running_jobs=3)]
    apply_limits(actor=ada, edits=edits, why="plan 27", now=NOW)
    assert limit_rows() == (LimitRow(other.pk, running_jobs=3),)
    entries = AuditEntry.objects.filter(actor=ada).order_by("id")
    assert [(one.action, one.object_id, one.why) for one in entries] == [
        ("remove", "acme each person", "plan 27"), ("create", "rival all jobs", "plan 27"),
    ]  # fmt: skip
    stale = [edit(team, ALL, running_jobs=1), edit(other, ALL, 7, running_jobs=2)]
    with pytest.raises(StaleWriteError, match="rival, all jobs"):
        apply_limits(actor=ada, edits=stale, why="x", now=NOW)
    with pytest.raises(StaleWriteError):
        apply_limits(actor=ada, edits=[edit(team, EACH, 1, gone=True)], why="x", now=NOW)
    assert Limit.objects.get().running_jobs == 3
    assert entries.count() == 2


@pytest.mark.parametrize("why", ["", "  ", None, 5, "x" * 1001, "a\0b"])
def test_a_reason_is_needed(ada: User, team: Tenant, why: Any) -> None:
    with pytest.raises(InvalidContentError) as error:
        apply_limits(actor=ada, edits=[edit(team, ALL, running_jobs=1)], why=why, now=NOW)
    assert [problem.pointer for problem in error.value.errors] == ["/why"]
    assert Limit.objects.count() == 1


def test_what_is_wrong_names_the_edit_and_the_field(ada: User, team: Tenant) -> None:
    edits = [
        edit(team, EACH, running_jobs=1),  # there is one
        edit(team, ALL, running_jobs=0, waiting_jobs="x"),
        edit(team, ALL, running_jobs=2),
        edit(team, Whose("label", label="a b"), running_jobs=2),
        edit(team, Whose("label", label="a", text="b")),
        edit(team, Whose("label", label="a", text="c"), gone=True, running_jobs=-1),
    ]
    with pytest.raises(InvalidContentError) as error:
        apply_limits(actor=ada, edits=edits, why="x", now=NOW)
    assert [problem.pointer for problem in error.value.errors] == [
        "/rows/1/tenant", "/rows/2/running_jobs", "/rows/2/waiting_jobs", "/rows/3/tenant",
        "/rows/4/label", "/rows/5/running_gpus",
    ]  # fmt: skip
    assert Limit.objects.count() == 1
