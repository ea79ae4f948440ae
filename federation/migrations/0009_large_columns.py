"""Large columns that nothing searches cost ANALYZE and the arbiter less.

Statistics of whole JSON documents are the most of what analyzing jobs takes, and no query looks for
one. The queue is written about once a second: to compress it costs four times as much as the rest.
"""

from typing import ClassVar

from django.db import migrations


def statistics(column: str) -> migrations.RunSQL:
    """No statistics of a column of jobs from now on."""
    return migrations.RunSQL(
        f"ALTER TABLE federation_job ALTER COLUMN {column} SET STATISTICS 0",
        f"ALTER TABLE federation_job ALTER COLUMN {column} SET STATISTICS -1",
    )


class Migration(migrations.Migration):
    """Settings of columns; no row is rewritten."""

    dependencies: ClassVar = [("federation", "0008_arbiterterm_told_at")]
    operations: ClassVar = [
        *map(statistics, ("spec", "options", "reasons")),
        migrations.RunSQL(
            "ALTER TABLE federation_arbiterterm ALTER COLUMN queue SET STORAGE EXTERNAL",
            "ALTER TABLE federation_arbiterterm ALTER COLUMN queue SET STORAGE EXTENDED",
        ),
    ]
