"""The admin: prices are set through the service, the rest is looked at."""

from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from pytest_django import Settings

from accounting.models import Price
from accounting.services.posting import meter_and_post
from accounting.services.usage import record_run
from kit.intervals import HOUR_MS
from tenancy.models import AuditEntry, User
from tests.accounting.world import NOW, START, USD, World

ADD = "/admin/accounting/price/add/"
FORM = {
    "flavor": "h100",
    "service_class": "spot",
    "cluster": "",
    "tenant": "",
    "effective_from_0": "2026-03-10",
    "effective_from_1": "12:00:00",
    "amount": "1.250000001",
    "currency": "USD",
    "why": "new contract",
}


@pytest.fixture
def collected(settings: Settings, tmp_path: Path) -> None:
    """A place for collected static files, which the middleware looks for."""
    settings.STATIC_ROOT = tmp_path


@pytest.fixture
def admin(world: World, client: Client, collected: None) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_a_price_is_added_through_the_service(admin: Client) -> None:
    answer = admin.post(ADD, FORM)
    assert answer.status_code == 302, answer.content
    price = Price.objects.get()
    assert (price.nano_per_gpu_hour, price.effective_from) == (1_250_000_001, NOW)
    entry = AuditEntry.objects.get()
    assert (entry.actor.username, entry.why) == ("root", "new contract")  # type: ignore[union-attr]
    assert b"1.250000001 USD" in admin.get("/admin/accounting/price/").content


def test_what_the_service_refuses_is_said_and_not_saved(admin: Client, world: World) -> None:
    world.price(currency="EUR")
    answer = admin.post(ADD, FORM, follow=True)
    assert b"Every price is in EUR" in answer.content
    assert Price.objects.count() == 1


def test_a_price_is_never_edited_or_deleted(admin: Client, world: World) -> None:
    page = f"/admin/accounting/price/{world.price().pk}"
    shown = admin.get(f"{page}/change/")
    assert shown.status_code == 200
    assert b'name="_save"' not in shown.content
    assert admin.post(f"{page}/change/", FORM).status_code == 403
    assert admin.post(f"{page}/delete/", {"post": "yes"}).status_code == 403
    assert Price.objects.get().nano_per_gpu_hour == 2 * USD


def test_staff_without_the_permission_sets_no_price(
    world: World, client: Client, collected: None
) -> None:
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    assert client.get(ADD).status_code == 403


@pytest.mark.parametrize("model", ["usageinterval", "usagerecord", "transfer", "batch"])
def test_state_is_read_only(admin: Client, world: World, model: str) -> None:
    world.price()
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    meter_and_post(now=NOW)
    assert admin.get(f"/admin/accounting/{model}/").status_code == 200
    assert admin.get(f"/admin/accounting/{model}/add/").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_the_append_only_migration_goes_back_and_forth() -> None:
    def triggers() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgname = 'append_only'")
            return int(cursor.fetchone()[0])

    assert triggers() == 4
    executor = MigrationExecutor(connection)
    try:
        executor.migrate([("accounting", "0001_initial")])
        assert triggers() == 0
    finally:
        executor.loader.build_graph()
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert triggers() == 4
