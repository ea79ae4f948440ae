"""The fleet at rest, as submit looks at it."""

import pytest

from clusters.models import Cluster, ClusterAccount, Node
from federation.core.explain import never_reasons
from federation.models import Job
from federation.selectors.fleet import take_fleet
from federation.selectors.snapshot import waiting_job
from tests.federation.world import World

pytestmark = pytest.mark.django_db


def codes(world: World, job: Job) -> list[str]:
    fleet = take_fleet([world.user.id])
    return [reason.code for reason in never_reasons(waiting_job(job), fleet)]


def test_the_fleet_counts_all_nodes_and_follows_changes(
    django_assert_num_queries: object,
) -> None:
    world = World()
    job = world.job(nodes=4)
    Node.objects.update(state="down", foreign_gpus=8)
    assert codes(world, job) == []
    with django_assert_num_queries(4):  # type: ignore[operator]
        take_fleet([world.user.id])
    Node.objects.filter(name="n1").delete()
    assert codes(world, job) == ["gang_too_large"]
    Node.objects.update(queues=["debug"])
    Cluster.objects.update(revision=2)
    assert codes(world, world.job()) == ["gang_too_large"]  # no node in the flavor's queue
    ClusterAccount.objects.all().delete()
    assert codes(world, job) == ["backend_cannot_run"]


def test_a_cluster_that_was_never_seen_may_run_anything() -> None:
    world = World()
    Node.objects.all().delete()
    Cluster.objects.update(last_seen_at=None)
    assert codes(world, world.job(nodes=99)) == []
