"""Token buckets in a real Valkey: never more than the limit, filled evenly, open without Valkey."""

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from redis import Redis

from kit import rate
from kit.rate import Bucket, Limiter, Verdict
from tests.stack import broker_url


@pytest.fixture
def url() -> str:
    return broker_url()


@pytest.fixture
def key() -> str:
    return f"muster:rate:test:{uuid4()}"


def allowed(limiter: Limiter, bucket: Bucket, cost: int = 1) -> Verdict:
    verdict = limiter.charge(bucket, cost)
    assert verdict is not None
    return verdict


def age(url: str, key: str, seconds: float) -> None:
    """As if so much time had passed since: the bucket is full that much earlier."""
    with Redis.from_url(url) as client:
        full = int(client.get(key) or 0)
        client.set(key, full - round(seconds * 1_000_000), keepttl=True)


def test_a_bucket_gives_its_limit_and_then_says_when_to_come_back(url: str, key: str) -> None:
    limiter, bucket = Limiter(url), Bucket("writes", key, 4)
    assert [allowed(limiter, bucket).left for _ in range(4)] == [3, 2, 1, 0]
    refused = allowed(limiter, bucket)
    assert (refused.is_allowed, refused.left) == (False, 0)
    assert 1 <= refused.wait_s <= 15
    assert refused.headers() == {
        "RateLimit-Policy": '"writes";q=4;w=60',
        "RateLimit": f'"writes";r=0;t={refused.wait_s}',
    }


def test_it_fills_evenly_and_never_above_the_limit(url: str, key: str) -> None:
    limiter, bucket = Limiter(url), Bucket("writes", key, 4)
    assert allowed(limiter, bucket, 4).is_allowed
    age(url, key, 31)  # two of four
    assert [allowed(limiter, bucket).is_allowed for _ in range(3)] == [True, True, False]
    age(url, key, 3600)
    assert [allowed(limiter, bucket).is_allowed for _ in range(5)] == [True] * 4 + [False]


def test_a_cost_above_the_limit_needs_a_full_bucket(url: str, key: str) -> None:
    limiter, bucket = Limiter(url), Bucket("jobs", key, 7)
    assert allowed(limiter, bucket, 1000).is_allowed
    assert not allowed(limiter, bucket, 1).is_allowed
    assert not allowed(limiter, bucket, 1000).is_allowed
    age(url, key, 60)
    assert allowed(limiter, bucket, 1000).is_allowed


def test_what_is_refused_costs_nothing(url: str, key: str) -> None:
    limiter, bucket = Limiter(url), Bucket("jobs", key, 10)
    assert allowed(limiter, bucket, 6).is_allowed
    assert not allowed(limiter, bucket, 5).is_allowed
    assert allowed(limiter, bucket, 4).is_allowed


def test_processes_and_threads_together_get_no_more_than_the_limit(url: str, key: str) -> None:
    limiters, bucket = [Limiter(url) for _ in range(3)], Bucket("reads", key, 1_200)
    start = threading.Barrier(9)

    def spend(number: int) -> int:
        start.wait(60)
        return sum(allowed(limiters[number % 3], bucket).is_allowed for _ in range(200))

    with Redis.from_url(url) as client, ThreadPoolExecutor(9) as pool:
        begun_s = clock_s(client)
        passed = sum(pool.map(spend, range(9)))
        took_s = clock_s(client) - begun_s
    assert 1_000 <= passed <= 1_200 + 20 * took_s + 1, "it fills by 20 a second"


def clock_s(client: "Redis") -> float:
    seconds, micros = client.time()
    return seconds + micros / 1_000_000


def test_a_share_saves_asking_and_what_is_left_counts_it(
    url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter, bucket = Limiter(url), Bucket("reads", key, 6_000)
    assert bucket.share == 10
    lives: list[Any] = []
    ask = limiter._take
    monkeypatch.setattr(limiter, "_take", lambda *a: lives.append(a) or ask(*a))
    monkeypatch.setattr(rate, "SHARE_LIFE_S", 3600)
    assert [allowed(limiter, bucket).left for _ in range(10)] == list(range(5_999, 5_989, -1))
    assert len(lives) == 1
    assert allowed(limiter, bucket).left >= 5_989
    assert len(lives) == 2


def test_an_old_share_is_not_spent(url: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "SHARE_LIFE_S", -1)
    limiter, bucket = Limiter(url), Bucket("reads", key, 6_000)
    allowed(limiter, bucket)
    with Redis.from_url(url) as client:
        before = int(client.get(key) or 0)
        allowed(limiter, bucket)
        assert int(client.get(key) or 0) > before


def test_zero_is_no_limit_and_asks_nobody(key: str) -> None:
    assert Limiter("redis://127.0.0.1:1/0").charge(Bucket("reads", key, 0), 10**9) is None


@pytest.fixture
def silent() -> Iterator[str]:
    """A Valkey that takes the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_without_valkey_all_pass_and_the_log_says_so_once(
    key: str, silent: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "kit.rate")
    for address in ("redis://127.0.0.1:1/0", silent):
        caplog.clear()
        limiter = Limiter(address)
        assert [limiter.charge(Bucket("reads", key, 1)) for _ in range(50)] == [None] * 50
        monkeypatch.setattr(limiter, "_asks_again_s", 0.0)
        assert limiter.charge(Bucket("reads", key, 1)) is None
        assert len(caplog.records) == 1
        assert "rate limits are off" in caplog.text


def test_it_limits_again_when_valkey_is_back_and_has_forgotten_all(
    url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter, bucket = Limiter(url), Bucket("reads", key, 2)
    assert allowed(limiter, bucket, 2).is_allowed
    with Redis.from_url(url) as client:
        client.script_flush()
        client.delete(key)
    assert [allowed(limiter, bucket).is_allowed for _ in range(3)] == [True, True, False]


def test_the_test_has_a_valkey_of_its_own(url: str) -> None:
    assert url != settings.CELERY_BROKER_URL
