"""The policy is one row, checked, and each change of it an act."""

from dataclasses import asdict, fields, replace

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse

from kit.errors import InvalidContentError
from kit.intervals import DAY_MS
from quotas.core.policy import POLICY_FIELDS, RANGES, Policy
from quotas.models import QuotaPolicy
from quotas.selectors import quota_policy
from quotas.services.policy import set_policy
from tenancy.models import AuditEntry, User
from tests.make import NOW, PASSWORD

pytestmark = pytest.mark.django_db
OTHER = Policy(DAY_MS, 0, 1, 0, 2, 60_000)
ADMIN = "admin:quotas_quotapolicy_"


def test_the_policy_is_set_and_read() -> None:
    assert quota_policy() == Policy()
    for policy in (Policy(), Policy(), OTHER):
        set_policy(actor=None, policy=policy, now=NOW)
        assert quota_policy() == policy
    acts = AuditEntry.objects.filter(object_type="quota_policy").order_by("id")
    assert [act.action for act in acts] == ["create", "update"]
    assert [(act.before, act.after) for act in acts] == [
        (None, asdict(Policy())),
        (asdict(Policy()), asdict(OTHER)),
    ]


def test_everything_has_a_range_and_a_sane_default() -> None:
    assert tuple(field.name for field in fields(Policy)) == POLICY_FIELDS
    assert not list(Policy().faults())


@pytest.mark.parametrize("name", POLICY_FIELDS)
@pytest.mark.parametrize("end", [0, 1])
def test_what_is_out_of_range_is_refused(name: str, end: int) -> None:
    value = RANGES[name][end]
    set_policy(actor=None, policy=replace(Policy(), **{name: value}), now=NOW)
    beyond = replace(Policy(), **{name: value + (1 if end else -1)})
    with pytest.raises(InvalidContentError) as raised:
        set_policy(actor=None, policy=beyond, now=NOW)
    (problem,) = raised.value.errors
    assert (problem.pointer, problem.code) == (f"/{name}", "invalid_number")
    assert "from {} to {}".format(*RANGES[name]) in problem.detail
    assert getattr(quota_policy(), name) == value


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidContentError) as raised:
        set_policy(actor=None, policy=Policy(10**30, -1, -1, -1, 10**30, 0), now=NOW)
    assert [problem.pointer for problem in raised.value.errors] == [f"/{n}" for n in POLICY_FIELDS]
    assert not QuotaPolicy.objects.exists()


@pytest.mark.parametrize("name", ["min_run_ms", "most_evictions", "cool_down_ms", "claim_ms"])
def test_the_database_refuses_it_too(name: str) -> None:
    set_policy(actor=None, policy=Policy(), now=NOW)
    for value in (RANGES[name][0] - 1, RANGES[name][1] + 1):
        with pytest.raises(IntegrityError), transaction.atomic():
            QuotaPolicy.objects.update(**{name: value})


def test_a_row_of_an_older_release_has_the_defaults() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO quotas_quotapolicy (id, half_life_ms, aging_ms) VALUES (1, 3600000, 7)"
        )
    assert quota_policy() == Policy(3_600_000, 7)


def test_the_admin_shows_the_defaults_saves_and_says_what_is_wrong(client: Client) -> None:
    ada = User.objects.create_superuser("ada", password=PASSWORD)
    client.force_login(ada)
    shown = client.get(reverse(f"{ADMIN}add")).context["adminform"].form
    assert {name: shown[name].value() for name in POLICY_FIELDS} == asdict(Policy())
    assert client.post(reverse(f"{ADMIN}add"), asdict(OTHER)).status_code == 302
    body = {**asdict(OTHER), "cool_down_ms": DAY_MS, "claim_ms": "ten", "most_evictions": ""}
    refused = client.post(reverse(f"{ADMIN}change", args=[1]), body)
    assert {*refused.context["adminform"].form.errors} == {"claim_ms", "most_evictions"}
    refused = client.post(reverse(f"{ADMIN}change", args=[1]), asdict(OTHER) | {"claim_ms": 1})
    assert refused.context["adminform"].form.errors == {
        "claim_ms": ["Give milliseconds from 60000 to 86400000."]
    }
    assert quota_policy() == OTHER
    (act,) = AuditEntry.objects.filter(object_type="quota_policy")
    assert act.actor == ada
