"""One key, one answer: again, at once, with another body, after a crash, after a day."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event as Flag
from threading import get_ident
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.utils import OperationalError

from kit.errors import ConflictError, InvalidContentError
from tenancy.models import IdempotencyRecord, Tenant, User
from tenancy.services.access import create_tenant
from tenancy.services.idempotency import (
    Answer,
    KeyInFlightError,
    KeyReusedError,
    answer_once,
    body_digest,
)
from tenancy.services.records import prune
from tests import make
from tests.make import NOW

HOUR = timedelta(hours=1)
DAY = timedelta(hours=24)


class Maker:
    """An act that makes a tenant and counts how often it was really run."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self) -> Answer:
        self.runs += 1
        tenant = create_tenant(actor=None, name=f"t{self.runs}", parent=None, now=NOW)
        return Answer(201, {"id": str(tenant.id)})


def ask(user: User, act: Any, **changes: Any) -> Answer:
    call: dict[str, Any] = {"route": "POST /x", "key": "k", "body": {"a": 1}, "now": NOW}
    return answer_once(user=user, act=act, **{**call, **changes})


@pytest.mark.django_db
def test_the_second_time_gives_the_first_answer_and_does_nothing() -> None:
    user, act = make.person(), Maker()
    first = ask(user, act)
    again = ask(user, act, body={"a": 1}, now=NOW + DAY - HOUR)
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.status, again.body) == (first.status, first.body)
    assert act.runs == Tenant.objects.count() == 1


@pytest.mark.django_db
def test_keys_are_apart_by_person_route_and_key_and_none_is_none() -> None:
    act = Maker()
    mia, noor = make.person("mia"), make.person("noor")
    ask(mia, act)
    for answer in (
        ask(noor, act),
        ask(mia, act, route="POST /y"),
        ask(mia, act, key="K"),
        ask(mia, act, key=None),
        ask(mia, act, key=None),
    ):
        assert not answer.replayed
    assert act.runs == 6


@pytest.mark.django_db
@pytest.mark.parametrize("body", [{"a": 2}, {"a": 1.5}, {"a": "1"}, {"a": 1, "b": None}, [], None])
def test_another_body_under_the_same_key_is_refused(body: object) -> None:
    user, act = make.person(), Maker()
    ask(user, act)
    with pytest.raises(KeyReusedError):
        ask(user, act, body=body)
    assert act.runs == 1


def test_the_order_of_names_does_not_make_another_body() -> None:
    assert body_digest({"a": 1, "b": [1, 2]}) == body_digest({"b": [1, 2], "a": 1})
    assert body_digest([1, 2]) != body_digest([2, 1])


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\x00b"])
def test_a_key_that_is_none(key: str) -> None:
    act = Maker()
    with pytest.raises(InvalidContentError):
        ask(make.person(), act, key=key)
    assert act.runs == 0


@pytest.mark.django_db
def test_a_refusal_is_not_kept_and_may_be_tried_again() -> None:
    user, act = make.person(), Maker()

    def refuse() -> Answer:
        act()
        raise ConflictError("Not now.")

    with pytest.raises(ConflictError):
        ask(user, refuse)
    assert not Tenant.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    assert not ask(user, act).replayed


@pytest.mark.django_db
def test_after_a_day_the_key_is_new_again_and_pruned() -> None:
    user, act = make.person(), Maker()
    ask(user, act)
    later = NOW + DAY
    answer = ask(user, act, body={"other": True}, now=later)
    assert not answer.replayed
    assert IdempotencyRecord.objects.get().created_at == later
    assert prune(now=later + DAY) == 0
    assert prune(now=later + DAY + HOUR) == 1
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_connections_at_once_run_the_act_once() -> None:
    user, act = make.person(), Maker()
    started, go_on = Flag(), Flag()

    def slowly() -> Answer:
        answer = act()
        started.set()
        assert go_on.wait(60)
        return answer

    def in_own_connection() -> Answer:
        try:
            return ask(user, slowly)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(in_own_connection)
        try:
            assert started.wait(60)
            with pytest.raises(KeyInFlightError) as in_flight:
                ask(user, act)
        finally:
            go_on.set()
        assert not first.result(20).replayed
    assert in_flight.value.retry_after_s == 1
    assert ask(user, act).replayed
    assert act.runs == Tenant.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_many_at_once_give_one_act_and_one_answer() -> None:
    user, act = make.person(), Maker()

    def until_answered(_: int) -> tuple[int, Answer]:
        try:
            while True:
                try:
                    return get_ident(), ask(user, act)
                except KeyInFlightError:
                    continue
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        answers = [answer for _, answer in pool.map(until_answered, range(12))]
    assert act.runs == Tenant.objects.count() == 1
    assert {str(answer.body) for answer in answers} == {str(answers[0].body)}
    assert sum(not answer.replayed for answer in answers) == 1


@pytest.mark.django_db(transaction=True)
def test_a_crash_between_the_act_and_the_answer_leaves_nothing() -> None:
    user, act = make.person(), Maker()

    def crash() -> Answer:
        act()
        with connection.cursor() as cursor:  # as when the process is killed: the connection dies
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        raise AssertionError("the connection should be gone")

    def in_own_connection() -> None:
        try:
            ask(user, crash)
        finally:
            connections[DEFAULT_DB_ALIAS].close()

    with ThreadPoolExecutor(1) as pool, pytest.raises(OperationalError):
        pool.submit(in_own_connection).result(20)
    assert not Tenant.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    act.runs = 0
    assert not ask(user, act).replayed  # the key is free again at once
    assert Tenant.objects.count() == 1
