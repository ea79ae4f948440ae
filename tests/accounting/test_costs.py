"""Costs of jobs and tenants: live, posted or not, the parts sum to the whole."""

from datetime import timedelta
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries

from accounting.core.costs import render_job_cost
from accounting.core.metering import Usage
from accounting.selectors.costs import job_costs, tenant_usage
from accounting.services.posting import meter_and_post
from accounting.services.usage import change_class, record_run, record_runs
from kit.intervals import HOUR_MS, to_ms
from tests.accounting.world import DAY0, NOW, START, USD, World, ended, post_all


def test_a_running_job_costs_what_it_used_until_now(world: World) -> None:
    world.price()
    fact = world.run()
    record_run(fact=fact, now=NOW)
    cost = job_costs(job_ids=[fact.job_id], now=NOW)[fact.job_id]
    assert (cost.amount_nano, cost.posted_nano, cost.gpu_ms) == (32 * USD, 0, 16 * HOUR_MS)


def test_a_job_that_never_ran_costs_nothing(world: World) -> None:
    job = uuid4()
    cost = job_costs(job_ids=[job], now=NOW)[job]
    assert (cost.amount_nano, cost.intervals, cost.currency) == (0, (), "USD")


def test_posting_does_not_change_what_a_job_costs(world: World) -> None:
    world.price(nano=1_234_567_891)
    fact = world.run(gpus=7)
    record_run(fact=fact, now=NOW)
    later = NOW + timedelta(days=2, milliseconds=12_345)
    before = job_costs(job_ids=[fact.job_id], now=later)[fact.job_id]
    world.seen(later)
    post_all(later)
    after = job_costs(job_ids=[fact.job_id], now=later)[fact.job_id]
    assert before.amount_nano == after.amount_nano
    assert 0 < after.posted_nano < after.amount_nano


def test_the_costs_of_a_promoted_job_as_the_api_shows_them(world: World) -> None:
    world.price(nano=2 * USD)
    world.price(nano=USD // 2, service_class="spot")
    fact = world.run(service_class="spot")
    record_run(fact=fact, now=NOW)
    change_class(
        attempt_ids=[fact.attempt_id], service_class="guaranteed", at_ms=START + HOUR_MS, now=NOW
    )
    shown = render_job_cost(job_costs(job_ids=[fact.job_id], now=NOW)[fact.job_id])
    intervals = shown.pop("intervals")
    assert isinstance(intervals, list)
    first, second = intervals
    assert shown == {
        "so_far": {"amount": "20.000000", "currency": "USD"},
        "posted": {"amount": "0.000000", "currency": "USD"},
        "unposted": {"amount": "20.000000", "currency": "USD"},
        "worst_case": None,
        "gpu_ms": 16 * HOUR_MS,
        "gpu_hours": "16.000000",
        "price_missing": False,
        "by_class": {
            "guaranteed": {
                "gpu_ms": 8 * HOUR_MS,
                "gpu_hours": "8.000000",
                "amount": {"amount": "16.000000", "currency": "USD"},
            },
            "spot": {
                "gpu_ms": 8 * HOUR_MS,
                "gpu_hours": "8.000000",
                "amount": {"amount": "4.000000", "currency": "USD"},
            },
        },
    }
    assert (first["class"], first["start"], first["end"]) == (
        "spot",
        "2026-03-10T10:00:00.000Z",
        "2026-03-10T11:00:00.000Z",
    )
    assert (second["class"], second["end"], second["gpus"]) == ("guaranteed", None, 8)


def test_usage_without_a_price_is_shown_as_such(world: World) -> None:
    fact = world.run(end_ms=START + HOUR_MS)
    record_run(fact=fact, now=NOW)
    meter_and_post(now=NOW)
    cost = job_costs(job_ids=[fact.job_id], now=NOW)[fact.job_id]
    assert (cost.amount_nano, cost.intervals[0].unpriced_gpu_ms) == (0, 8 * HOUR_MS)
    assert render_job_cost(cost)["price_missing"] is True


def test_a_tenants_sums_equal_its_jobs_whatever_is_posted(world: World) -> None:
    world.price(nano=1_999_999_999)
    world.price(nano=777_777_777, service_class="spot")
    facts = [
        world.run(end_ms=START + 20 * HOUR_MS + 1, gpus=3),
        world.run(tenant=world.nlp, service_class="spot", end_ms=START + 5_001),
        world.run(cluster=world.beta, gpus=5),
    ]
    record_runs(facts=facts, now=NOW)
    later = NOW + timedelta(days=1)
    days = {"first_day": DAY0.date(), "end_day": (DAY0 + timedelta(days=2)).date(), "now": later}
    for posted in (False, True):
        if posted:
            world.seen(later)
            post_all(later)
        costs = job_costs(job_ids=[fact.job_id for fact in facts], now=later)
        acme = tenant_usage(tenant_id=world.acme.id, **days)  # type: ignore[arg-type]
        vision = tenant_usage(tenant_id=world.vision.id, **days)  # type: ignore[arg-type]
        assert sum(row.amount_nano for row in acme) == sum(c.amount_nano for c in costs.values())
        assert sum(row.gpu_ms for row in acme) == sum(c.gpu_ms for c in costs.values())
        assert {row.tenant_id for row in vision} == {world.pretrain.id}
        assert [row.date.day for row in vision if row.cluster_id == world.alpha.id] == [10, 11]
        first = tenant_usage(
            tenant_id=world.acme.id,
            first_day=DAY0.date(),
            end_day=(DAY0 + timedelta(days=1)).date(),
            now=later,
        )
        assert {row.date for row in first} == {DAY0.date()}


@pytest.mark.parametrize("number", [1, 100])
def test_costs_and_sums_take_a_constant_number_of_queries(
    world: World, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    world.price()
    facts = [world.run() for _ in range(number)]
    record_runs(facts=facts, now=NOW)
    record_runs(facts=[ended(fact, START + 9) for fact in facts[::2]], now=NOW)
    post_all(NOW)
    with django_assert_num_queries(3):
        job_costs(job_ids=[fact.job_id for fact in facts], now=NOW)
    with django_assert_num_queries(3):
        tenant_usage(
            tenant_id=world.acme.id,
            first_day=DAY0.date(),
            end_day=DAY0.date() + timedelta(days=1),
            now=NOW,
        )


def test_an_open_run_whose_cluster_clock_is_behind_is_never_negative(world: World) -> None:
    world.price()
    fact = world.run(start_ms=to_ms(NOW) + 1_000)
    record_run(fact=fact, now=NOW)
    cost = job_costs(job_ids=[fact.job_id], now=NOW)[fact.job_id]
    assert (cost.gpu_ms, cost.amount_nano) == (0, 0)


def test_the_worst_case_is_so_far_and_the_dearest_still_to_come(world: World) -> None:
    world.price(nano=2 * USD)
    world.price(nano=3 * USD, cluster=world.beta)
    fact = world.run()
    record_run(fact=fact, now=NOW)
    now_ms, lineage = to_ms(NOW), tuple(world.pretrain.lineage)
    ahead = [
        Usage("h100", "guaranteed", 8, now_ms, now_ms + HOUR_MS, cluster.id, lineage)
        for cluster in (world.alpha, world.beta)
    ]
    costs = job_costs(job_ids=[fact.job_id], now=NOW, ahead={fact.job_id: ahead})
    assert costs[fact.job_id].worst_case_nano == 32 * USD + 24 * USD
    unpriced = [Usage("h100", "spot", 8, now_ms, now_ms + HOUR_MS, world.alpha.id, lineage)]
    costs = job_costs(job_ids=[fact.job_id], now=NOW, ahead={fact.job_id: unpriced})
    assert costs[fact.job_id].worst_case_nano is None
