"""Quotas mirrored to a member cluster: what its accounts could hold at most, shown, and set if asked.

Nothing of it is kept here: what is wanted follows from quotas, what is there is read each time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from clusters.backends import connect
from clusters.core.backend import Backend, BackendError, BackendRejectedError
from clusters.core.charging import PREFIX, charge_of
from clusters.core.devices import resource_of
from clusters.core.limits import LimitsSeen, Obstacle
from clusters.core.queueing import CLASSES, queue_of
from clusters.core.queueing import PREFIX as QUEUE
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Node
from clusters.selectors.connection import connection_of
from kit.errors import ConflictError, MusterError
from kit.intervals import to_ms
from quotas.core.cohort import QuotaRow, Use
from quotas.core.grants import rows_at, turns
from quotas.core.mirror import CHANGEABLE, Charges, Drift, MirrorLine, Place, Served, mirror
from quotas.selectors import grants_from, rows_as_set
from quotas.services.tables import need_why
from tenancy.models import Tenant, User
from tenancy.services.records import write_audit

DEFAULT_QUEUE = "default"  # where Volcano puts a job that names none


class LimitsSilentError(MusterError):
    """The cluster's accounting does not answer, or what it answers cannot be read; try again."""

    code, status, title = "limits_silent", 502, "The cluster's accounting does not answer"


class LimitsNotReadError(ConflictError):
    """The limits of this cluster cannot be read; the detail says what is missing."""

    code, status, title = "limits_not_read", 409, "The cluster's limits cannot be read"


class LimitsNotSetError(ConflictError):
    """Limits cannot be set on this cluster; the detail says why, and what mends it."""

    code, status, title = "limits_not_set", 409, "The cluster's limits cannot be set"


class Outcome(StrEnum):
    """What becomes of a change: Muster would set it, a person has to; it is set, it was not."""

    WOULD_SET = "would_set"
    BY_HAND = "by_hand"
    SET = "set"
    NOT_SET = "not_set"


@dataclass(frozen=True, slots=True)
class Change:
    """One limit that differs from what is wanted. `detail` says why it is not set."""

    account: str
    resource: str
    before: int | None
    after: int
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True)
class Mirror:
    """What is wanted of a cluster, what is there, and what would be, or was, changed.

    `known_as` is the cluster's own name for itself; `unnamed` are tenants with quota whose jobs are
    charged to people's defaults; `strangers` are options that name an account for a tenant that does
    not exist; `commands` set the same by hand.
    """

    cluster: Cluster
    known_as: str
    lines: tuple[MirrorLine, ...]
    changes: tuple[Change, ...]
    commands: Mapping[str, str]
    obstacle: Obstacle | None
    paths: Mapping[UUID, str]
    unnamed: tuple[str, ...]
    strangers: tuple[str, ...]

    @property
    def can_apply(self) -> bool:
        """Whether there is something to set, and Muster may."""
        return any(one.outcome is Outcome.WOULD_SET for one in self.changes)


def look_at_mirror(*, cluster: Cluster, uses: Sequence[Use], now: datetime) -> Mirror:
    """Reads the cluster's limits and lays them beside what is wanted; nothing is written.

    `uses` are the GPUs of all open attempts.

    Raises:
        LimitsSilentError: its accounting does not answer.
        LimitsNotReadError: it has none, or was never seen, or no key is stored.
    """
    with _member(cluster) as member:
        return _look(member, cluster, uses, now)


def apply_mirror(
    *, actor: User | None, cluster: Cluster, uses: Sequence[Use], why: str, now: datetime
) -> Mirror:
    """Sets the limits that differ and that Muster may set; what came of each, and what is there now.

    What is to be done is written down before the cluster is asked, and what came of it after. Doing
    it twice is doing it once. Nothing is ever taken away.

    Raises:
        InvalidContentError: no reason is given.
        LimitsNotSetError: this connection may not set limits there.
        LimitsSilentError, LimitsNotReadError: as `look_at_mirror`.
    """
    need_why(why, "reason")
    with _member(cluster) as member:
        before = _look(member, cluster, uses, now)
        if before.obstacle is not None:
            raise LimitsNotSetError(f"{before.obstacle.words}. Fix: {before.obstacle.fix}.")
        to_set = [one for one in before.changes if one.outcome is Outcome.WOULD_SET]
        wanted = _by_account((one.account, one.resource, one.after) for one in to_set)
        if not wanted:
            return before
        there = {
            account: {one.resource: one.before for one in before.changes if one.account == account}
            for account in wanted
        }
        _record(actor, cluster, "mirror_quotas", there, wanted, why, now)
        try:
            # A member may need one of the accounts that are as they should be beside others.
            told = member.set_limits({**_in_step(before.lines), **wanted}, before.known_as)
        except BackendError as error:
            _record(actor, cluster, "mirror_failed", None, {"error": error.words}, why, now)
            raise _refusal(cluster, error) from error
        taken = {account: told[account] or Outcome.SET.value for account in wanted}
        _record(actor, cluster, "mirrored_quotas", None, taken, why, now)
        after = _look(member, cluster, uses, now)
    return replace(after, changes=tuple(_came_of(one, told) for one in before.changes))


def _in_step(lines: Sequence[MirrorLine]) -> dict[str, dict[str, int]]:
    """Limits that are as they should be."""
    return _by_account(
        (line.account, line.resource, line.wanted)
        for line in lines
        if line.drift is Drift.NONE and line.wanted is not None
    )


def _by_account(limits: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    """Limits, each an account, a resource and GPUs, as backends take them."""
    found: dict[str, dict[str, int]] = {}
    for account, resource, gpus in limits:
        found.setdefault(account, {})[resource] = gpus
    return found


def _came_of(change: Change, told: Mapping[str, str]) -> Change:
    if change.outcome is not Outcome.WOULD_SET:
        return change
    words = told.get(change.account, "")
    return replace(change, outcome=Outcome.NOT_SET if words else Outcome.SET, detail=words)


def _record(
    actor: User | None,
    cluster: Cluster,
    action: str,
    before: Mapping[str, object] | None,
    after: Mapping[str, object],
    why: str,
    now: datetime,
) -> None:
    write_audit(
        actor=actor,
        action=action,
        object_type="cluster",
        object_id=cluster.name,
        before=before,
        after=after,
        why=why,
        now=now,
    )


def _member(cluster: Cluster) -> closing[Backend]:
    if not cluster.secret:
        fix = "Store the cluster's key first (Rotate its key)."
        raise LimitsNotReadError(f"Muster has no key for {cluster.name}. {fix}")
    return closing(connect(cluster.backend, connection_of(cluster)))


def _refusal(cluster: Cluster, error: BackendError) -> MusterError:
    if isinstance(error, BackendRejectedError):
        return LimitsNotReadError(f"{cluster.name}: {error.words}.")
    return LimitsSilentError(f"{cluster.name} does not answer: {error.words}.")


def _look(member: Backend, cluster: Cluster, uses: Sequence[Use], now: datetime) -> Mirror:
    try:
        seen = member.limits()
    except BackendError as error:
        raise _refusal(cluster, error) from error
    tenants = list(Tenant.objects.order_by("path").values_list("id", "path", "lineage"))
    paths = {key: path for key, path, _ in tenants}
    rows, tables = _tables(now)
    charges = _charges(cluster, paths, seen)
    lines = mirror(
        tables=tables,
        uses=uses,
        lineages={key: tuple(lineage) for key, _, lineage in tenants},
        charges=charges,
        place=_place(cluster),
        seen=seen,
    )
    changes = tuple(_change(line, seen) for line in lines if line.drift in CHANGEABLE)
    owed = _by_account((one.account, one.resource, one.after) for one in changes)
    with_quota = {row.tenant for row in rows}
    return Mirror(
        cluster=cluster,
        known_as=seen.name,
        lines=lines,
        changes=changes,
        commands={one: member.limit_command(seen.name, one, gpus) for one, gpus in owed.items()},
        obstacle=seen.obstacle,
        paths=paths,
        unnamed=tuple(sorted(paths[one] for one in charges.unnamed & with_quota)),
        strangers=tuple(
            sorted(
                name
                for name in cluster.options
                if name.startswith((PREFIX, QUEUE)) and name.partition(".")[2] not in paths.values()
            )
        ),
    )


def _change(line: MirrorLine, seen: LimitsSeen) -> Change:
    is_by_hand = bool(seen.obstacle or line.fixed)
    words = seen.obstacle.words if seen.obstacle else line.fixed
    return Change(
        account=line.account,
        resource=line.resource,
        before=line.there,
        after=line.wanted or 0,
        outcome=Outcome.BY_HAND if is_by_hand else Outcome.WOULD_SET,
        detail=words,
    )


def _tables(now: datetime) -> tuple[tuple[QuotaRow, ...], list[tuple[QuotaRow, ...]]]:
    """The rows as set, and as they hold now and from each moment to come at which a grant turns."""
    rows, grants = rows_as_set(), grants_from(now)
    return rows, [rows_at(rows, grants, at_ms) for at_ms in turns(grants, to_ms(now))]


def _charges(cluster: Cluster, paths: Mapping[UUID, str], seen: LimitsSeen) -> Charges:
    if cluster.backend == "volcano":
        return _queues(cluster, paths)
    named: dict[str, set[UUID]] = {}
    for tenant, path in paths.items():
        named.setdefault(charge_of(cluster.options, path), set()).add(tenant)
    unnamed = frozenset(named.pop("", ()))
    ours = set(ClusterAccount.objects.filter(cluster=cluster).values_list("account", flat=True))
    defaults = {one.account for one in seen.holders if one.is_default and one.user in ours}
    return Charges(
        {account: frozenset(held) for account, held in named.items()}, unnamed, frozenset(defaults)
    )


def _queues(cluster: Cluster, paths: Mapping[UUID, str]) -> Charges:
    """The queues that options name, with every tenant and flavor whose jobs go there."""
    tenants: dict[str, set[UUID]] = {}
    flavors: dict[str, set[str]] = {}
    named: set[str] = set()
    unnamed: set[UUID] = set()
    for flavor, own in ClusterFlavor.objects.filter(cluster=cluster).values_list("flavor", "queue"):
        for tenant, path in paths.items():
            for service_class in CLASSES:
                queue = queue_of(cluster.options, path, flavor, service_class)
                named.update(filter(None, (queue,)))
                unnamed.update(() if queue else (tenant,))
                queue = queue or own or DEFAULT_QUEUE
                tenants.setdefault(queue, set()).add(tenant)
                flavors.setdefault(queue, set()).add(flavor)
    return Charges(
        {queue: frozenset(tenants[queue]) for queue in named},
        frozenset(unnamed),
        frozenset(),
        {queue: frozenset(held) for queue, held in flavors.items()},
    )


def _place(cluster: Cluster) -> Place:
    """What the cluster has of each flavor, nodes that are down counted: they come back."""
    nodes = Node.objects.filter(cluster=cluster).values_list("device", "gpus")
    gpus: Counter[str] = Counter()
    for device, count in nodes:
        gpus[device] += count
    if not gpus:
        raise LimitsNotReadError(f"No node of {cluster.name} was seen yet, so it has no size.")
    served = ClusterFlavor.objects.filter(cluster=cluster).order_by("flavor_id")
    return Place(
        cluster.id,
        tuple(Served(one.flavor_id, _counted_as(cluster, one), gpus[one.device]) for one in served),
    )


def _counted_as(cluster: Cluster, flavor: ClusterFlavor) -> str:
    """What a limit on the flavor's GPUs is on: on Kubernetes their resource, whatever the model."""
    if cluster.backend == "volcano":
        return resource_of(cluster.options, flavor.device)
    return flavor.device
