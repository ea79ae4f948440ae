"""The accounting ticks."""

import logging

from celery import shared_task
from django.utils import timezone

from accounting.services.posting import meter_and_post
from accounting.services.spot_use import sum_up_spot_use
from quotas.selectors import quota_policy

MOST_BATCHES = 200  # a tick's end, so that a flood of usage cannot hold the worker for ever
logger = logging.getLogger(__name__)


@shared_task(acks_late=True, ignore_result=True, time_limit=300, soft_time_limit=270)
def post(**_: object) -> None:
    """Posts what is due, batch by batch, until nothing is or another worker does it."""
    for _batch in range(MOST_BATCHES):
        done = meter_and_post(now=timezone.now())
        if done.is_busy or not done.intervals:
            return
        logger.info("posted batch %s with %d records", done.batch, done.records)


@shared_task(acks_late=True, ignore_result=True, time_limit=300, soft_time_limit=270)
def sum_up(**_: object) -> None:
    """Sums up decayed spot use, which the arbiter's order of tenants reads."""
    sum_up_spot_use(now=timezone.now(), half_life_ms=quota_policy().half_life_ms)
