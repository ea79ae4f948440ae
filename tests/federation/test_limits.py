"""Limits on PostgreSQL: what a cycle reads of them, and what becomes stale when one is set."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.models import Job
from federation.selectors.snapshot import take_snapshot
from federation.selectors.whatif import effect_of_limits
from federation.services.commit import Committed, begin_term, commit_plan
from quotas.core.limits import Limited, LimitRow, Scope
from quotas.selectors import limit_rows
from quotas.services.limits import Whose, remove_limit, set_limit
from tenancy.models import Tenant
from tests.federation.world import NOW, World

pytestmark = pytest.mark.django_db

EACH = Whose("user")
SWEEP = Whose("label", label="kind", text="sweep")


def put(tenant: Tenant, whose: Whose, **bounds: Any) -> None:
    set_limit(actor=None, tenant=tenant, whose=whose, now=NOW, **bounds)


def commit(plan: Plan | None = None) -> Committed:
    plan = plan or decide(take_snapshot(NOW))
    return commit_plan(plan=plan, epoch=begin_term(now=NOW), now=NOW)


def test_a_cycle_starts_up_to_the_limit_and_the_next_one_counts_what_runs() -> None:
    world = World()
    jobs = [world.job() for _ in range(3)]
    above = Tenant.objects.get(path="acme")
    put(above, EACH, running_jobs=2)
    assert (commit().bound, commit().bound) == (2, 0)
    waits = Job.objects.get(pk=jobs[2].pk)
    assert [(r["code"], r["unit"], r["needed"], r["available"]) for r in waits.reasons] == [
        ("limit_reached", "jobs", 1, 0)
    ]
    assert waits.reasons[0]["message"].startswith("Each person in acme may run at most 2 jobs")
    remove_limit(actor=None, tenant=above, whose=EACH, now=NOW)
    assert commit().bound == 1


def test_labels_of_what_waits_and_runs_count() -> None:
    world = World()
    put(world.tenant, SWEEP, running_gpus=8)
    for kind in ("sweep", "sweep", "train"):
        world.job(labels={"kind": kind, "x": "y"})
    assert (commit().bound, commit().bound) == (2, 0)
    assert Job.objects.get(state="queued").labels["kind"] == "sweep"


def test_a_limit_set_after_the_snapshot_makes_the_plan_stale() -> None:
    world = World()
    world.job()
    world.job()
    plan = decide(take_snapshot(NOW))
    assert len(plan.bindings) == 2
    put(Tenant.objects.get(path="acme"), EACH, running_jobs=1)
    assert (commit(plan).bound, Job.objects.filter(state="queued").count()) == (0, 2)
    assert commit().bound == 1


def test_what_other_limits_would_change_is_told_and_nothing_is_written() -> None:
    world = World()
    first, second = (world.job(labels={"kind": "sweep"}).pk for _ in range(2))
    put(world.tenant, Whose(), running_jobs=1)
    (held,) = limit_rows()
    without = effect_of_limits((), NOW)
    assert (list(without.started), without.held_back) == ([second], [])
    # Of a label that no limit has named so far.
    sweep = LimitRow(world.tenant.pk, Scope.LABEL, None, "kind", "sweep", running_gpus=1)
    less = effect_of_limits((held, sweep), NOW)
    assert (less.started, less.held_back, list(less.jobs)) == ({}, [first], [first])
    assert effect_of_limits((held,), NOW).jobs == {}
    assert limit_rows() == (held,)
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


def test_nothing_of_jobs_is_read_for_limits_where_none_asks_for_it() -> None:
    world = World()
    for _ in range(3):
        world.job(labels={"kind": "sweep"})
    commit()
    assert take_snapshot(NOW).limited == Limited()
    queries = {}
    world.job(labels={})  # without one that waits a query is saved
    for name, whose in (("none", None), ("tenant", Whose()), ("user", EACH), ("label", SWEEP)):
        if whose:
            put(world.tenant, whose, running_jobs=5)
        with CaptureQueriesContext(
            connection,
        ) as seen:
            take_snapshot(NOW)
        queries[name] = len(seen)
    assert queries["tenant"] == queries["none"]
    assert queries["user"] == queries["none"] + 1
    assert queries["label"] == queries["none"] + 2
    for number in range(10):
        put(world.tenant, Whose("label", label=f"k{number}", text="x"), running_jobs=5)
        world.job(labels={f"k{number}": "x"})
    with CaptureQueriesContext(connection) as seen:
        limited = take_snapshot(NOW).limited
    assert len(seen) == queries["label"]
    assert (len(limited.rows), len(limited.people), len(limited.labels)) == (13, 3, 13)
