"""Sums up decayed spot use, so that a cycle of the arbiter reads only what is new since."""

from datetime import datetime

from django.db import connection, transaction

from accounting.models import SpotUse
from accounting.selectors.spot_use import LN2, STAYS
from kit.intervals import to_ms

FORGOTTEN = 20  # half-lives: a millionth is left


@transaction.atomic
def sum_up_spot_use(*, now: datetime, half_life_ms: int) -> int:
    """Works every tenant's decayed spot use out anew, from the stays; rows written.

    From the start each time: late reports and another half-life are in it, and twice is once.
    """
    now_ms = to_ms(now)
    SpotUse.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO accounting_spotuse (tenant_id, flavor_id, gpu_ms, at_ms)"  # noqa: S608
            f" SELECT tenant_id, flavor_id, round(sum(ms))::bigint, %(now)s FROM ({STAYS}) AS part"
            " GROUP BY tenant_id, flavor_id",
            {
                "k": LN2 / half_life_ms,
                "now": now_ms,
                "since": now_ms - FORGOTTEN * half_life_ms,
            },
        )
        return int(cursor.rowcount)
