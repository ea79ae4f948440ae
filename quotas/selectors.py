"""Reads of quota."""

from django.db.models import F

from clusters.models import Cluster, ClusterFlavor, Flavor
from kit.errors import InvalidContentError, NotFoundError
from quotas.core.cohort import QuotaRow
from quotas.core.policy import Policy
from quotas.models import Quota, QuotaPolicy
from tenancy.models import Tenant


def quota_rows() -> tuple[QuotaRow, ...]:
    """Every quota, as the core's values, in a fixed order."""
    rows = Quota.objects.order_by("id").values_list(
        "tenant_id",
        "flavor_id",
        "cluster_id",
        "guaranteed",
        "borrowing_limit",
        "revision",
        "lending_limit",
        "weight",
    )
    return tuple(QuotaRow(*row) for row in rows)


def quota_policy() -> Policy:
    """What holds for all tenants: what an admin set, else the defaults."""
    found = QuotaPolicy.objects.values_list("half_life_ms", "aging_ms").first()
    return Policy(*found) if found else Policy()


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
