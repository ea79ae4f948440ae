"""A second backend: its kind, longer names of GPUs, and who containers run as."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0007_command_statistics"),
    ]

    operations = [
        migrations.AddField(
            model_name="clusteraccount",
            name="run_as",
            field=models.CharField(blank=True, db_default="", default="", max_length=32),
        ),
        migrations.AlterField(
            model_name="cluster",
            name="backend",
            field=models.CharField(
                choices=[("slurm", "Slurm"), ("volcano", "Volcano")], max_length=16
            ),
        ),
        migrations.AlterField(
            model_name="clusterflavor",
            name="device",
            field=models.CharField(max_length=253),
        ),
        migrations.AlterField(
            model_name="node",
            name="device",
            field=models.CharField(blank=True, max_length=253),
        ),
    ]
