"""What accounting is told of an attempt's stays on GPUs."""

from collections.abc import Iterable, Iterator

from accounting.services.usage import RunFact
from federation.models import Attempt, Job

Run = tuple[int, int | None, int]


def run_facts(job: Job, attempt: Attempt, runs: Iterable[Run]) -> Iterator[RunFact]:
    """Each of the runs, in the form of `Attempt.runs`: start ms, end ms or None, GPUs."""
    for start_ms, end_ms, gpus in runs:
        yield RunFact(
            attempt_id=attempt.id,
            job_id=job.uuid,
            job_name=job.name,
            tenant_id=job.tenant_id,
            user_id=job.user_id,
            user_name=job.user.username,
            labels=job.labels,
            flavor=attempt.flavor_id,
            cluster_id=attempt.cluster_id,
            service_class=attempt.service_class,
            gpus=gpus,
            run_start_ms=start_ms,
            run_end_ms=end_ms,
        )
