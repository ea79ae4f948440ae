"""Moving a tenant: the subtree's paths and lineages, what may not be, and what hangs on its place."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounting.models import UsageInterval, UsageRecord
from accounting.selectors.costs import job_costs
from accounting.services.posting import meter_and_post
from accounting.services.prices import PriceScope, set_price
from accounting.services.usage import start_usage, stop_usage
from federation.services.move import move_tenant
from kit.errors import ConflictError, InvalidContentError, MusterError, StaleWriteError
from kit.ids import new_id
from kit.intervals import HOUR_MS, to_ms
from quotas.core.tree import misfits
from quotas.selectors import rows_as_set
from quotas.services.rows import ChildrenAboveParentError, set_quota
from tenancy.models import AuditEntry, Event, Role, Tenant
from tenancy.selectors.access import visible_tenants
from tenancy.services.access import create_tenant, set_member
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db
NANO = 1_000_000_000


def at(path: str) -> Tenant:
    return Tenant.objects.get(path=path)


def move(path: str, under: str | None, **more: Any) -> Tenant:
    call = {"actor": None, "why": "reorganised", "now": NOW, **more}
    return move_tenant(tenant=at(path), parent=at(under) if under else None, **call)


def tree() -> dict[str, tuple[str, ...]]:
    """Each path with the names of its lineage."""
    names = dict(Tenant.objects.values_list("id", "name"))
    rows = Tenant.objects.values_list("path", "lineage")
    return {path: tuple(names[one] for one in lineage) for path, lineage in rows}


def test_a_subtree_moves_with_paths_and_lineages() -> None:
    for path in ("acme/vision/pretrain/a", "acme/visionary", "rivals/lab"):
        make.tenant(path)
    ada, before = make.admin(), at("acme/vision")
    moved = move("acme/vision", "rivals/lab", actor=ada)
    assert (moved.pk, moved.path, moved.parent) == (
        before.pk,
        "rivals/lab/vision",
        at("rivals/lab"),
    )
    assert tree() == {
        path: tuple(path.split("/"))
        for path in (
            "acme", "acme/visionary", "rivals", "rivals/lab", "rivals/lab/vision",
            "rivals/lab/vision/pretrain", "rivals/lab/vision/pretrain/a",
        )
    }  # fmt: skip
    assert at("rivals/lab/vision/pretrain/a").parent == at("rivals/lab/vision/pretrain")
    entry = AuditEntry.objects.get(action="move")
    assert (entry.actor, entry.object_id, entry.why) == (ada, "rivals/lab/vision", "reorganised")
    assert (entry.before, entry.after) == ({"path": "acme/vision"}, {"path": "rivals/lab/vision"})
    event = Event.objects.get(kind="tenant.moved")
    assert (event.tenant_id, event.data["from"]) == (moved.pk, "acme/vision")
    assert move("rivals/lab/vision/pretrain", None).path == "pretrain"
    assert tree()["pretrain/a"] == ("pretrain", "a")


def test_all_that_a_plan_was_made_on_is_stale() -> None:
    """The revisions that a commit compares: of what moved, and of all above it before and after."""
    for path in ("acme/vision/a", "acme/speech", "rivals/lab", "rivals/other"):
        make.tenant(path)
    move("acme/vision", "rivals/lab")
    revisions = dict(Tenant.objects.values_list("path", "revision"))
    assert revisions == {
        "acme": 2, "acme/speech": 1, "rivals": 2, "rivals/lab": 2, "rivals/other": 1,
        "rivals/lab/vision": 2, "rivals/lab/vision/a": 2,
    }  # fmt: skip


def test_where_it_is_already_nothing_changes() -> None:
    make.tenant("acme/vision")
    assert move("acme/vision", "acme").revision == 1
    assert move("acme", None).revision == 1
    assert not AuditEntry.objects.filter(action="move").exists()


@pytest.mark.parametrize(
    ("path", "under", "error", "words"),
    [
        ("acme", "acme", InvalidContentError, "itself"),
        ("acme", "acme/vision/a", InvalidContentError, "below it"),
        ("acme/vision", "rivals", ConflictError, "exists already"),
        ("acme/vision", "deep", InvalidContentError, "letters"),
    ],
)
def test_where_it_cannot_go(path: str, under: str, error: type[MusterError], words: str) -> None:
    make.tenant("acme/vision/a")
    make.tenant("rivals/vision")
    make.tenant("deep")
    if under == "deep":
        for letters in [63] * 15 + [50]:
            parent, name = at(under), "d" * letters
            under = create_tenant(actor=None, name=name, parent=parent, now=NOW).path
        with pytest.raises(InvalidContentError):
            create_tenant(actor=None, name="too-deep", parent=at(under), now=NOW)
    before = tree()
    with pytest.raises(error) as told:
        move(path, under)
    assert words in str(told.value.errors[0].detail)
    assert told.value.errors[0].pointer == "/parent"
    assert tree() == before


def test_a_stale_move_and_one_without_words_are_refused() -> None:
    make.tenant("acme/vision")
    with pytest.raises(StaleWriteError):
        move("acme/vision", None, expected_revision=7)
    with pytest.raises(InvalidContentError):
        move("acme/vision", None, why="x" * 1001)
    assert tree()["acme/vision"]


def test_quotas_have_to_fit_in_the_new_place() -> None:
    flavor = make.flavor()
    for path, gpus in (("acme", 64), ("acme/vision", 40), ("rivals", 32), ("rivals/lab", 16)):
        set_quota(actor=None, tenant=make.tenant(path), flavor=flavor, guaranteed=gpus, now=NOW)
    before = tree()
    with pytest.raises(ChildrenAboveParentError) as told:
        move("acme/vision", "rivals")
    assert "rivals/lab 16, rivals/vision 40" in told.value.detail
    assert tree() == before
    set_quota(actor=None, tenant=at("rivals"), flavor=flavor, guaranteed=56, now=NOW)
    move("acme/vision", "rivals")
    with pytest.raises(ChildrenAboveParentError):
        set_quota(actor=None, tenant=at("rivals"), flavor=flavor, guaranteed=55, now=NOW)
    set_quota(actor=None, tenant=at("acme"), flavor=flavor, guaranteed=0, now=NOW)


def test_a_tenant_that_was_read_before_is_written_where_it_is_now() -> None:
    """Whoever read the tree before a move and writes after it, writes by the new tree."""
    flavor = make.flavor()
    vision, old_parent = make.tenant("acme/vision"), at("acme")
    make.tenant("rivals")
    set_quota(actor=None, tenant=at("rivals"), flavor=flavor, guaranteed=8, now=NOW)
    move("acme/vision", "rivals")
    move("acme", "rivals")
    with pytest.raises(ChildrenAboveParentError):
        set_quota(actor=None, tenant=vision, flavor=flavor, guaranteed=9, now=NOW)
    made = create_tenant(actor=None, name="new", parent=old_parent, now=NOW)
    assert (made.path, len(made.lineage)) == ("rivals/acme/new", 3)


def test_roles_are_those_of_the_new_place() -> None:
    make.tenant("acme/vision/a")
    rivals, alice, bob = make.tenant("rivals"), make.person("alice"), make.person("bob")
    set_member(actor=None, tenant=at("acme"), user=alice, role=Role.OWNER, now=NOW)
    set_member(actor=None, tenant=rivals, user=bob, role=Role.VIEWER, now=NOW)
    move("acme/vision", "rivals")
    assert [one.path for one in visible_tenants(alice)] == ["acme"]
    moved = ["rivals", "rivals/vision", "rivals/vision/a"]
    assert [one.path for one in visible_tenants(bob)] == moved


def test_what_was_used_keeps_the_prices_of_the_old_place() -> None:
    """8 GPUs for 3 hours at 2 in acme, moved, 1 hour at 5 in rivals."""
    now = timezone.now().replace(microsecond=0, hour=12) - timedelta(days=2)
    flavor, cluster, mia = make.flavor(), make.cluster(), make.person()
    for path, price in (("acme", 2), ("rivals", 5)):
        scope = PriceScope(flavor=flavor.name, service_class="spot", tenant_id=make.tenant(path).pk)
        set_price(
            actor=None, scope=scope, nano_per_gpu_hour=price * NANO, currency="USD",
            effective_from=now - timedelta(days=9), now=now,
        )  # fmt: skip
    vision, attempt, job = make.tenant("acme/vision"), new_id(), new_id()
    start = to_ms(now) - 3 * HOUR_MS
    start_usage(
        attempt_id=attempt, job_id=job, job_name="x", tenant_id=vision.pk, user_id=mia.pk,
        user_name="mia", labels={}, flavor=flavor.name, cluster_id=cluster.pk,
        service_class="spot", gpus=8, run_start_ms=start, now=now,
    )  # fmt: skip
    before = job_costs(job_ids=[job], now=now)[job].amount_nano
    assert before == 48 * NANO
    move("acme/vision", "rivals", now=now)
    assert job_costs(job_ids=[job], now=now)[job].amount_nano == before
    end = now + timedelta(hours=1)
    assert job_costs(job_ids=[job], now=end)[job].amount_nano == (48 + 40) * NANO
    stop_usage(attempt_id=attempt, run_start_ms=start, run_end_ms=to_ms(end), now=end)
    move("rivals/vision", None, now=end)
    meter_and_post(now=end)
    billed = UsageRecord.objects.order_by("start_ms").values_list("gpu_ms", "amount_nano")
    assert list(billed) == [(24 * HOUR_MS, 48 * NANO), (8 * HOUR_MS, 40 * NANO)]
    assert not UsageInterval.objects.filter(ended_ms=None).exists()


@pytest.mark.django_db(transaction=True)
def test_many_at_once_leave_a_tree_that_fits() -> None:
    """Moves against each other, tenants made below what moves, and quotas of what moves."""
    flavor, paths = make.flavor(), [f"{root}/{name}" for root in "ab" for name in "xyz"]
    ids = [make.tenant(path).pk for path in paths]
    ids += Tenant.objects.filter(parent=None).values_list("pk", flat=True)
    for one in ids:
        tenant = Tenant.objects.get(pk=one)
        set_quota(actor=None, tenant=tenant, flavor=flavor, guaranteed=0, now=NOW)
    barrier, faults, moved = Barrier(4, timeout=20), [], []

    def work(seed: int) -> None:
        dice = Random(seed)  # noqa: S311 - a test's own dice
        acts: dict[str, Callable[[Tenant, Tenant], object]] = {
            "move": lambda one, other: moved.append(
                move_tenant(actor=None, tenant=one, parent=other, now=NOW).path
            ),
            "make": lambda one, _: create_tenant(
                actor=None, name=f"n{dice.randrange(10**6)}", parent=one, now=NOW
            ),
            "owe": lambda one, _: set_quota(
                actor=None, tenant=one, flavor=flavor, guaranteed=dice.randrange(4), now=NOW
            ),
        }
        try:
            barrier.wait()
            for _ in range(25):
                one, other = (Tenant.objects.get(pk=dice.choice(ids)) for _ in range(2))
                with suppress(MusterError):
                    acts[dice.choice(["move", "move", "make", "owe"])](one, other)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            faults.append(error)
        finally:
            connection.close()

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert faults == []
    assert moved
    tenants = {one.pk: one for one in Tenant.objects.all()}
    for one in tenants.values():
        above = tenants[one.parent_id] if one.parent_id else None
        assert one.path == (f"{above.path}/{one.name}" if above else one.name)
        assert one.lineage == [*(above.lineage if above else []), one.pk]
    lineages = {key: tuple(one.lineage) for key, one in tenants.items()}
    assert misfits(rows_as_set(), lineages) == ()
