"""Who borrows from whom over REST: sums on both sides, the order of victims, others unnamed."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters.models import Flavor
from federation.models import Attempt
from kit.ids import fence
from quotas.services.rows import set_quota
from tests import make
from tests.api.world import OTHER, TEAM, World
from tests.make import NOW

H100 = "h100-sxm-80"


def put(path: str, gpus: int, **more: Any) -> None:
    set_quota(
        actor=None, tenant=make.tenant(path), flavor=Flavor.objects.get(name=H100),
        guaranteed=gpus, now=NOW, **more,
    )  # fmt: skip


def run(world: World, path: str, nodes: int, hours: float, saved: float | None = None) -> Attempt:
    """A spot gang of so many nodes of 8 GPUs that began (and saved a checkpoint) so long ago."""
    job = world.job()
    now, tenant = timezone.now(), make.tenant(path)
    attempt = Attempt.objects.create(
        job=job, number=1, fence=fence(job.uuid, 1), cluster=world.cluster, flavor_id=H100,
        service_class="spot", nodes=[f"n{number}" for number in range(nodes)], gpus_per_node=8,
        cpus_per_node=8, memory_mib_per_node=0, exclusive=False, tier="leaf", account="bob",
        state="running", bound_at=now - timedelta(hours=hours),
        started_at=now - timedelta(hours=hours),
        saved_at=None if saved is None else now - timedelta(hours=saved),
    )  # fmt: skip
    job.tenant, job.state, job.class_now = tenant, "running", "spot"
    job.save()
    return attempt


def of(world: World, caller: str = "ada") -> Any:
    answer = getattr(world, caller).get(f"/quotas/borrowing?flavor={H100}")
    assert answer.status_code == 200, answer.content
    (found,) = answer.json()["items"]
    return found


@pytest.fixture
def lent(world: World) -> World:
    """64 GPUs, all promised: the rivals 40 (they lend 24), acme 24. Vision uses 32 as spot."""
    put("rivals", 40, lending_limit=24)
    put(OTHER, 16)
    put("acme", 24)
    run(world, TEAM, 3, hours=2)
    run(world, TEAM, 1, hours=9, saved=1)
    run(world, OTHER, 1, hours=0.5)
    return world


def test_sums_add_up_and_ones_own_is_not_borrowed(lent: World) -> None:
    found = of(lent)
    assert (found["capacity"], found["guaranteed"], found["overcommitted"]) == (64, 64, 0)
    team, other = found["borrowers"]
    assert (team["tenant"], team["spot"], team["own"], team["unowned"]) == (TEAM, 32, 24, 0)
    # rivals keep 24 and the lab 8 of its 16 besides its own spot: 3 and 1 parts of the 8.
    assert team["lenders"] == [{"tenant": "rivals", "gpus": 6}, {"tenant": OTHER, "gpus": 2}]
    assert (other["tenant"], other["spot"], other["own"], other["borrowed"]) == (OTHER, 8, 8, 0)
    assert found["lenders"] == [
        {"tenant": "acme", "idle": 24, "lent": 0},
        {"tenant": "rivals", "idle": 24, "lent": 6},
        {"tenant": OTHER, "idle": 16, "lent": 2},
    ]


def test_victims_stand_in_the_order_of_least_lost_work(lent: World) -> None:
    found = of(lent)
    got = [(one["place"], one["tenant"], one["gpus"]) for one in found["victims"]]
    assert got == [(1, OTHER, 8), (2, TEAM, 8), (3, TEAM, 24)]
    hours = [float(one["lost_gpu_hours"]) for one in found["victims"]]
    assert hours == pytest.approx([4, 8, 48], abs=0.5)
    assert [one["saved_at"] is None for one in found["victims"]] == [True, False, True]


def test_others_are_counted_not_named(lent: World) -> None:
    text = lent.bob.get("/quotas/borrowing").content.decode()
    assert "rivals" not in text
    found = of(lent, "bob")
    assert found["lenders"] == [{"tenant": None, "idle": 64, "lent": 8}]  # acme is above Bob
    mine, others = found["borrowers"]
    assert (mine["tenant"], mine["lenders"]) == (TEAM, [{"tenant": None, "gpus": 8}])
    assert (others["tenant"], others["spot"], others["own"]) == (None, 8, 8)
    assert [one["place"] for one in found["victims"]] == [2, 3]
    assert found["victims_in_all"] == 3


def test_too_much_is_promised(lent: World) -> None:
    put("acme", 100)
    found = of(lent)
    assert (found["guaranteed"], found["overcommitted"]) == (140, 76)
    (row,) = lent.ada.get("/tenants/acme/quotas").json()["items"]
    assert row["overcommitted"] == 76
    rows = [{"tenant": "acme", "flavor": H100, "guaranteed": 30}]
    for call in ("plan", "apply"):
        answer = lent.ada.post(f"/quotas/{call}", {"rows": rows}).json()
        assert answer["warnings"] == ["70 h100-sxm-80 GPUs are guaranteed, 64 are there."]


def test_queries_do_not_grow_with_tenants_and_jobs(
    lent: World, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(20) as before:
        of(lent)
    few = len(before)
    for number in range(6):
        put(f"acme/t{number}", 1)
        run(lent, f"acme/t{number}", 1, hours=1)
    with django_assert_max_num_queries(few):
        of(lent)
