from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0013_mysis_last_error_code"),
    ]

    operations = [
        migrations.CreateModel(
            name="WorkerLock",
            fields=[
                (
                    "number",
                    models.BigIntegerField(primary_key=True, serialize=False),
                ),
            ],
        ),
    ]
