"""What lives on a cluster, and when it was last seen."""

from uuid import UUID

from clusters.models import Cluster, Observation
from federation.models import Attempt
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.intervals import to_ms
from tenancy.models import Event


def living(cluster_id: UUID) -> list[Attempt]:
    """The attempts of a cluster that are not over, with their jobs, oldest first."""
    rows = OPEN_ATTEMPTS.filter(cluster_id=cluster_id)
    return list(rows.select_related("job").order_by("bound_at", "id"))


def last_moment_ms(cluster: Cluster, attempt: Attempt) -> int:
    """When an attempt was last known to hold its nodes, on the cluster's clock.

    That is the newest reading if it shows the attempt, else when the attempt was missed. Where
    neither is known it is the start of its last run, which bills least.
    """
    known = max((start_ms for start_ms, _, _ in attempt.runs), default=0)
    reading = Observation.objects.filter(cluster=cluster).first()
    if reading and any(gang["fence"] == attempt.fence for gang in reading.gangs):
        return max(known, to_ms(reading.begun_at) + cluster.clock_skew_ms)
    missed = Event.objects.filter(kind="job.unknown", subject=str(attempt.job.uuid))
    last = missed.order_by("-id").first()
    return known if last is None else max(known, to_ms(last.at) + cluster.clock_skew_ms)
