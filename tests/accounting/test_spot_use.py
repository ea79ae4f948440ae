"""Decayed spot use: by its definition, and the same however often it was summed up on the way."""

from datetime import timedelta

import pytest

from accounting.models import SpotUse
from accounting.selectors.spot_use import decayed_spot_use
from accounting.services.spot_use import sum_up_spot_use
from accounting.services.usage import record_run, record_runs
from clusters.models import Cluster
from kit.intervals import to_ms
from quotas.core.fair_share import window_ms
from tests.accounting.world import HOUR_MS, NOW, START, World, ended

pytestmark = pytest.mark.django_db
HALF_LIFE_MS = 24 * HOUR_MS


def used(world: World, at_ms: int) -> int:
    found = decayed_spot_use(now_ms=at_ms, half_life_ms=HALF_LIFE_MS)
    assert set(found) <= {(world.pretrain.id, "h100")}
    return found.get((world.pretrain.id, "h100"), 0)


def test_half_is_left_after_a_half_life(world: World) -> None:
    record_run(fact=world.run(service_class="spot", end_ms=START + HOUR_MS), now=NOW)
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)  # guaranteed does not count
    first = used(world, START + HOUR_MS)
    assert first == pytest.approx(8 * HOUR_MS, rel=0.02)  # a little decayed already
    later = START + HOUR_MS + HALF_LIFE_MS
    assert used(world, later) == pytest.approx(first / 2, abs=1)


def test_for_ever_at_one_rate_is_the_window(world: World) -> None:
    record_run(fact=world.run(service_class="spot", start_ms=START - 40 * HALF_LIFE_MS), now=NOW)
    assert used(world, START) == pytest.approx(8 * window_ms(HALF_LIFE_MS), rel=1e-6)


def test_summed_up_on_the_way_it_is_the_same(world: World) -> None:
    Cluster.objects.filter(id=world.alpha.id).update(clock_skew_ms=-5_000)
    still = world.run(service_class="spot", start_ms=START + HOUR_MS)
    record_runs(facts=[world.run(service_class="spot", end_ms=START + 3 * HOUR_MS), still], now=NOW)
    end_ms = START + 30 * HOUR_MS
    expected = used(world, end_ms)
    for hours in (2, 2, 5, 20):
        at = NOW + timedelta(hours=hours)
        assert sum_up_spot_use(now=at, half_life_ms=HALF_LIFE_MS) == 1
        assert SpotUse.objects.get().at_ms == to_ms(at)
        assert used(world, end_ms) == pytest.approx(expected, abs=2)
    record_run(fact=ended(still, START + 4 * HOUR_MS), now=NOW)  # told late: it ended long ago
    sum_up_spot_use(now=NOW + timedelta(hours=21), half_life_ms=HALF_LIFE_MS)
    assert used(world, end_ms) < expected
