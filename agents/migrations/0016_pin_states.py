from django.db import migrations, models


# What stands pinned was written by its author: its hash is that of its text.
SEAL = "UPDATE agents_pin SET digest = encode(sha256(convert_to(text, 'UTF8')), 'hex')"


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0015_groups_and_tags"),
    ]

    operations = [
        migrations.AddField(
            model_name="mysis",
            name="lost_pins",
            field=models.TextField(
                blank=True, db_default="", default="", editable=False
            ),
        ),
        migrations.AddField(
            model_name="pin",
            name="changed_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="pin",
            name="changed_by",
            field=models.CharField(
                blank=True, db_default="", default="", editable=False, max_length=200
            ),
        ),
        migrations.AddField(
            model_name="pin",
            name="digest",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=64
            ),
        ),
        migrations.AddField(
            model_name="pin",
            name="state",
            field=models.CharField(
                choices=[
                    ("active", "Active"),
                    ("acknowledged", "Acknowledged"),
                    ("done", "Done"),
                    ("superseded", "Superseded"),
                ],
                db_default="active",
                default="active",
                max_length=12,
            ),
        ),
        migrations.RunSQL(SEAL, migrations.RunSQL.noop),
    ]
