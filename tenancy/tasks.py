"""Housekeeping ticks."""

from celery import shared_task
from django.utils import timezone

from tenancy.services.records import prune as prune_records
from tenancy.services.records import tick as note_tick


@shared_task(acks_late=True, ignore_result=True, time_limit=600, soft_time_limit=500)
def prune(**_: object) -> None:
    """Deletes what is past its retention."""
    prune_records(now=timezone.now())


@shared_task(acks_late=True, ignore_result=True, time_limit=60)
def tick(queue: str, **_: object) -> None:
    """Notes that beat, the broker and a worker of this queue are alive; `manage.py doctor` asks."""
    note_tick(queue=queue, now=timezone.now())
