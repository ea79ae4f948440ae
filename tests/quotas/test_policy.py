"""The policy is one row, checked, and each change of it an act."""

import pytest

from kit.errors import InvalidContentError
from kit.intervals import DAY_MS
from quotas.core.policy import Policy
from quotas.models import QuotaPolicy
from quotas.selectors import quota_policy
from quotas.services.policy import set_policy
from tenancy.models import AuditEntry
from tests.make import NOW

pytestmark = pytest.mark.django_db


def test_the_policy_is_set_and_read() -> None:
    assert quota_policy() == Policy()
    for half_life_ms in (DAY_MS, DAY_MS, 2 * DAY_MS):
        set_policy(actor=None, half_life_ms=half_life_ms, aging_ms=0, now=NOW)
    assert quota_policy() == Policy(2 * DAY_MS, 0)
    acts = AuditEntry.objects.filter(object_type="quota_policy").order_by("id")
    assert [act.action for act in acts] == ["create", "update"]


@pytest.mark.parametrize(
    ("half_life_ms", "aging_ms", "wrong"),
    [(0, 0, ["/half_life_ms"]), (10**12, -1, ["/half_life_ms", "/aging_ms"])],
)
def test_what_is_out_of_range_is_refused(
    half_life_ms: int, aging_ms: int, wrong: list[str]
) -> None:
    with pytest.raises(InvalidContentError) as raised:
        set_policy(actor=None, half_life_ms=half_life_ms, aging_ms=aging_ms, now=NOW)
    assert [problem.pointer for problem in raised.value.errors] == wrong
    assert not QuotaPolicy.objects.exists()
