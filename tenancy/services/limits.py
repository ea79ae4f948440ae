"""How often one may ask: per token for reads and for writes, per tenant for jobs submitted."""

from collections.abc import Mapping
from uuid import UUID

from django.conf import settings

from kit.errors import ThrottledError
from kit.rate import Bucket, Verdict, limiter
from tenancy.selectors.access import Principal

PREFIX = "muster:rate:"


def charge_request(*, principal: Principal, is_read: bool) -> Verdict | None:
    """One request of a token (or of a person's session); None while nothing is limited."""
    return _charge("reads" if is_read else "writes", principal.token_id or principal.user.pk)


def charge_job(*, fence: str) -> Verdict | None:
    """One proof of a job; None while nothing is limited."""
    return _charge("writes", fence)


def _charge(name: str, who: object) -> Verdict | None:
    environment = settings.ENVIRONMENT
    limit = environment.rate_reads if name == "reads" else environment.rate_writes
    bucket = Bucket(name, f"{PREFIX}{name}:{who}", limit)
    return limiter(settings.CELERY_BROKER_URL).charge(bucket)


def limits_are_off() -> bool:
    """Whether limits are set and nothing is limited all the same."""
    environment = settings.ENVIRONMENT
    limits = (environment.rate_reads, environment.rate_writes, environment.rate_tenant_jobs)
    return any(limits) and limiter(settings.CELERY_BROKER_URL).is_off()


def refuse_throttled(verdict: Verdict | None) -> None:
    """Lets pass what is allowed.

    Raises:
        ThrottledError: a bucket has too little; says which and when it has enough.
    """
    if verdict is not None and not verdict.is_allowed:
        bucket = verdict.bucket
        raise ThrottledError(
            f"At most {bucket.limit} {bucket.name} a minute. Try again in {verdict.wait_s} s.",
            retry_after_s=verdict.wait_s,
        )


def charge_tenants(*, jobs: Mapping[UUID, int]) -> None:
    """So many jobs for each tenant; to be called once it is known that one may submit there.

    Raises:
        ThrottledError: a tenant's bucket holds less.
    """
    limit = settings.ENVIRONMENT.rate_tenant_jobs
    for tenant, count in jobs.items():
        bucket = Bucket("jobs of the tenant", f"{PREFIX}jobs:{tenant}", limit)
        refuse_throttled(limiter(settings.CELERY_BROKER_URL).charge(bucket, count))
