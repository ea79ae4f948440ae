"""Jobs that a member cluster holds back by a limit on GPUs of its own accounts.

Quotas may have been raised since such a limit was set: it does not follow by itself. What it says is
in `quotas.core.mirror`; how it is mended, on the page of the cluster's limits.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from clusters.core.charging import charge_of
from clusters.models import Cluster
from federation.models import Attempt
from quotas.core.mirror import HELD_BY_LIMIT


def is_held_by_limit(attempt: Attempt | None) -> bool:
    """Whether its cluster keeps the attempt waiting by such a limit."""
    return (
        attempt is not None
        and attempt.state == Attempt.State.PENDING
        and attempt.backend_reason in HELD_BY_LIMIT
    )


def held_attempts(cluster: Cluster) -> QuerySet[Attempt]:
    """The attempts that the cluster holds back so, the first bound first, jobs and tenants at hand."""
    rows = _held().filter(cluster=cluster)
    return rows.select_related("job", "job__tenant").order_by("id")


def held_counts() -> Mapping[UUID, int]:
    """How many attempts each cluster holds back so; those that hold none are left out. One query."""
    rows = _held().order_by().values_list("cluster_id")
    return dict(rows.annotate(count=Count("id")))


def limit_reason(attempt: Attempt, path: str) -> dict[str, Any]:
    """Why an attempt that is held back so waits, and what helps; `path` is its tenant's."""
    cluster = attempt.cluster
    account = charge_of(cluster.options, path)
    whose = f"the account {account}" if account else "the account that it is charged to"
    return {
        "cluster": cluster.name,
        "flavor": attempt.flavor_id,
        "code": "limit_reached",
        "message": (
            f"{cluster.name} holds it back by its own limit on GPUs of {whose}"
            f" ({attempt.backend_reason}), which does not rise by itself with quotas."
        ),
        "needed": len(attempt.nodes) * attempt.gpus_per_node,
        "available": None,
        "unit": "gpus",
        "until": None,
        "fix": {
            "description": (
                f"An admin looks at /clusters/{cluster.name}/quota-mirror, where quotas stand beside"
                " what is set there, and applies them."
            ),
            "change": None,
            "effect": "It starts as soon as the limit lets it.",
        },
    }


def _held() -> QuerySet[Attempt]:
    return Attempt.objects.filter(
        state=Attempt.State.PENDING, backend_reason__in=sorted(HELD_BY_LIMIT)
    )
