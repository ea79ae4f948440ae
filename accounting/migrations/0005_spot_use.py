import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounting', '0004_adjustments_checked'),
        ('clusters', '0006_namesakes'),
        ('tenancy', '0004_event_by_month'),
    ]

    operations = [
        migrations.CreateModel(
            name='SpotUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('gpu_ms', models.BigIntegerField()),
                ('at_ms', models.BigIntegerField()),
                ('flavor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='clusters.flavor')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenancy.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'flavor'), name='spot_use_once')],
            },
        ),
    ]
