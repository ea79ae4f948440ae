"""Decisions are kept by month; see `tenancy.0004_event_by_month`. Nothing points at them."""

from django.db import migrations
from django.utils import timezone

from kit.partitions import join_months, split_by_month


def split(apps, schema_editor):
    split_by_month(table="federation_decision", now=timezone.now())


def join(apps, schema_editor):
    join_months(table="federation_decision")


class Migration(migrations.Migration):

    dependencies = [("federation", "0003_job_fillfactor")]

    operations = [migrations.RunPython(split, join)]
