"""ANALYZE leaves out what commands say, large JSON that no query looks for."""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    """Settings of columns; no row is rewritten."""

    dependencies: ClassVar = [("clusters", "0006_namesakes")]
    operations: ClassVar = [
        migrations.RunSQL(
            f"ALTER TABLE clusters_command ALTER COLUMN {column} SET STATISTICS 0",
            f"ALTER TABLE clusters_command ALTER COLUMN {column} SET STATISTICS -1",
        )
        for column in ("payload", "answer")
    ]
