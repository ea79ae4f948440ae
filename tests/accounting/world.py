"""A small world for the accounting tests: an organisation, two clusters, prices, runs."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from accounting.models import Price, Transfer, UsageInterval
from accounting.services.posting import Posted, meter_and_post
from accounting.services.prices import PriceScope, set_price
from accounting.services.usage import RunFact, confirm_runs
from clusters.models import Cluster, Flavor
from kit.intervals import HOUR_MS, to_ms
from tenancy.models import Tenant, User

USD = 10**9
DAY0 = datetime(2026, 3, 10, tzinfo=UTC)
START = to_ms(DAY0) + 10 * HOUR_MS
NOW = DAY0 + timedelta(hours=12)


@dataclass(frozen=True)
class World:
    """acme > vision > pretrain, and nlp under acme; clusters alpha and beta of h100."""

    user: User
    acme: Tenant
    vision: Tenant
    pretrain: Tenant
    nlp: Tenant
    alpha: Cluster
    beta: Cluster

    def run(
        self,
        *,
        attempt: UUID | None = None,
        tenant: Tenant | None = None,
        cluster: Cluster | None = None,
        start_ms: int = START,
        end_ms: int | None = None,
        gpus: int = 8,
        service_class: str = "guaranteed",
        job: UUID | None = None,
    ) -> RunFact:
        """A run of a job of the world's one user."""
        return RunFact(
            attempt_id=attempt or uuid4(),
            job_id=job or uuid4(),
            job_name="llm",
            tenant_id=(tenant or self.pretrain).id,
            user_id=self.user.id,
            user_name=self.user.username,
            flavor="h100",
            cluster_id=(cluster or self.alpha).id,
            service_class=service_class,
            gpus=gpus,
            run_start_ms=start_ms,
            run_end_ms=end_ms,
            labels={"experiment": "a17"},
        )

    def price(
        self,
        nano: int = 2 * USD,
        *,
        service_class: str = "guaranteed",
        since: datetime = DAY0 - timedelta(days=30),
        cluster: Cluster | None = None,
        tenant: Tenant | None = None,
        currency: str = "USD",
    ) -> Price:
        """Sets a price."""
        scope = PriceScope(
            "h100", service_class, cluster.id if cluster else None, tenant.id if tenant else None
        )
        return set_price(
            actor=self.user,
            scope=scope,
            nano_per_gpu_hour=nano,
            currency=currency,
            effective_from=since,
            now=NOW,
        )

    def seen(self, moment: datetime) -> None:
        """Both clusters were read at that moment, and had every run that is not over."""
        Cluster.objects.update(last_seen_at=moment)
        lasting = dict(UsageInterval.objects.values_list("attempt_id", "run_start_ms"))
        for cluster in Cluster.objects.values_list("id", flat=True):
            confirm_runs(cluster_id=cluster, lasting=lasting, read_ms=to_ms(moment))


def build_world() -> World:
    """The world, written."""
    user = User.objects.create(username="mia")
    Flavor.objects.create(name="h100")
    acme = _tenant("acme", None)
    vision = _tenant("vision", acme)
    clusters = [
        Cluster.objects.create(name=name, backend="slurm", endpoint="http://127.0.0.1:1")
        for name in ("alpha", "beta")
    ]
    pretrain, nlp = _tenant("pretrain", vision), _tenant("nlp", acme)
    return World(user, acme, vision, pretrain, nlp, *clusters)


def _tenant(name: str, parent: Tenant | None) -> Tenant:
    tenant = Tenant(name=name, parent=parent, path=f"{parent.path}/{name}" if parent else name)
    tenant.lineage = [*(parent.lineage if parent else []), tenant.id]
    tenant.save()
    return tenant


def ended(fact: RunFact, end_ms: int) -> RunFact:
    """The same run, told with its end."""
    return replace(fact, run_end_ms=end_ms)


def pieces(attempt: UUID) -> list[tuple[str, int, int | None]]:
    """(class, started, ended) of an attempt's intervals, in order."""
    rows = UsageInterval.objects.filter(attempt_id=attempt).order_by("started_ms")
    return list(rows.values_list("service_class", "started_ms", "ended_ms"))


def post_all(now: datetime, limit: int = 1000) -> Posted:
    """Posts until nothing is due; the last call that wrote a batch, or an empty one."""
    last = Posted()
    while True:
        done = meter_and_post(now=now, limit=limit)
        assert not done.is_busy
        if not done.intervals:
            return last
        last = done


def posted_nano(attempt: UUID | None = None) -> int:
    """What the ledger holds, of one attempt or of all."""
    rows = Transfer.objects.all()
    if attempt is not None:
        rows = rows.filter(record__interval__attempt_id=attempt)
    return sum(rows.values_list("amount_nano", flat=True))
