"""The same tree in PostgreSQL, through the real services, over simulated clusters that have faults.

It is the scenario of `tests.scenario` with more than one tenant, and steps for who manages them.
"""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from django.db import transaction
from django.db.models import CharField, F, Value
from django.db.models.functions import Cast, Concat, Replace

from clusters.models import Flavor
from federation.core.plan import Plan
from federation.selectors.snapshot import take_snapshot
from federation.services.move import move_tenant
from federation.services.submit import submit_jobs
from kit.errors import MusterError
from quotas.core.policy import Policy
from quotas.models import Quota, QuotaPolicy, QuotaRequest
from quotas.services.policy import set_policy
from quotas.services.requests import Wish, approve, ask
from quotas.services.rows import remove_quota, set_quota
from tenancy.models import Role, Tenant, User
from tenancy.services.access import set_member
from tenancy.services.tree import update_tenant
from tests import make
from tests.quotas.tree.claims import Turns, check_claims
from tests.quotas.tree.laws import check_moment, check_plan
from tests.scenario.house import Furniture
from tests.scenario.lab import ACCOUNT, Laboratory
from tests.scenario.scenario import Scenario

ROOTS = ("acme", "rivals")
TREE = ("acme/x", "acme/y", "acme/x/p", "rivals/z")  # their last parts are their names here
FIRST = {"acme": 48, "rivals": 16, "acme/x": 16, "rivals/z": 8}  # guaranteed
TENANTS = tuple(path.rpartition("/")[2] for path in (*ROOTS, *TREE))
OFTEN = 0.2  # of all plans is the costliest law tried


class TreeFurniture(Furniture):
    """An organisation with teams, and another one; every scenario begins with the same."""

    def __init__(self) -> None:
        super().__init__()
        self._tenants: list[dict[str, Any]] = []

    def restore(self, lab: Laboratory) -> None:
        """As ever, and the tree as it was."""
        is_new = not self.clusters
        super().restore(lab)
        if is_new:
            self._plant(lab)
        Quota.objects.all().delete()
        QuotaRequest.objects.all().delete()
        QuotaPolicy.objects.all().delete()
        with transaction.atomic():
            elsewhere = Replace(Cast("id", CharField()), Value("-"), Value(""))
            Tenant.objects.update(path=Concat(F("name"), Value("-"), elsewhere))
            for row in self._tenants:
                Tenant.objects.filter(pk=row["id"]).update(**row)
        flavor, now = Flavor.objects.get(), lab.clock()
        for path, gpus in FIRST.items():
            tenant = Tenant.objects.get(path=path)
            set_quota(actor=None, tenant=tenant, flavor=flavor, guaranteed=gpus, now=now)

    def _plant(self, lab: Laboratory) -> None:
        user = User.objects.get(username=ACCOUNT)
        for path in TREE:
            make.tenant(path)
        for path in ROOTS:
            tenant = Tenant.objects.get(path=path)
            set_member(actor=None, tenant=tenant, user=user, role=Role.OWNER, now=lab.clock())
        self._tenants = [dict(row) for row in Tenant.objects.order_by("path").values()]


class LiveTree(Scenario):
    """The scenario with a tree. What services refuse is refused; a process may die after writes."""

    def __init__(self, furniture: Furniture) -> None:
        super().__init__(furniture)
        self._turns = Turns()
        self._random = Random(0)  # noqa: S311 - no secret
        self._flavor = Flavor.objects.get()
        self.house.look = self._look

    def _look(self, plan: Plan) -> None:
        check_plan(plan)
        if plan.claims or self._random.random() < OFTEN:
            check_claims(plan)
        self._turns.look(plan)

    def check(self) -> None:
        """What holds at every moment; the tree's part where something was written."""
        is_new = self._told is None or self.house.points.has_written
        super().check()
        if is_new:
            check_moment(take_snapshot(self.lab.clock()))

    def _tenant(self, name: str) -> Tenant:
        return Tenant.objects.get(name=name)

    def submit(self, *args: Any, **step: Any) -> None:
        """As ever; a closed tenant takes nothing."""
        with suppress(MusterError):
            super().submit(*args, **step)

    def come(
        self,
        tenant: str,
        wanted: str,
        nodes: int,
        seconds: int,
        saves: int | None,
        priority: int,
        kill: int = 0,
    ) -> None:
        """Somebody submits a job in a tenant and class."""
        spec = replace(
            self.house.spec(nodes=nodes, seconds=seconds, saves=saves, priority=priority),
            tenant=self._tenant(tenant).path,
            service_class=wanted,
        )
        with self.house.process(kill), suppress(MusterError):
            submit_jobs(user=self.house.user, specs=[spec], now=self.lab.clock())

    def quota(
        self, tenant: str, guaranteed: int, borrowing: int, lending: int, kill: int = 0
    ) -> None:
        """A row is set; limits below 0 are none."""
        limits = [None if limit < 0 else limit for limit in (borrowing, min(lending, guaranteed))]
        with self.house.process(kill), suppress(MusterError):
            set_quota(
                actor=None,
                tenant=self._tenant(tenant),
                flavor=self._flavor,
                guaranteed=guaranteed,
                borrowing_limit=limits[0],
                lending_limit=limits[1],
                now=self.lab.clock(),
            )

    def forget(self, tenant: str, kill: int = 0) -> None:
        """A row is taken away."""
        held = Quota.objects.filter(tenant__name=tenant).first()
        with self.house.process(kill), suppress(MusterError):
            if held is not None:
                remove_quota(actor=None, quota=held, now=self.lab.clock())

    def grant(self, tenant: str, gpus: int, begins: int, lasts: int, kill: int = 0) -> None:
        """An owner asks for more for some seconds, and is granted it."""
        now, user = self.lab.clock(), self.house.user
        start = now + timedelta(seconds=begins)
        wish = Wish(gpus, start, start + timedelta(seconds=lasts))
        one, flavor = self._tenant(tenant), self._flavor
        with self.house.process(kill), suppress(MusterError):
            request = ask(actor=user, tenant=one, flavor=flavor, wish=wish, why="x", now=now)
            approve(actor=user, request=request, changes={}, now=now)

    def move(self, tenant: str, under: str, kill: int = 0) -> None:
        """A tenant goes below another, with all below it."""
        if tenant not in ROOTS:
            one, above = self._tenant(tenant), self._tenant(under)
            with self.house.process(kill), suppress(MusterError):
                move_tenant(actor=None, tenant=one, parent=above, now=self.lab.clock())

    def close_tenant(self, tenant: str, is_open: bool, kill: int = 0) -> None:
        """A tenant is closed or opened with all below it."""
        changes = {"is_open": is_open}
        with self.house.process(kill), suppress(MusterError):
            update_tenant(
                actor=None, tenant=self._tenant(tenant), changes=changes, now=self.lab.clock()
            )

    def policy(self, min_run: int, most: int, cool_down: int) -> None:
        """Another policy, in seconds."""
        policy = Policy(
            min_run_ms=min_run * 1000, most_evictions=most, cool_down_ms=cool_down * 1000
        )
        set_policy(actor=None, policy=policy, now=self.lab.clock())
