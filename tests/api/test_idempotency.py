"""`Idempotency-Key` over two real connections and after a crash."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections

from federation.models import Job
from tenancy.models import IdempotencyRecord
from tests.api.world import TEAM, World, build, problem
from tests.federation.bodies import small


@pytest.fixture
def world(transactional_db: None) -> World:
    return build()


@pytest.fixture
def slow_inserts(world: World) -> Iterator[None]:
    """Storing an answer takes a while, so that two requests really overlap."""
    trigger(
        "CREATE FUNCTION test_slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END$$"
    )
    yield
    drop_trigger()


@pytest.fixture
def broken_inserts(world: World) -> Iterator[None]:
    """Storing an answer fails: the same as a crash between the insert and the answer."""
    trigger(
        "CREATE FUNCTION test_slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END$$"
    )
    yield
    drop_trigger()


def trigger(function: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(function)
        cursor.execute(
            "CREATE TRIGGER test_slow BEFORE INSERT ON tenancy_idempotencyrecord"
            " FOR EACH ROW EXECUTE FUNCTION test_slow()"
        )


def drop_trigger() -> None:
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION IF EXISTS test_slow() CASCADE")


def submit(world: World, answers: list[Any], gate: threading.Barrier) -> None:
    try:
        gate.wait(10)
        answers.append(world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k"))
    finally:
        connections.close_all()


@pytest.mark.usefixtures("slow_inserts")
def test_two_at_once_run_once(world: World) -> None:
    answers: list[Any] = []
    gate = threading.Barrier(2)
    threads = [threading.Thread(target=submit, args=(world, answers, gate)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    late = next(answer for answer in answers if answer.status_code == 409)
    assert problem(late)["code"] == "idempotency_in_flight"
    assert late["Retry-After"] == "1"
    assert Job.objects.count() == 1
    again = world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k")
    assert (again.status_code, again["Idempotency-Replayed"]) == (201, "true")
    assert Job.objects.count() == 1


@pytest.mark.usefixtures("broken_inserts")
def test_a_crash_before_the_answer_leaves_nothing_and_the_key_is_free(world: World) -> None:
    answer = world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k")
    assert answer.status_code == 500
    drop_trigger()
    assert Job.objects.count() == 0
    assert IdempotencyRecord.objects.count() == 0
    again = world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k")
    assert (again.status_code, Job.objects.count()) == (201, 1)


def test_a_lost_connection_really_is_what_the_crash_test_makes(world: World) -> None:
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    connection.close()
