"""Housekeeping ticks."""

from celery import shared_task
from django.utils import timezone

from tenancy.services.records import prune as prune_records


@shared_task(acks_late=True, ignore_result=True, time_limit=600, soft_time_limit=500)
def prune(**_: object) -> None:
    """Deletes what is past its retention."""
    prune_records(now=timezone.now())
