"""What a replay counts: use by class as it runs, and what came of each tenant at the end."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from uuid import UUID

from accounting.core.metering import Usage
from accounting.core.rating import PriceBook, RatedPiece, rate
from federation.core.snapshot import Holding, TenantView
from quotas.core.cohort import SPOT, Use

LN2 = log(2)


class SpotUse:
    """Decayed spot GPU-milliseconds by tenant and flavor, kept as gangs come and go.

    n GPUs over [a, b) weigh n times the integral of 2^-((b - t) / half-life) dt at b.
    """

    def __init__(self, half_life_ms: int) -> None:
        self._k = LN2 / half_life_ms
        self._amounts: dict[tuple[UUID, str], tuple[float, int, int]] = {}

    def change(self, tenant: UUID, flavor: str, gpus: int, now_ms: int) -> None:
        """From now on the tenant's own jobs hold so many more spot GPUs (below 0: less)."""
        key = tenant, flavor
        amount, at_ms, held = self._amounts.get(key, (0.0, now_ms, 0))
        self._amounts[key] = self._grown(amount, held, now_ms - at_ms), now_ms, held + gpus

    def at(self, now_ms: int) -> dict[tuple[UUID, str], int]:
        """What counts now."""
        grown = {
            key: round(self._grown(amount, held, now_ms - at_ms))
            for key, (amount, at_ms, held) in self._amounts.items()
        }
        return {key: amount for key, amount in grown.items() if amount}

    def _grown(self, amount: float, held: int, passed_ms: int) -> float:
        left = exp(-self._k * passed_ms)
        return amount * left + held / self._k * (1 - left)


@dataclass(frozen=True, slots=True)
class Waits:
    """Milliseconds from arrival to the first start, of the jobs that started in a class."""

    jobs: int
    p50_ms: int
    p90_ms: int


@dataclass(frozen=True)
class TenantOutcome:
    """What came of a tenant's own jobs. GPU time in GPU-milliseconds, money in nano-units.

    `never` are jobs that had not started when nothing more could happen. `lost_gpu_ms` is work that
    was done and not saved when its gang was evicted; it is part of `gpu_ms`.
    """

    tenant: str
    weight: int
    jobs: int
    finished: int
    never: int
    waits: Mapping[str, Waits]
    gpu_ms: Mapping[str, int]
    evictions: int
    lost_gpu_ms: int
    cost_nano: int

    @property
    def total_gpu_ms(self) -> int:
        """Of both classes."""
        return sum(self.gpu_ms.values())


@dataclass(frozen=True)
class Outcome:
    """What came of a replay. `span_ms` is from the first arrival to the last end.

    `fairness` is Jain's index of the tenants' GPU time over weight: 1 = all got the same, 1/n = one
    of n got everything (Jain, Chiu and Hawe, DEC-TR-301, 1984). `waits` are those of all tenants'
    jobs together, by class; `waited_ms` is by job id.
    """

    tenants: tuple[TenantOutcome, ...]
    waits: Mapping[str, Waits]
    span_ms: int
    cycles: int
    fairness: float
    currency: str
    waited_ms: Mapping[int, int] = field(repr=False)


@dataclass(slots=True)
class _Account:
    jobs: int = 0
    finished: int = 0
    evictions: int = 0
    lost_gpu_ms: int = 0
    cost_nano: int = 0
    waits: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    gpu_ms: Counter[str] = field(default_factory=Counter)


class Books:
    """GPUs in use, decayed spot use, and an account a tenant."""

    def __init__(self, tenants: Iterable[TenantView], prices: PriceBook, half_life_ms: int) -> None:
        self._tenants = {tenant.id: tenant for tenant in tenants}
        self._prices = prices
        self._gpus: Counter[tuple[UUID, str, UUID, str]] = Counter()
        self._accounts: dict[UUID, _Account] = defaultdict(_Account)
        self._waited_ms: dict[int, int] = {}
        self.spot = SpotUse(half_life_ms)

    @property
    def uses(self) -> tuple[Use, ...]:
        """GPUs held now, by tenant, flavor, cluster and class."""
        return tuple(Use(*key, gpus) for key, gpus in self._gpus.items() if gpus)

    def arrived(self, tenant: UUID) -> None:
        """A job came."""
        self._accounts[tenant].jobs += 1

    def waited(self, held: Holding, waited_ms: int) -> None:
        """A job started for the first time."""
        self._accounts[held.tenant].waits[held.service_class].append(waited_ms)
        self._waited_ms[held.job] = waited_ms

    def open(self, held: Holding, now_ms: int) -> None:
        """A gang holds its GPUs in its class from now on."""
        self._hold(held, held.gpus, now_ms)

    def close(self, held: Holding, since_ms: int, now_ms: int) -> None:
        """It held them in that class over [since, now)."""
        self._hold(held, -held.gpus, now_ms)
        if now_ms == since_ms:
            return
        account = self._accounts[held.tenant]
        account.gpu_ms[held.service_class] += held.gpus * (now_ms - since_ms)
        account.cost_nano += self._cost(held, since_ms, now_ms)

    def finished(self, held: Holding) -> None:
        """A job is done."""
        self._accounts[held.tenant].finished += 1

    def evicted(self, held: Holding, lost_gpu_ms: int) -> None:
        """A gang was evicted; so much of its work was not saved."""
        account = self._accounts[held.tenant]
        account.evictions += 1
        account.lost_gpu_ms += lost_gpu_ms

    def _hold(self, held: Holding, gpus: int, now_ms: int) -> None:
        self._gpus[held.tenant, held.flavor, held.cluster, held.service_class] += gpus
        if held.service_class == SPOT:
            self.spot.change(held.tenant, held.flavor, gpus, now_ms)

    def _cost(self, held: Holding, since_ms: int, now_ms: int) -> int:
        usage = Usage(
            held.flavor,
            held.service_class,
            held.gpus,
            since_ms,
            now_ms,
            held.cluster,
            self._tenants[held.tenant].lineage,
        )
        pieces = rate(usage, self._prices)
        return sum(piece.amount_nano for piece in pieces if isinstance(piece, RatedPiece))

    def outcome(self, weights: Mapping[UUID, int], *, span_ms: int, cycles: int) -> Outcome:
        """The account of every tenant that had a job, by path."""
        told = sorted(
            (
                _told(self._tenants[tenant].path, weights.get(tenant, 1), account)
                for tenant, account in self._accounts.items()
            ),
            key=lambda one: one.tenant,
        )
        shares = [one.total_gpu_ms / one.weight for one in told]
        waits: dict[str, list[int]] = defaultdict(list)
        for account in self._accounts.values():
            for name, waited in account.waits.items():
                waits[name] += waited
        return Outcome(
            tenants=tuple(told),
            waits=_waits(waits),
            span_ms=span_ms,
            cycles=cycles,
            fairness=jain(shares),
            currency=self._prices.currency or "",
            waited_ms=self._waited_ms,
        )


def _told(path: str, weight: int, account: _Account) -> TenantOutcome:
    started = sum(map(len, account.waits.values()))
    return TenantOutcome(
        tenant=path,
        weight=weight,
        jobs=account.jobs,
        finished=account.finished,
        never=account.jobs - started,
        waits=_waits(account.waits),
        gpu_ms=dict(sorted(account.gpu_ms.items())),
        evictions=account.evictions,
        lost_gpu_ms=account.lost_gpu_ms,
        cost_nano=account.cost_nano,
    )


def _waits(by_class: Mapping[str, Sequence[int]]) -> dict[str, Waits]:
    """Of each class in which a job started, its waits."""
    return {
        name: Waits(len(waits), percentile(waits, 50), percentile(waits, 90))
        for name, waits in sorted(by_class.items())
    }


def percentile(values: Iterable[int], percent: int) -> int:
    """The smallest value that so many per cent of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def jain(shares: Sequence[float]) -> float:
    """(sum of x)^2 / (n * sum of x^2); 1 when there is nothing to share."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
