"""Housekeeping ticks."""

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from tenancy.services.records import prune as prune_records
from tenancy.services.records import tick as note_tick
from tenancy.services.retention import keep_by_month


@shared_task(acks_late=True, ignore_result=True, time_limit=600, soft_time_limit=500)
def prune(**_: object) -> None:
    """Deletes what is past its retention, and makes the months to come."""
    now = timezone.now()
    keep_by_month(keep_days=settings.KEEP_DAYS, now=now)
    prune_records(now=now)


@shared_task(acks_late=True, ignore_result=True, time_limit=60)
def tick(queue: str, **_: object) -> None:
    """Notes that beat, the broker and a worker of this queue are alive; `manage.py doctor` asks."""
    note_tick(queue=queue, now=timezone.now())
