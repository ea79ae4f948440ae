"""429: per token for reads and writes, per tenant for jobs; nothing is done, and it says when."""

from dataclasses import replace
from typing import Any

import pytest
from django.conf import LazySettings

from federation.models import Job
from tests.api.world import World
from tests.federation.bodies import small


@pytest.fixture(autouse=True)
def no_limits_but_one(settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, rate_reads=0, rate_writes=0, rate_tenant_jobs=0
    )


def limit(settings: LazySettings, **limits: int) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, **limits)


def is_refused(answer: Any) -> bool:
    if answer.status_code != 429:
        return False
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "throttled"
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    return True


def test_reads_and_writes_of_one_token_are_counted_apart(
    world: World, settings: LazySettings
) -> None:
    limit(settings, rate_reads=2, rate_writes=1)
    assert [is_refused(world.bob.get("/jobs")) for _ in range(3)] == [False, False, True]
    assert [is_refused(world.bob.post("/jobs", small())) for _ in range(2)] == [False, True]
    assert Job.objects.count() == 1
    assert not is_refused(world.vera.get("/jobs")), "another token has its own"


def test_answers_say_what_is_left(world: World, settings: LazySettings) -> None:
    limit(settings, rate_reads=2)
    answer = world.bob.get("/jobs")
    assert answer.headers["RateLimit-Policy"] == '"reads";q=2;w=60'
    assert answer.headers["RateLimit"].startswith('"reads";r=1;t=')
    assert "r=0" in world.bob.get("/nowhere-at-all").headers.get("RateLimit", "r=0")
    assert "RateLimit" not in world.nobody.get("/jobs").headers


def test_each_job_of_a_batch_counts_for_its_tenant_whoever_submits(
    world: World, settings: LazySettings
) -> None:
    limit(settings, rate_tenant_jobs=3)
    batch = {"jobs": [small(), small()]}
    assert not is_refused(world.bob.post("/jobs/batch", batch))
    assert is_refused(world.alice.post("/jobs/batch", batch))
    assert Job.objects.count() == 2
    assert not is_refused(world.alice.post("/jobs", small()))
    assert is_refused(world.bob.post("/jobs", small()))


def test_who_may_not_submit_there_takes_nothing_of_the_tenant(
    world: World, settings: LazySettings
) -> None:
    limit(settings, rate_tenant_jobs=1)
    for caller in (world.charlie, world.vera):
        assert world.bob.call("GET", "/jobs").status_code == 200
        assert caller.post("/jobs", small()).status_code in (403, 422)
    assert not is_refused(world.bob.post("/jobs", small()))


def test_without_valkey_nobody_is_refused(world: World, settings: LazySettings) -> None:
    limit(settings, rate_reads=1, rate_writes=1, rate_tenant_jobs=1)
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    assert not any(is_refused(world.bob.get("/jobs")) for _ in range(3))
    assert not any(is_refused(world.bob.post("/jobs", small())) for _ in range(3))
    assert Job.objects.count() == 3


def test_metrics_say_when_limits_are_set_and_nothing_is_limited(
    world: World, settings: LazySettings
) -> None:
    def off() -> str:
        text = world.nobody.client.get("/metrics").content.decode()
        (line,) = (row for row in text.splitlines() if row.startswith("muster_rate_limits_off"))
        return line.split()[1]

    limit(settings, rate_reads=2)
    assert off() == "0.0"
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    assert off() == "1.0"
    limit(settings, rate_reads=0)
    assert off() == "0.0"
