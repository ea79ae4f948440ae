"""Muster in the laboratory: an organisation made through the real services, and turns of workers.

Each turn is what one process does in one go; it can be killed after any write, and another worker
can have a whole turn in the middle of one of its requests.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection

from accounting.services.posting import meter_and_post
from accounting.services.prices import PriceScope, set_price
from clusters.models import Cluster, Flavor
from clusters.selectors.traffic import clusters_to_deliver
from clusters.services.configure import set_account, set_cluster_flavor
from clusters.services.deliver import deliver
from clusters.services.fleet import set_state
from clusters.services.observe import observe
from clusters.services.probe import ProbeFailedError
from clusters.services.rotate import rotate_credentials
from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.core.spec import JobSpec, parse_spec
from federation.selectors.attempts import fences_to_look_up
from federation.selectors.snapshot import take_snapshot
from federation.services.commit import begin_term, commit_plan
from federation.services.evict import tend_evictions
from federation.services.life import tend_clusters
from federation.services.reconcile import reconcile_cluster
from kit import ids
from quotas.services.rows import set_quota
from tenancy.models import Role, Tenant, User
from tenancy.services.access import set_member
from tests import make
from tests.scenario.lab import ACCOUNT, KEY, Laboratory, laboratory
from tests.scenario.pods import NAMESPACE, Pods
from tests.scenario.points import Killed, Points, installed

# Longer than a call (20 s) and its settling, as DESIGN says; virtual, so it costs nothing.
LIFE = timedelta(seconds=40)
FLAVOR = "h100-sxm-80"
NANO = 1_000_000_000


@dataclass
class House:
    """One organisation over the clusters of a laboratory."""

    laboratory: Laboratory
    points: Points
    user: User
    tenant: Tenant
    clusters: dict[str, Cluster] = field(default_factory=dict)
    epoch: int = 0
    look: Callable[[Plan], object] = lambda _: None  # at each plan before it is written

    def spec(
        self,
        *,
        nodes: int,
        seconds: int,
        exit_code: int = 0,
        restarts: int = 3,
        saves: int | None = None,
        priority: int = 500,
    ) -> JobSpec:
        """A parsed job that takes whole nodes for so many seconds.

        With `saves` it saves within so many seconds when it is asked to.
        """
        script = f"#!/bin/bash\nsleep {seconds}\nexit {exit_code}\n"
        if saves is not None:
            words = f"seconds={seconds} exit={exit_code} checkpoint_on=USR1 saves={saves}"
            script = f"#!/bin/bash\n# simulate: {words}\n"
        parsed = parse_spec(
            {
                "checkpoint": None if saves is None else {"signal": "USR1", "grace": 60},
                "tenant": self.tenant.path,
                "priority": priority,
                "flavors": [FLAVOR],
                "gang": {"nodes": nodes, "gpus_per_node": 8, "max_restarts": restarts},
                "time_limit": "0:30:00",
                "run": {
                    "script": script,
                    "workdir": "/home/mia",
                    "image": "trainer:1",
                    "command": ["sh", "-c", f"sleep {seconds}\nexit {exit_code}"],
                },
            }
        )
        assert isinstance(parsed, JobSpec), parsed
        return parsed

    @contextmanager
    def process(self, kill: int = 0) -> Iterator[None]:
        """What a process does; it is killed after so many writes (0: it is not).

        With `kill` left at 0 points that were armed by their names stay armed.
        """
        if kill:
            self.points.kill_after(kill)
        try:
            with self.points.watched(), suppress(Killed):
                yield
        finally:
            if kill:
                self.points.disarm()
            self.laboratory.meanwhile = None

    def decide(self, kill: int = 0) -> None:
        """One cycle of the arbiter; after a kill another one leads."""
        epoch, self.epoch = self.epoch, 0
        with self.process(kill):
            now = self.laboratory.clock()
            epoch = epoch or begin_term(now=now)
            tend_clusters(now=now)
            tend_evictions(now=now)
            plan = decide(take_snapshot(now))
            self.look(plan)
            commit_plan(plan=plan, epoch=epoch, now=now)
            self.epoch = epoch

    def deliver(self, name: str, kill: int = 0) -> None:
        """One turn of a worker of the dispatch queue, as `federation.tasks.dispatch` does it."""
        cluster_id = self.clusters[name].id
        with self.process(kill):
            if cluster_id in clusters_to_deliver(self.laboratory.clock()):
                self._deliver(cluster_id)

    def _deliver(self, cluster_id: UUID) -> None:
        clock = self.laboratory.clock
        made = deliver(
            cluster_id=cluster_id,
            holder="dispatcher",
            life=LIFE,
            calls_at_once=2,
            longest=timedelta(seconds=20),
            clock=clock,
        )
        if made:
            reconcile_cluster(cluster_id=cluster_id, now=clock())

    def observe(self, name: str, kill: int = 0) -> None:
        """One turn of a worker of the observe queue, as `federation.tasks.observe` does it."""
        with self.process(kill):
            self._observe(self.clusters[name].id)

    def _observe(self, cluster_id: UUID) -> None:
        clock = self.laboratory.clock
        done = observe(
            cluster_id=cluster_id,
            fences=fences_to_look_up(cluster_id),
            holder="observer",
            life=LIFE,
            clock=clock,
        )
        if done:
            reconcile_cluster(cluster_id=cluster_id, now=clock())

    def post(self, kill: int = 0) -> None:
        """One turn of the poster."""
        with self.process(kill):
            meter_and_post(now=self.laboratory.clock(), limit=1000)

    def set_state(self, name: str, state: str, kill: int = 0) -> None:
        """An admin drains a cluster, cuts it off or opens it again."""
        cluster = self.clusters[name]
        with self.process(kill):
            set_state(
                actor=None, cluster=cluster, state=Cluster.State(state), now=self.laboratory.clock()
            )

    def rotate(self, name: str, key: bytes, kill: int = 0) -> None:
        """The cluster gets a new key, and an admin tells it to Muster, which tries it first."""
        place, cluster = self.laboratory.clusters[name], self.clusters[name]
        place.take_key(key)
        with self.process(kill), suppress(ProbeFailedError):
            rotate_credentials(actor=None, cluster=cluster, secret=key, now=self.laboratory.clock())

    def mend(self, name: str) -> None:
        """An admin opens a cluster again, and Muster gets the key that it has now."""
        self.rotate(name, self.laboratory.clusters[name].key)
        self.set_state(name, Cluster.State.ACTIVE)

    def turn(self) -> None:
        """One turn of every process; clusters are read first, or they would count as silent."""
        for name in self.clusters:
            self.observe(name)
        self.decide()
        for name in self.clusters:
            self.deliver(name)
        self.post()

    def meanwhile_deliver(self, name: str, request: int, frozen_ms: int) -> None:
        """Before a later request of the next turn time stands in its process, and others go on.

        Longer than the lease, it is a process that was stopped and wakes up robbed of it.
        """

        def other() -> None:
            watching, self.points.watching = self.points.watching, False
            self.laboratory.clock.advance(frozen_ms)
            try:
                self._deliver(self.clusters[name].id)
            finally:
                self.points.watching = watching

        self.laboratory.meanwhile = (request, other)


# What people configured once stays from scenario to scenario; all else is emptied.
_KEPT = {"tenancy", "quotas", "clusters.cluster", "clusters.flavor", "clusters.clusterflavor"}
_KEPT |= {"clusters.clusteraccount", "accounting.price", "auth", "contenttypes", "sessions"}


def empty_database(*, whole: bool) -> None:
    """Takes every row away (or all but what was configured), and counts from one again."""
    kept = {"auth", "contenttypes"} if whole else _KEPT  # whose rows migrations made
    names = [
        connection.ops.quote_name(model._meta.db_table)
        for model in apps.get_models()
        if not {model._meta.app_label, model._meta.label_lower} & kept
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(names)} RESTART IDENTITY CASCADE")


def _ids(first: int) -> Iterator[UUID]:
    """UUIDs of version 7, the same in every run; their last bits differ as random ones do."""
    for number in itertools.count(first):
        tail = (number * 0x9E3779B97F4A7C15) & ((1 << 62) - 1)
        yield UUID(int=(number << 80) | (7 << 76) | (2 << 62) | tail)


class Furniture:
    """What is configured before a scenario begins; made once, as it costs more than a scenario."""

    def __init__(self) -> None:
        self.clusters: list[dict[str, Any]] = []

    def restore(self, lab: Laboratory) -> None:
        """The database as it is at the start of every scenario."""
        empty_database(whole=not self.clusters)
        if not self.clusters:
            _furnish(lab)
            self.clusters = [dict(row) for row in Cluster.objects.values()]
        for row in self.clusters:
            Cluster.objects.filter(id=row["id"]).update(**row)


@contextmanager
def house(furniture: Furniture, *, has_pods: bool = False) -> Iterator[House]:
    """A new organisation with quota and prices over the laboratory's clusters."""
    points = Points()
    numbers = _ids(1)
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory() as directory,
        laboratory(points, Path(directory), has_pods=has_pods) as lab,
        installed(points),
    ):
        patch.setattr(ids, "_uuid7", lambda: next(numbers))
        furniture.restore(lab)
        numbers = _ids(1000)
        clusters = {row.name: row for row in Cluster.objects.order_by("name")}
        user, tenant = User.objects.get(username=ACCOUNT), Tenant.objects.get(path="acme")
        made = House(lab, points, user, tenant, clusters)
        for name in clusters:
            made.observe(name)
        points.passed.clear()
        yield made


def _furnish(lab: Laboratory) -> None:
    now = lab.clock()
    user = make.person(ACCOUNT)
    tenant = make.tenant("acme")
    set_member(actor=None, tenant=tenant, user=user, role=Role.SUBMITTER, now=now)
    flavor = make.flavor(FLAVOR)
    for name, cluster in lab.clusters.items():
        is_pods = isinstance(cluster, Pods)
        row = make.cluster(
            name,
            backend="volcano" if is_pods else "slurm",
            endpoint=cluster.endpoint,
            secret=KEY,
            options={
                **({"namespaces": NAMESPACE, "relist_s": "300"} if is_pods else {"charge": "ml"}),
                "timeout_s": "20",
            },
            now=now,
        )
        device, queue = ("nvidia.com/gpu:h100", "default") if is_pods else ("h100", "batch")
        set_cluster_flavor(
            actor=None, cluster=row, flavor=flavor, device=device, queue=queue, now=now
        )
        account, home = (NAMESPACE, "") if is_pods else (ACCOUNT, "/home/mia")
        set_account(actor=None, cluster=row, user=user, account=account, home=home, now=now)
    _grant(tenant, flavor, lab)


def _grant(tenant: Tenant, flavor: Flavor, lab: Laboratory) -> None:
    now = lab.clock()
    set_quota(
        actor=None,
        tenant=tenant,
        flavor=flavor,
        cluster=None,
        guaranteed=32,
        borrowing_limit=None,
        expected_revision=None,
        why="scenario",
        now=now,
    )
    for service_class, price in (("guaranteed", 2 * NANO), ("spot", NANO)):
        set_price(
            actor=None,
            scope=PriceScope(flavor.name, service_class),
            nano_per_gpu_hour=price,
            currency="USD",
            effective_from=now - timedelta(days=1),
            now=now,
        )
