"""Events are kept by month, so that old ones are dropped without being deleted row by row.

Safe while the service runs: no row is copied (see `kit.partitions.split_by_month`), writers wait for
the time that an index over the present events takes. Processes of the release before go on: they
read and write the table under the same name, and their deleting of old events still works.
"""

from django.db import migrations
from django.utils import timezone

from kit.partitions import join_months, split_by_month


def split(apps, schema_editor):
    split_by_month(table="tenancy_event", now=timezone.now())


def join(apps, schema_editor):
    join_months(table="tenancy_event")


class Migration(migrations.Migration):

    dependencies = [("tenancy", "0003_tick")]

    operations = [migrations.RunPython(split, join)]
