"""Why jobs wait lies in a narrow table of its own: it is rewritten every second, jobs are not.

The column `reasons` of jobs stays, with a default, as processes of the last release still write
and read it; nothing of this release does. A later release drops it.
"""

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models

_COPY = """
INSERT INTO federation_telling (job_id, version, reasons)
SELECT id, version, reasons FROM federation_job
 WHERE state = 'queued' AND reasons <> '[]' ON CONFLICT (job_id) DO NOTHING"""


class Migration(migrations.Migration):
    """A table is added; what waits (few rows, found by an index) is copied."""

    dependencies: ClassVar = [("federation", "0009_large_columns")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="Telling",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="telling",
                        serialize=False,
                        to="federation.job",
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("reasons", models.JSONField()),
            ],
        ),
        migrations.RunSQL(
            "ALTER TABLE federation_telling SET (fillfactor = 50),"
            " ALTER COLUMN reasons SET STATISTICS 0",
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(_COPY, migrations.RunSQL.noop),
        migrations.RunSQL(
            "ALTER TABLE federation_job ALTER COLUMN reasons SET DEFAULT '[]'",
            "ALTER TABLE federation_job ALTER COLUMN reasons DROP DEFAULT",
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("job", "reasons")]
        ),
    ]
