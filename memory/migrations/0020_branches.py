import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0026_saved_views"),
        ("memory", "0019_audit"),
    ]

    operations = [
        migrations.CreateModel(
            name="Branch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("asked_id", models.BigIntegerField()),
                ("kept_id", models.BigIntegerField()),
                ("first_id", models.BigIntegerField()),
                ("through_id", models.BigIntegerField()),
                ("messages", models.PositiveIntegerField()),
                ("correction_id", models.BigIntegerField(default=0)),
                ("before", models.JSONField(default=dict)),
                ("by", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "undone_by",
                    models.CharField(blank=True, default="", max_length=200),
                ),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
                (
                    "mysis",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="branches",
                        to="agents.mysis",
                    ),
                ),
            ],
            options={"verbose_name_plural": "branches"},
        ),
        # Null, without a default, a constraint or an index: no row is read or written.
        migrations.AddField(
            model_name="memory",
            name="branch",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="memory.branch",
            ),
        ),
    ]
