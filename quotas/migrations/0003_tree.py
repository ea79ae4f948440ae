from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0006_namesakes'),
        ('quotas', '0002_initial'),
        ('tenancy', '0004_event_by_month'),
    ]

    operations = [
        migrations.CreateModel(
            name='QuotaPolicy',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('half_life_ms', models.PositiveBigIntegerField(default=604800000, help_text='Spot use counts half after so many milliseconds (604800000 = 7 days).')),
                ('aging_ms', models.PositiveBigIntegerField(default=864000, help_text='So many milliseconds of waiting are worth a point of priority; 0 = none.')),
            ],
            options={
                'verbose_name_plural': 'quota policy',
            },
        ),
        migrations.AddField(
            model_name='quota',
            name='lending_limit',
            field=models.PositiveIntegerField(blank=True, help_text='Most of the guarantee that others may use; empty = all.', null=True),
        ),
        migrations.AddField(
            model_name='quota',
            name='weight',
            field=models.PositiveIntegerField(db_default=1, default=1, help_text='Part of spot against its siblings: 1 to 1000.'),
        ),
        migrations.AddConstraint(
            model_name='quota',
            constraint=models.CheckConstraint(condition=models.Q(('lending_limit', None), ('lending_limit__lte', models.F('guaranteed')), _connector='OR'), name='quota_lends_its_own'),
        ),
        migrations.AddConstraint(
            model_name='quota',
            constraint=models.CheckConstraint(condition=models.Q(('weight', 1), models.Q(('weight__gt', 0), ('cluster', None)), _connector='OR'), name='quota_weight'),
        ),
        migrations.AddConstraint(
            model_name='quotapolicy',
            constraint=models.CheckConstraint(condition=models.Q(('id', 1)), name='one_quota_policy'),
        ),
        migrations.AddConstraint(
            model_name='quotapolicy',
            constraint=models.CheckConstraint(condition=models.Q(('half_life_ms__gt', 0)), name='half_life_positive'),
        ),
    ]
