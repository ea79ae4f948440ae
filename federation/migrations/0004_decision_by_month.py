"""Decisions are kept by month; see `tenancy.0004_event_by_month`. Nothing points at them."""

from django.db import migrations
from django.utils import timezone

from kit.partitions import split_by_month


def split(apps, schema_editor):
    split_by_month(table="federation_decision", now=timezone.now())


class Migration(migrations.Migration):

    dependencies = [("federation", "0003_job_fillfactor")]

    operations = [migrations.RunPython(split)]
