"""Fair share of spot: each tenant's weighted dominant share of decayed use, along the tree.

A tenant's share is, for the flavor where it is largest, the decayed spot GPU time of its subtree
over the lendable GPU time in the same window, over its weight there. Use decays by half in each
half-life, so that a window of half-life / ln 2 counts as much as all of the past (the integral of
2^(-t/h) over t >= 0). Dominant resource: Ghodsi et al., NSDI'11; decay: Slurm's multifactor plugin.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import log
from uuid import UUID

SCALE = 1_000_000_000  # of a share of 1 at weight 1
GRANTED = 16  # GPUs that are held count as used for a part of the window in advance


def window_ms(half_life_ms: int) -> int:
    """The window whose undecayed use equals all decayed use of the past at the same rate."""
    return round(half_life_ms / log(2))


class Shares:
    """Shares of tenants and of all above them; what is added counts at once.

    Amounts are of one unit throughout: GPU-milliseconds of use over GPU-milliseconds lendable.
    """

    def __init__(
        self,
        lineages: Mapping[UUID, tuple[UUID, ...]],
        used: Mapping[tuple[UUID, str], int],
        *,
        lendable: Mapping[str, int] | None = None,
        weights: Mapping[tuple[UUID, str], int] | None = None,
        a_gpu: int = 1,
    ) -> None:
        """`used` by tenant and flavor is of the tenant's own jobs; weights default to 1.

        `a_gpu` is the amount that a GPU which is granted counts for.
        """
        self._a_gpu = a_gpu
        self._lineages = lineages
        self._lendable = lendable or {}
        self._weights = weights or {}
        self._own: dict[UUID, dict[str, int]] = {}
        self._subtree: dict[UUID, dict[str, int]] = {}
        self._known: dict[UUID, int] = {}
        for (tenant, flavor), amount in used.items():
            self.add(tenant, flavor, amount)

    def grant(self, tenant: UUID, flavor: str, gpus: int) -> None:
        """Counts GPUs that a tenant's own job gets."""
        self.add(tenant, flavor, gpus * self._a_gpu)

    def add(self, tenant: UUID, flavor: str, amount: int) -> None:
        """Counts use of a tenant's own jobs."""
        own = self._own.setdefault(tenant, {})
        own[flavor] = own.get(flavor, 0) + amount
        for node in self._lineages[tenant]:
            subtree = self._subtree.setdefault(node, {})
            total = subtree[flavor] = subtree.get(flavor, 0) + amount
            known = self._known.get(node)
            if known is not None and amount >= 0:  # only this flavor's part grew
                weight = self._weights.get((node, flavor), 1)
                self._known[node] = max(known, self._share(flavor, total, weight))
            else:
                self._known.pop(node, None)

    def of(self, node: UUID) -> int:
        """The share of a tenant's whole subtree, times SCALE."""
        share = self._known.get(node)
        if share is None:
            share = self._known[node] = max(
                (
                    self._share(flavor, amount, self._weights.get((node, flavor), 1))
                    for flavor, amount in self._subtree.get(node, {}).items()
                ),
                default=0,
            )
        return share

    def own(self, tenant: UUID) -> int:
        """The share of a tenant's own jobs against its children, times SCALE; its weight is 1."""
        own = self._own.get(tenant, {})
        return max((self._share(flavor, amount, 1) for flavor, amount in own.items()), default=0)

    def course(self, node: UUID, grants: Iterable[tuple[str, int]]) -> Iterator[int]:
        """`of` before each of the grants (flavor, GPUs) in the subtree; none is counted here."""
        return self._course(self.of(node), self._subtree.get(node, {}), node, grants)

    def course_of_own(self, tenant: UUID, grants: Iterable[tuple[str, int]]) -> Iterator[int]:
        """`own` before each of the grants to the tenant's own jobs; none is counted here."""
        return self._course(self.own(tenant), self._own.get(tenant, {}), None, grants)

    def _course(
        self,
        share: int,
        used: Mapping[str, int],
        weighted: UUID | None,
        grants: Iterable[tuple[str, int]],
    ) -> Iterator[int]:
        totals: dict[str, int] = {}
        wholes: dict[str, int] = {}
        for flavor, gpus in grants:
            yield share
            if flavor not in totals:
                totals[flavor] = used.get(flavor, 0)
                weight = self._weights.get((weighted, flavor), 1) if weighted else 1
                wholes[flavor] = self._whole(flavor, weight)
            total = totals[flavor] = totals[flavor] + gpus * self._a_gpu
            part = total * SCALE // wholes[flavor]
            if part > share:
                share = part

    def _share(self, flavor: str, amount: int, weight: int) -> int:
        return amount * SCALE // self._whole(flavor, weight)

    def _whole(self, flavor: str, weight: int) -> int:
        """The amount that is a share of 1."""
        return max(self._lendable.get(flavor, 1), 1) * weight
