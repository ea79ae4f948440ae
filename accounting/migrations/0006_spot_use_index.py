"""The index that decayed spot use reads by, made without keeping writers out."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False  # an index is made concurrently outside of transactions only

    dependencies = [("accounting", "0005_spot_use")]

    operations = [
        AddIndexConcurrently(
            "usageinterval",
            models.Index(
                fields=["ended_ms"],
                name="usage_spot",
                condition=models.Q(("service_class", "spot")),
            ),
        ),
    ]
