"""Setting prices: validated, audited, once; never under what is posted."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from accounting.core.rating import NoPrice, PriceEntry
from accounting.models import Price
from accounting.selectors.prices import price_book, prices_in_force
from accounting.services.posting import meter_and_post
from accounting.services.prices import (
    CurrencyMismatchError,
    PriceInUseError,
    PriceScope,
    set_price,
)
from accounting.services.usage import record_run
from kit.errors import InvalidContentError
from kit.intervals import HOUR_MS, from_ms, to_ms
from tenancy.models import AuditEntry
from tests.accounting.world import DAY0, NOW, START, USD, World


def test_setting_a_price_twice_is_once_and_audited(world: World) -> None:
    assert world.price().pk == world.price().pk
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor_id, entry.before) == ("price.set", world.user.id, None)
    assert entry.after is not None
    assert entry.after["nano_per_gpu_hour"] == 2 * USD


def test_everything_wrong_is_named_at_once(world: World) -> None:
    with pytest.raises(InvalidContentError) as caught:
        set_price(
            actor=None,
            scope=PriceScope("x100", "auto", uuid4(), uuid4()),
            nano_per_gpu_hour=-1,
            currency="usd",
            effective_from=datetime(2026, 1, 1),  # noqa: DTZ001 - the mistake
            now=NOW,
        )
    assert {problem.pointer for problem in caught.value.errors} == {
        "/flavor",
        "/class",
        "/cluster",
        "/tenant",
        "/amount",
        "/currency",
        "/effective_from",
    }
    assert not Price.objects.exists()


def test_the_book_has_one_currency(world: World) -> None:
    world.price()
    with pytest.raises(CurrencyMismatchError):
        world.price(currency="EUR", service_class="spot")


def test_a_mistake_can_be_mended_while_nothing_is_posted_by_it(world: World) -> None:
    world.price(nano=1)
    world.price(nano=2)
    assert Price.objects.get().nano_per_gpu_hour == 2
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    meter_and_post(now=NOW)
    with pytest.raises(PriceInUseError):
        world.price(nano=3)


@pytest.mark.parametrize(
    ("since_h", "narrow", "is_refused"),
    [
        (-1, "", True),
        (0, "", True),
        (1, "", False),  # from the posted run's end on
        (0, "nlp", False),  # another tenant
        (0, "vision", True),  # the tenant above the billed one
        (0, "alpha", True),
        (0, "beta", False),
    ],
)
def test_a_price_may_not_change_what_is_posted(
    world: World, since_h: int, narrow: str, is_refused: bool
) -> None:
    world.price()
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    meter_and_post(now=NOW)
    since = from_ms(START) + timedelta(hours=since_h)
    tenant = {"nlp": world.nlp, "vision": world.vision}.get(narrow)
    cluster = {"alpha": world.alpha, "beta": world.beta}.get(narrow)
    if is_refused:
        with pytest.raises(PriceInUseError):
            world.price(nano=5, since=since, tenant=tenant, cluster=cluster)
    else:
        world.price(nano=5, since=since, tenant=tenant, cluster=cluster)
        assert Price.objects.count() == 2


def test_a_gap_before_the_posted_time_can_be_filled(world: World) -> None:
    world.price(since=from_ms(START))
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    meter_and_post(now=NOW)
    world.price(nano=5, since=DAY0)
    assert Price.objects.count() == 2


def test_a_general_price_may_come_under_a_specific_one_that_posted(world: World) -> None:
    world.price(tenant=world.pretrain)
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    meter_and_post(now=NOW)
    world.price(nano=5, since=DAY0)
    assert Price.objects.count() == 2


def test_the_snapshots_book_knows_what_holds_now_and_later(world: World) -> None:
    world.price(nano=1, since=DAY0 - timedelta(days=2))
    world.price(nano=2, since=DAY0 - timedelta(days=1))
    world.price(nano=3, since=DAY0 + timedelta(days=1))
    world.price(nano=9, cluster=world.beta, since=DAY0 - timedelta(days=3))
    book = price_book(to_ms(DAY0))

    def nano(at: datetime, cluster: str = "alpha") -> int | None:
        found = book.lookup(
            flavor="h100",
            service_class="guaranteed",
            cluster=getattr(world, cluster).id,
            lineage=tuple(world.nlp.lineage),
            at_ms=to_ms(at),
        )
        return found.nano_per_gpu_hour if isinstance(found, PriceEntry) else None

    assert (nano(DAY0), nano(DAY0 + timedelta(days=1)), nano(DAY0, "beta")) == (2, 3, 9)
    assert nano(DAY0 - timedelta(days=2)) is None  # older prices are not in this book
    assert [price.nano_per_gpu_hour for price in prices_in_force(now=DAY0)] == [2, 9]


def test_the_snapshots_book_says_no_price(world: World) -> None:
    found = price_book(to_ms(DAY0)).lookup(
        flavor="h100",
        service_class="spot",
        cluster=None,
        lineage=tuple(world.nlp.lineage),
        at_ms=to_ms(DAY0),
    )
    assert found == NoPrice("h100", "spot", to_ms(DAY0))
