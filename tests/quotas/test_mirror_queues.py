"""Quotas beside the limits of Volcano's queues: whose jobs go where, and what shares a resource."""

from typing import Any

import pytest

from clusters.core.limits import LimitHolder, LimitsSeen
from clusters.models import ClusterFlavor, Node
from quotas.services import mirror
from quotas.services.rows import set_quota
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db
GPUS = "gpu:nvidia.com/gpu"
OPTIONS = {
    "namespaces": "team",
    "device.small": "nvidia.com/gpu,pool=small",
    "queue.acme": "acme",
    "queue.acme/vision": "vision-{flavor}-{class}",
    "queue.nobody": "acme",
}
THERE = {"acme": 8, "vision-big-guaranteed": 16, "vision-big-spot": 40}


class Member:
    """A cluster that has some of the queues."""

    def limits(self) -> LimitsSeen:
        holders = (LimitHolder(name, gpus={GPUS: gpus}) for name, gpus in THERE.items())
        return LimitsSeen("cirrus", tuple(holders), frozenset({GPUS}))

    def limit_command(self, name: str, account: str, gpus: dict[str, int]) -> str:
        return f"{account} {gpus[GPUS]}"

    def close(self) -> None:
        """Nothing is open."""


def test_each_queue_has_the_flavors_and_tenants_that_go_there(monkeypatch: Any) -> None:
    cluster = make.cluster("cirrus")
    cluster.backend, cluster.options = "volcano", OPTIONS
    cluster.save()
    acme, vision = make.tenant("acme"), make.tenant("acme/vision")
    for name, device in (("big", "nvidia.com/gpu:H100"), ("small", "small")):
        flavor = make.flavor(name)
        ClusterFlavor.objects.create(cluster=cluster, flavor=flavor, device=device)
        for number in range(8):
            Node.objects.create(
                cluster=cluster, name=f"{name}{number}", state="up", device=device, gpus=8,
                cpus=8, memory_mib=8, path=[], queues=[],
            )  # fmt: skip
        for tenant, owed in ((acme, 32), (vision, 16)):
            set_quota(
                actor=None, tenant=tenant, flavor=flavor, guaranteed=owed, borrowing_limit=8, now=NOW
            )  # fmt: skip
    monkeypatch.setattr(mirror, "connect", lambda *_: Member())
    shown = mirror.look_at_mirror(cluster=cluster, uses=(), now=NOW)
    lines = {line.account: (line.there, line.wanted, line.drift.value) for line in shown.lines}
    one = 32 + 8  # of one flavor: what acme shares with it, and spot
    assert lines["vision-big-guaranteed"] == (16, one, "differs")
    assert lines["vision-big-spot"] == (40, one, "none")
    assert lines["vision-small-spot"] == (None, one, "no_account")
    assert lines["acme"] == (8, 2 * (16 + 8), "differs")  # both flavors, of one resource
    assert shown.commands["vision-big-guaranteed"] == f"vision-big-guaranteed {one}"
    assert shown.strangers == ("queue.nobody",)
