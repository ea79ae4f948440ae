"""When the order of the queue and the reasons were last looked at."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """A column is added."""

    dependencies: ClassVar = [("federation", "0007_simulations")]
    operations: ClassVar = [
        migrations.AddField("arbiterterm", "told_at", models.DateTimeField(null=True)),
    ]
