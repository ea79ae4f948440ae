from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0002_initial")]
    operations = [
        migrations.AddField(
            model_name="lease",
            name="failures",
            field=models.PositiveIntegerField(default=0),
        ),
    ]
