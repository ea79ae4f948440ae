"""What a job may still use, for its worst case."""

from collections.abc import Iterator
from datetime import datetime

from accounting.core.metering import Usage
from federation.core.lifecycle import JobState
from federation.models import Attempt, Job
from kit.intervals import to_ms


def usage_ahead(job: Job, attempt: Attempt | None, now: datetime) -> list[Usage]:
    """The rest of its time limit where it is bound; else the whole of it on each thing it asks.

    The dearest of them counts. Empty once the job is over.
    """
    state = JobState(job.state)
    if state.is_final:
        return []
    if state.is_bound and attempt is not None and attempt.state != Attempt.State.ENDED:
        return [_rest(job, attempt, to_ms(now))]
    return list(_whole(job, to_ms(now)))


def _rest(job: Job, attempt: Attempt, now_ms: int) -> Usage:
    started_ms = now_ms if attempt.started_at is None else to_ms(attempt.started_at)
    return Usage(
        flavor=attempt.flavor_id,
        service_class=attempt.service_class,
        gpus=len(attempt.nodes) * attempt.gpus_per_node,
        start_ms=now_ms,
        end_ms=max(now_ms, started_ms + job.time_limit_ms),
        cluster=attempt.cluster_id,
        lineage=tuple(job.tenant.lineage),
    )


def _whole(job: Job, now_ms: int) -> Iterator[Usage]:
    classes = ("guaranteed", "spot") if job.wanted_class == "auto" else (job.wanted_class,)
    for option in job.options:
        for service_class in classes:
            yield Usage(
                flavor=option["flavor"],
                service_class=service_class,
                gpus=option["nodes"] * option["gpus_per_node"],
                start_ms=now_ms,
                end_ms=now_ms + job.time_limit_ms,
                cluster=None,
                lineage=tuple(job.tenant.lineage),
            )
