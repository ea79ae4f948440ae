"""The rest of 0003: what reads the whole ledger, without keeping its writers out meanwhile."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False  # an index is made concurrently outside of transactions only

    dependencies = [("accounting", "0003_adjustments")]

    operations = [
        ValidateConstraint("transfer", name="transfer_for_one_thing"),
        AddIndexConcurrently(
            "transfer",
            models.Index(
                fields=["adjustment"],
                name="transfer_adjustment",
                condition=models.Q(("adjustment__isnull", False)),
            ),
        ),
    ]
