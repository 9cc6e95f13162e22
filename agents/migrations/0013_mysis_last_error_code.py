from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0012_unknown_outcomes"),
    ]

    operations = [
        migrations.AddField(
            model_name="mysis",
            name="last_error_code",
            field=models.CharField(
                blank=True, db_default="", default="", editable=False, max_length=20
            ),
        ),
    ]
