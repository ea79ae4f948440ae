"""Reads of quota."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from clusters.models import Cluster, ClusterFlavor, Flavor
from kit.bulk import Statement
from kit.errors import InvalidContentError, NotFoundError
from kit.intervals import to_ms
from kit.reads import Fixed
from quotas.core.cohort import QuotaRow
from quotas.core.grants import Grant, rows_at
from quotas.core.limits import LimitRow, Scope
from quotas.core.policy import POLICY_FIELDS, Policy
from quotas.models import Limit, Quota, QuotaPolicy, QuotaRequest
from tenancy.models import AuditEntry, Tenant, User
from tenancy.selectors.access import visible_tenant_ids, visible_tenants

_QUOTAS = Fixed(
    Quota.objects.order_by("id").values_list(
        "tenant_id",
        "flavor_id",
        "cluster_id",
        "guaranteed",
        "borrowing_limit",
        "revision",
        "lending_limit",
        "weight",
    )
)
_POLICY = Fixed(QuotaPolicy.objects.order_by("pk").values_list(*POLICY_FIELDS)[:1])


def quota_rows(now: datetime) -> tuple[QuotaRow, ...]:
    """Every quota as it holds now: as it was set, raised by the grants of now. 2 queries."""
    return rows_at(rows_as_set(), grants_from(now), to_ms(now))


def rows_as_set() -> tuple[QuotaRow, ...]:
    """Every quota as it was set, without grants, as the core's values, in a fixed order."""
    return tuple(QuotaRow(*row) for row in _QUOTAS.rows())


def grants_from(now: datetime) -> tuple[Grant, ...]:
    """Every grant that holds now or will, in a fixed order."""
    rows = (
        _unended(now)
        .order_by("id")
        .values_list(
            "tenant_id",
            "flavor_id",
            "granted_gpus",
            "granted_from",
            "granted_until",
            "granted_borrowing_limit",
        )
    )
    return tuple(
        Grant(tenant, flavor, gpus or 0, to_ms(start), to_ms(end) if end else None, limit)
        for tenant, flavor, gpus, start, end, limit in rows
        if start is not None
    )


def granted_gpus(tenant: Tenant, now: datetime) -> dict[str, int]:
    """GPUs by flavor that grants add to the tenant's rows for all clusters now. One query."""
    at_ms = to_ms(now)
    gpus: Counter[str] = Counter()
    for grant in grants_from(now):
        if grant.tenant == tenant.id and grant.holds(at_ms):
            gpus[grant.flavor] += grant.gpus
    return gpus


def _unended(now: datetime) -> QuerySet[QuotaRequest]:
    lasting = Q(granted_until=None) | Q(granted_until__gt=now)
    return QuotaRequest.objects.filter(lasting, state=QuotaRequest.State.APPROVED)


@dataclass(frozen=True)
class Act:
    """All that one person changed of quotas at one moment, for one reason: its audit entries."""

    entries: tuple[AuditEntry, ...]

    @property
    def first(self) -> AuditEntry:
        """Whose time, person, reason and id are the act's."""
        return self.entries[0]


def acts_page(user: User, *, limit: int, about: str = "quota") -> list[Act]:
    """The newest changes of quotas of tenants that the user may see, by act; 2 queries.

    `about` "limit": of limits. `limit` counts entries; an act that is cut is left out, unless it is
    the only one.
    """
    rows = AuditEntry.objects.filter(object_type=about).select_related("actor")
    if not user.is_superuser:
        mine = Q(pk=None)
        for path in visible_tenants(user).values_list("path", flat=True):
            mine |= Q(object_id__startswith=f"{path} ")
        rows = rows.filter(mine)
    found = list(rows.order_by("-id")[: limit + 1])
    acts = [Act(tuple(entries)) for _, entries in groupby(found, key=_act_key)]
    return acts[:-1] if len(found) > limit and len(acts) > 1 else acts


def mirrored_clusters() -> list[str]:
    """The clusters in service on whose accounts limits were once set from quotas, by name."""
    told = AuditEntry.objects.filter(object_type="cluster", action="mirrored_quotas")
    names = set(told.order_by().values_list("object_id", flat=True).distinct())
    here = Cluster.objects.exclude(state=Cluster.State.GONE).filter(name__in=names)
    return list(here.order_by("name").values_list("name", flat=True))


def act_of(entry_id: int) -> Act | None:
    """The act that an audit entry of a quota belongs to."""
    entry = AuditEntry.objects.filter(pk=entry_id, object_type="quota").first()
    if entry is None:
        return None
    alike = AuditEntry.objects.filter(
        object_type="quota", at=entry.at, actor=entry.actor_id, why=entry.why
    )
    return Act(tuple(alike.select_related("actor").order_by("-id")))


def _act_key(entry: AuditEntry) -> tuple[datetime, object, str]:
    return entry.at, entry.actor_id, entry.why


ENDED = "ended"
REQUEST_STATES = (*QuotaRequest.State.values, ENDED)


def state_of(request: QuotaRequest, now: datetime) -> str:
    """What state people are shown: a grant whose end has come is `ended`."""
    until = request.granted_until
    is_over = until is not None and until <= now
    is_grant = request.state == QuotaRequest.State.APPROVED
    return ENDED if is_grant and is_over else str(request.state)


def request_page(
    user: User,
    *,
    under: Sequence[str] = (),
    states: Sequence[str] = (),
    after: UUID | None = None,
    limit: int,
    now: datetime,
) -> list[QuotaRequest]:
    """At most `limit` + 1 requests of tenants that the user may see, newest first.

    `under` are paths of tenants, each with all below it; `states` as `state_of` says; empty = all.
    """
    rows = _requests(user)
    if under:
        below = Q()
        for path in under:
            below |= Q(tenant__path=path) | Q(tenant__path__startswith=f"{path}/")
        rows = rows.filter(below)
    if states:
        over = Q(state=QuotaRequest.State.APPROVED, granted_until__lte=now)
        wanted = Q(state__in=states) & ~over
        rows = rows.filter(wanted | over if ENDED in states else wanted)
    if after is not None:
        rows = rows.filter(id__lt=after)
    return list(rows.order_by("-id")[: limit + 1])


def visible_request(user: User, request_id: UUID) -> QuotaRequest:
    """One request.

    Raises:
        NotFoundError: there is none, or it is of a tenant that the user may not see.
    """
    found = _requests(user).filter(pk=request_id).first()
    if found is None:
        raise NotFoundError("There is no such request, or you may not see it.")
    return found


def _requests(user: User) -> QuerySet[QuotaRequest]:
    rows = QuotaRequest.objects.select_related("tenant", "asked_by", "decided_by")
    visible = visible_tenant_ids(user)
    return rows if visible is None else rows.filter(tenant__in=visible)


def quota_policy() -> Policy:
    """What holds for all tenants: what an admin set, else the defaults."""
    found = _POLICY.rows()
    return Policy(**dict(zip(POLICY_FIELDS, found[0], strict=True))) if found else Policy()


def quota_of(tenant: Tenant, flavor: str, cluster: str | None) -> Quota:
    """One row of a tenant; `cluster` None = the row for all clusters.

    Raises:
        NotFoundError: there is none.
    """
    rows = Quota.objects.filter(tenant=tenant, flavor=flavor).select_related("tenant", "cluster")
    found = rows.filter(cluster__name=cluster) if cluster else rows.filter(cluster=None)
    held = found.first()
    if held is None:
        raise NotFoundError("The tenant has no such quota.")
    return held


def served_flavor(name: object) -> Flavor:
    """A flavor that some cluster has.

    Raises:
        InvalidContentError: it is not in the catalogue, or no cluster has it.
    """
    flavor = Flavor.objects.filter(name=name).first() if isinstance(name, str) else None
    if flavor is None:
        raise InvalidContentError("There is no such GPU model in the catalogue.", pointer="/flavor")
    if not ClusterFlavor.objects.filter(flavor=flavor).exists():
        raise InvalidContentError(
            f"No cluster has {flavor.name}: name it on a cluster first.", pointer="/flavor"
        )
    return flavor


def serving_cluster(name: object, flavor: Flavor) -> Cluster | None:
    """The cluster of a row, None = all clusters.

    Raises:
        InvalidContentError: there is none of that name, or it does not have the flavor.
    """
    if name is None:
        return None
    known = Cluster.objects.filter(name=name) if isinstance(name, str) else Cluster.objects.none()
    cluster = known.first()
    if cluster is None:
        raise InvalidContentError("There is no such cluster.", pointer="/cluster")
    if not ClusterFlavor.objects.filter(cluster=cluster, flavor=flavor).exists():
        raise InvalidContentError(f"{cluster.name} has no {flavor.name}.", pointer="/cluster")
    return cluster


def all_quotas() -> list[Quota]:
    """Every row, in order of tenants' paths, flavors and clusters, these at hand."""
    rows = Quota.objects.select_related("tenant", "cluster")
    return list(
        rows.order_by("tenant__path", "flavor_id", F("cluster__name").asc(nulls_first=True))
    )


def quotas_of(tenant: Tenant) -> list[Quota]:
    """The tenant's own rows, flavors in order, clusters at hand."""
    rows = Quota.objects.filter(tenant=tenant).select_related("cluster")
    return list(rows.order_by("flavor_id", "cluster__name"))


def limit_rows() -> tuple[LimitRow, ...]:
    """Every limit as the core's value. One query."""
    return tuple(_limits(_LIMITS.rows()).values())


def limits_at_submit(tenants: Collection[UUID]) -> dict[int, LimitRow]:
    """By row id, the limits of these tenants that bound what waits or how long a job may run."""
    bounding = Q(waiting_jobs__isnull=False) | Q(longest_ms__isnull=False)
    return rows_by_id(Limit.objects.filter(bounding, tenant__in=tenants))


def rows_by_id(limits: QuerySet[Limit]) -> dict[int, LimitRow]:
    """Limits as the core's values, by row id and in its order. One query."""
    return _limits(limits.order_by("id").values_list("id", "tenant_id", "scope", *_LIMIT))


def _limits(rows: Iterable[Sequence[Any]]) -> dict[int, LimitRow]:
    return {key: LimitRow(tenant, Scope(scope), *rest) for key, tenant, scope, *rest in rows}


# Whether there is any limit at all: rides along where others are read in one round trip.
ANY_LIMIT = Statement("SELECT 1 FROM quotas_limit LIMIT 1", is_kept=True)
_LIMIT = (
    "user_id",
    "label",
    "text",
    "running_gpus",
    "running_jobs",
    "waiting_jobs",
    "longest_ms",
)
_LIMITS = Fixed(Limit.objects.order_by("id").values_list("id", "tenant_id", "scope", *_LIMIT))


def limits_of(tenant: Tenant) -> list[Limit]:
    """The limits that speak for the tenant's jobs: its own and those of all above it.

    The topmost tenant's first; tenants and people at hand. One query.
    """
    rows = Limit.objects.filter(tenant__in=tenant.lineage).select_related("tenant", "user")
    order = (F("user__username").asc(nulls_first=True), "label", "text")
    return list(rows.order_by("tenant__path", "scope", *order))


def limits_under(user: User) -> list[Limit]:
    """The limits of the tenants that the user may see, by tenant; these and people at hand."""
    rows = Limit.objects.select_related("tenant", "user")
    visible = visible_tenant_ids(user)
    if visible is not None:
        rows = rows.filter(tenant__in=visible)
    order = (F("user__username").asc(nulls_first=True), "label", "text")
    return list(rows.order_by("tenant__path", "scope", *order))
