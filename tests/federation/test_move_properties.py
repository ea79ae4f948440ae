"""Any acts on the tree in any order, beside a tree kept by hand: what is refused, what is there then,
and that what is used and owed adds up at every node."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clusters.models import Cluster, Flavor
from federation.services.move import move_tenant
from kit.errors import MusterError
from kit.ids import new_id
from quotas.core.cohort import SPOT, Cohort, Use
from quotas.models import Quota
from quotas.selectors import rows_as_set
from quotas.services.rows import remove_quota, set_quota
from tenancy.models import Tenant
from tenancy.services.access import create_tenant
from tenancy.services.tree import remove_tenant, update_tenant
from tests import make
from tests.make import NOW

NAMES = ("a", "b", "c")
which = st.integers(0, 11)
gpus = st.integers(0, 12)
act = st.one_of(
    st.tuples(st.just("make"), which, st.sampled_from(NAMES)),
    st.tuples(st.just("move"), which, which),
    st.tuples(st.just("move"), which, which),
    st.tuples(st.just("owe"), which, gpus),
    st.tuples(st.just("forget"), which),
    st.tuples(st.just("close"), which, st.booleans()),
    st.tuples(st.just("delete"), which),
)


@dataclass(eq=False)
class Node:
    """A tenant as the hand keeps it. `used` are GPUs of its own jobs."""

    name: str
    parent: "Node | None"
    used: int
    owed: int | None = None
    is_open: bool = True
    id: UUID = field(default_factory=new_id)

    @property
    def way(self) -> "list[Node]":
        """From the root to itself."""
        return [*(self.parent.way if self.parent else []), self]

    @property
    def path(self) -> str:
        return "/".join(node.name for node in self.way)


class Hand:
    """The services, and a tree kept by hand that knows what they should refuse."""

    def __init__(self) -> None:
        self.flavor: Flavor = make.flavor()
        self.cluster: Cluster = make.cluster()
        self.nodes: list[Node] = []
        for name in ("a", "b"):
            self.make(-1, name)
            self.owe(len(self.nodes) - 1, 12)
            self.make(len(self.nodes) - 1, "c")

    def pick(self, number: int) -> Node | None:
        """One of the nodes; None = the top."""
        number %= len(self.nodes) + 1
        return self.nodes[number] if number < len(self.nodes) else None

    def row(self, node: Node) -> Tenant:
        return Tenant.objects.get(pk=node.id)

    def below(self, node: Node) -> list[Node]:
        return [one for one in self.nodes if node in one.way]

    def claims(self, node: Node) -> Iterator[Node]:
        """Those with a row of which the nearest row above is this node's."""
        for one in self.nodes:
            above = [other for other in one.way[:-1] if other.owed is not None]
            if one.owed is not None and above and above[-1] is node:
                yield one

    @property
    def fits(self) -> bool:
        return all(
            node.owed is None or sum(one.owed or 0 for one in self.claims(node)) <= node.owed
            for node in self.nodes
        )

    @property
    def is_clear(self) -> bool:
        """Whether no two tenants have one path, and none is below itself."""
        return len({node.path for node in self.nodes}) == len(self.nodes)

    def same(self, call: Callable[[], object], holds: bool) -> None:
        """The service does what the hand did, or refuses what the hand could not."""
        try:
            with transaction.atomic():
                call()
        except MusterError:
            assert not holds
        else:
            assert holds

    def make(self, under: int, name: str) -> None:
        parent = self.pick(under) if under >= 0 else None
        node = Node(name, parent, used=len(self.nodes) + 1)
        self.nodes.append(node)
        holds = self.is_clear
        if not holds:
            self.nodes.remove(node)
        above = self.row(parent) if parent else None

        def call() -> None:
            node.id = create_tenant(actor=None, name=name, parent=above, now=NOW).pk

        self.same(call, holds)

    def move(self, number: int, under: int) -> None:
        node, parent = self.pick(number), self.pick(under)
        if node is None:
            return
        was, tenant, above = node.parent, self.row(node), self.row(parent) if parent else None
        holds = parent is None or node not in parent.way
        if holds:
            node.parent = parent
            if not (self.is_clear and self.fits):
                node.parent, holds = was, False
        self.same(lambda: move_tenant(actor=None, tenant=tenant, parent=above, now=NOW), holds)

    def owe(self, number: int, owed: int) -> None:
        if node := self.pick(number):
            was, node.owed = node.owed, owed
            holds, tenant = self.fits, self.row(node)
            if not holds:
                node.owed = was
            self.same(
                lambda: set_quota(
                    actor=None, tenant=tenant, flavor=self.flavor, guaranteed=owed, now=NOW
                ),
                holds,
            )

    def forget(self, number: int) -> None:
        node = self.pick(number)
        if node is None or node.owed is None:
            return
        was, node.owed = node.owed, None
        holds, quota = self.fits, Quota.objects.get(tenant=node.id)
        if not holds:
            node.owed = was
        self.same(lambda: remove_quota(actor=None, quota=quota, now=NOW), holds)

    def close(self, number: int, is_open: bool) -> None:
        if node := self.pick(number):
            node.is_open, tenant = is_open, self.row(node)
            changes = {"is_open": is_open}
            self.same(
                lambda: update_tenant(actor=None, tenant=tenant, changes=changes, now=NOW), True
            )

    def delete(self, number: int) -> None:
        if node := self.pick(number):
            tenant, holds = self.row(node), self.below(node) == [node]
            if holds:
                self.nodes.remove(node)
            self.same(lambda: remove_tenant(actor=None, tenant=tenant, now=NOW), holds)

    def check(self) -> None:
        """The database says what the hand does, and sums over the tree are sums of their parts."""
        tenants = {one.pk: one for one in Tenant.objects.all()}
        assert {
            key: (one.path, one.lineage, one.parent_id, one.is_open) for key, one in tenants.items()
        } == {
            node.id: (
                node.path,
                [one.id for one in node.way],
                node.parent.id if node.parent else None,
                node.is_open,
            )
            for node in self.nodes
        }
        rows = {row.tenant: row for row in rows_as_set()}
        owed = {node.id: node.owed for node in self.nodes if node.owed is not None}
        assert {key: row.guaranteed for key, row in rows.items()} == owed
        uses = [
            Use(one.id, self.flavor.name, self.cluster.pk, SPOT, one.used) for one in self.nodes
        ]
        lineages = {key: tuple(one.lineage) for key, one in tenants.items()}
        cohort = Cohort(rows.values(), lineages, uses)
        for node in self.nodes:
            if node.id in rows:
                whole = sum(one.used for one in self.below(node))
                assert cohort.used(rows[node.id], SPOT) == whole
                parts = sum(cohort.used(rows[one.id], SPOT) for one in self.claims(node))
                assert whole - parts == sum(self.own(node))

    def own(self, node: Node) -> Iterator[int]:
        """Use of those below a node that no row in between answers for."""
        for one in self.below(node):
            holders = [other for other in one.way if other.owed is not None]
            if holders[-1] is node:
                yield one.used


@pytest.mark.django_db
@settings(
    max_examples=30,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking through a database takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(act, min_size=8, max_size=25))
def test_the_tree_is_the_one_kept_by_hand(db: None, acts: list[tuple[object, ...]]) -> None:
    with transaction.atomic():
        hand = Hand()
        for kind, *given_ in acts:
            getattr(hand, str(kind))(*given_)
            hand.check()
        transaction.set_rollback(True)
