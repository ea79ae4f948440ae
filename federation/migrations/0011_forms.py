"""In which forms a job can be started, and the volume claims of its container."""

import django.contrib.postgres.fields
import federation.models.jobs
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("federation", "0010_telling"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="claims",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=257),
                db_default=models.Value(
                    [],
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=257), size=None
                    ),
                ),
                default=list,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="forms",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=16),
                db_default=models.Value(
                    ["script"],
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=257), size=None
                    ),
                ),
                default=federation.models.jobs.script_only,
                size=None,
            ),
        ),
    ]
