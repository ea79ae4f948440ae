"""What would happen to jobs that are not submitted."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from federation.core.spec import JobSpec
from federation.services.submit import submit_jobs
from tenancy.models import User


@transaction.atomic
def rehearse_jobs(*, user: User, specs: Sequence[JobSpec], now: datetime) -> None:
    """Submits the jobs and takes it all back: refuses what `submit_jobs` refuses, leaves nothing.

    A rehearsal counts as a submit where the tenant's jobs a minute are limited.

    Raises:
        InvalidContentError, PermissionDeniedError, ThrottledError: as `submit_jobs`.
    """
    submit_jobs(user=user, specs=specs, now=now)
    transaction.set_rollback(True)
