"""Adjustments: transfers that no metered usage is for.

Only expands: a table of its own, and a transfer may be for an adjustment instead of a record. What
would read the whole ledger under a lock is left to 0004.
"""

import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

ONE_THING = models.Q(("record", None)) ^ models.Q(("adjustment", None))


class Migration(migrations.Migration):

    dependencies = [
        ("accounting", "0002_append_only"),
        ("clusters", "0004_drop_unread_columns"),
        ("tenancy", "0002_event_order"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Adjustment",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("job_id", models.UUIDField(null=True)),
                ("cause", models.CharField(choices=[("recovery", "Recovery"), ("correction", "Correction"), ("refund", "Refund")], max_length=16)),
                ("why", models.TextField()),
                ("gpu_ms", models.BigIntegerField(default=0)),
                ("actor", models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("cluster", models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="clusters.cluster")),
                ("tenant", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="adjustments", to="tenancy.tenant")),
            ],
            options={
                "ordering": ["-at", "id"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("why__gt", "")), name="adjustment_says_why"),
                    models.CheckConstraint(condition=models.Q(("gpu_ms__gte", 0)), name="adjustment_gpu_ms"),
                ],
            },
        ),
        migrations.RunSQL(
            "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON accounting_adjustment"
            " FOR EACH STATEMENT EXECUTE FUNCTION accounting_refuse_change()",
            "DROP TRIGGER append_only ON accounting_adjustment",
        ),
        migrations.AlterField(
            model_name="transfer",
            name="record",
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name="transfer", to="accounting.usagerecord"),
        ),
        migrations.AddField(
            model_name="transfer",
            name="adjustment",
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="transfers", to="accounting.adjustment"),
        ),
        AddConstraintNotValid(
            model_name="transfer",
            constraint=models.CheckConstraint(condition=ONE_THING, name="transfer_for_one_thing"),
        ),
    ]
