"""Each tenant's decayed use of spot: what its fair share is measured by."""

from math import log
from uuid import UUID

from django.db import connection

from accounting.models import SpotUse
from kit.reads import Fixed

# A stay of n GPUs over [a, b) weighs n * integral of 2^-((now - t) / h) dt, that is
# n / k * (e^(-k (now - b)) - e^(-k (now - a))) with k = ln 2 / h. Times are on our clock.
STAYS = """
SELECT tenant_id, flavor_id,
       gpus / %(k)s * (exp(-%(k)s * (%(now)s - until_ms)) - exp(-%(k)s * (%(now)s - from_ms))) AS ms
  FROM (SELECT tenant_id, flavor_id, gpus::float8 AS gpus,
               greatest(started_ms - skew_ms, %(since)s) AS from_ms,
               least(coalesce(ended_ms - skew_ms, %(now)s), %(now)s) AS until_ms
          FROM accounting_usageinterval
         WHERE service_class = 'spot'
           AND (ended_ms IS NULL OR ended_ms > %(since)s - 86400000)) AS stay
 WHERE until_ms > from_ms
"""
_SUM = f"""
SELECT tenant_id, flavor_id, round(sum(ms))::bigint
  FROM (SELECT tenant_id, flavor_id, gpu_ms * exp(-%(k)s * (%(now)s - at_ms)) AS ms
          FROM accounting_spotuse
         UNION ALL {STAYS}) AS part
 GROUP BY tenant_id, flavor_id
HAVING round(sum(ms)) > 0
"""  # noqa: S608 (no value in it)
LN2 = log(2)
_NEWEST = Fixed(SpotUse.objects.order_by("-at_ms").values_list("at_ms")[:1])


def decayed_spot_use(*, now_ms: int, half_life_ms: int) -> dict[tuple[UUID, str], int]:
    """Decayed spot GPU-milliseconds by tenant (its own jobs) and flavor. Two queries.

    What was summed up last (`SpotUse`) plus the stays since.
    """
    ((since,),) = _NEWEST.rows() or [(0,)]
    with connection.cursor() as cursor:
        cursor.execute(_SUM, {"k": LN2 / half_life_ms, "now": now_ms, "since": since})
        return {(tenant, flavor): gpu_ms for tenant, flavor, gpu_ms in cursor.fetchall()}
