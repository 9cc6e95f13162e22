from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0029_order_replaced_by"),
    ]

    operations = [
        migrations.CreateModel(
            name="Fence",
            fields=[
                (
                    "number",
                    models.PositiveSmallIntegerField(primary_key=True, serialize=False),
                ),
                ("key_check", models.TextField()),
                ("game", models.TextField()),
                ("seconds_per_tick", models.FloatField()),
            ],
        ),
    ]
