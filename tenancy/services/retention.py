"""What is kept for how long: months are made ahead, and dropped when all of them is past."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import DatabaseError

from kit.intervals import DAY_MS
from kit.partitions import drop_before, make_ahead

logger = logging.getLogger(__name__)


def keep_by_month(*, keep_days: Mapping[str, int], now: datetime) -> list[str]:
    """Makes months ahead and drops those past `keep_days` of each table; the names of both.

    A row is kept for at least so many days and at most a month longer. What cannot be done now
    (somebody holds a lock, or the role does not own the table) is logged and tried again next time.
    """
    done: list[str] = []
    for table, days in keep_days.items():
        cutoff = now - timedelta(milliseconds=days * DAY_MS)
        try:
            made = make_ahead(table=table, now=now)
            dropped = drop_before(table=table, cutoff=cutoff)
        except DatabaseError as error:
            logger.warning("retention of %s waits: %s", table, str(error).strip())
            continue
        for name in made:
            logger.info("made %s", name)
        for name in dropped:
            logger.info("dropped %s, all of it older than %s days", name, days)
        done += [*made, *dropped]
    return done
