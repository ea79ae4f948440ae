"""Any acts in any order, and time that passes: the tree fits at every moment that was promised."""

from datetime import datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clusters.models import Flavor
from kit.errors import MusterError
from quotas.core.cohort import QuotaRow
from quotas.core.tree import misfits
from quotas.models import Quota, QuotaRequest
from quotas.selectors import quota_rows
from quotas.services.requests import Wish, approve, ask, withdraw
from quotas.services.rows import remove_quota, set_quota
from tenancy.models import Tenant, User
from tests import make
from tests.make import NOW

PATHS = ("acme", "acme/vision", "acme/speech", "acme/vision/lab")
DAY = timedelta(days=1)
path = st.sampled_from(PATHS)
gpus = st.integers(0, 12)
act = st.one_of(
    st.tuples(st.just("set"), path, gpus),
    st.tuples(st.just("remove"), path),
    st.tuples(st.just("grant"), path, st.integers(1, 6), st.integers(0, 4), st.none() | gpus),
    st.tuples(st.just("withdraw"), gpus),
    st.tuples(st.just("wait"), st.integers(1, 3)),
)


class World:
    """The services and, beside them, a ledger of days kept by hand."""

    def __init__(self) -> None:
        self.day = 0
        self.ada: User = make.admin()
        self.flavor: Flavor = make.flavor()
        self.tenants: dict[str, Tenant] = {name: make.tenant(name) for name in PATHS}
        self.set: dict[str, int] = {}
        self.granted: dict[object, tuple[str, int, int, int | None]] = {}
        for name, owed in (("acme", 10), ("acme/vision", 4), ("acme/speech", 3)):
            self.put(name, owed)

    @property
    def now(self) -> datetime:
        return NOW + self.day * DAY

    def do(self, kind: str, *given: object) -> None:
        """One act, in a transaction of its own; refused ones leave nothing behind."""
        try:
            with transaction.atomic():
                getattr(self, kind)(*given)
        except MusterError:
            pass

    def put(self, name: str, owed: int) -> None:
        set_quota(actor=None, tenant=self.tenants[name], flavor=self.flavor, guaranteed=owed,
                  now=self.now)  # fmt: skip
        self.set[name] = owed

    def remove(self, name: str) -> None:
        row = Quota.objects.filter(tenant=self.tenants[name]).first()
        if row:
            remove_quota(actor=None, quota=row, now=self.now)
            del self.set[name]

    def grant(self, name: str, owed: int, begins: int, lasts: int | None) -> None:
        start = self.now + begins * DAY
        wish = Wish(owed, start, None if lasts is None else start + lasts * DAY)
        request = ask(actor=self.ada, tenant=self.tenants[name], flavor=self.flavor, wish=wish,
                      why="x", now=self.now)  # fmt: skip
        approve(actor=self.ada, request=request, changes={}, now=self.now)
        end = None if lasts is None else self.day + begins + lasts
        self.granted[request.pk] = (name, owed, self.day + begins, end)
        self.set.setdefault(name, 0)

    def withdraw(self, which: int) -> None:
        rows = list(QuotaRequest.objects.filter(state="approved").order_by("id"))
        if rows:
            row = rows[which % len(rows)]
            withdraw(actor=self.ada, request=row, now=self.now)
            name, owed, begins, _ = self.granted[row.pk]
            self.granted[row.pk] = (name, owed, begins, max(begins, self.day))

    def wait(self, days: int) -> None:
        self.day += days

    def expected(self, day: int) -> dict[str, int]:
        """What each tenant with a row is owed on a day, by the ledger kept by hand."""
        owed = dict(self.set)
        for name, more, begins, ends in self.granted.values():
            if begins <= day and (ends is None or day < ends):
                owed[name] += more
        return owed


@pytest.mark.django_db
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking through a database takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(act, min_size=4, max_size=20))
def test_the_tree_fits_at_every_moment_that_was_promised(
    db: None, acts: list[tuple[object, ...]]
) -> None:
    with transaction.atomic():
        world = World()
        lineages = {one.id: tuple(one.lineage) for one in world.tenants.values()}
        for kind, *given_ in acts:
            world.do({"set": "put"}.get(str(kind), str(kind)), *given_)
            for day in range(world.day, world.day + 20):
                rows: tuple[QuotaRow, ...] = quota_rows(NOW + day * DAY)
                assert not misfits(rows, lineages), (kind, day)
                names = {one.id: one.path for one in world.tenants.values()}
                found = {names[row.tenant]: row.guaranteed for row in rows}
                assert found == world.expected(day), (kind, day)
        transaction.set_rollback(True)
