import django.db.models.deletion
from django.db import migrations, models

# Turns kept what their account was known to have at first and at last. What came between
# two turns of a Mysis is taken for that of the first, if it took an action; of what came
# in one nobody can tell any more what an action before it brought.
FROM_TURNS = """
WITH known AS (
  SELECT id, mysis_id, username, actions, credits_before, credits_after, started_at,
    coalesce(finished_at, started_at) AS ended_at,
    lag(id) OVER account AS last_id, lag(mysis_id) OVER account AS last_mysis,
    lag(actions) OVER account AS last_actions,
    lag(credits_after) OVER account AS last_credits,
    lead(id) OVER account IS NULL AS newest
  FROM agents_turn
  WHERE username <> '' AND credits_before IS NOT NULL AND credits_after IS NOT NULL
  WINDOW account AS (PARTITION BY username ORDER BY id)
), change AS (
  SELECT id, 0 AS place, mysis_id, username, credits_before AS credits,
    coalesce(credits_before - last_credits, 0) AS amount,
    CASE WHEN last_mysis = mysis_id AND last_actions > 0 THEN last_id END AS turn_id,
    started_at AS at, last_id IS NULL AS first
  FROM known
  UNION ALL
  SELECT id, 1, mysis_id, username, credits_after, credits_after - credits_before, id,
    ended_at, false
  FROM known
  UNION ALL
  SELECT known.id, 2, mysis_id, known.username, read.credits,
    read.credits - credits_after, CASE WHEN actions > 0 THEN known.id END,
    greatest(read.captured_at, ended_at), false
  FROM known JOIN memory_gamesnapshot AS read ON read.username = known.username
    AND read.tool_name = 'get_status' AND read.args_key = ''
  WHERE newest AND read.credits IS NOT NULL
)
INSERT INTO agents_creditchange (username, mysis_id, turn_id, amount, credits, at)
SELECT username, mysis_id, turn_id, amount, credits, at FROM change
WHERE first OR amount <> 0 ORDER BY id, place
"""


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0030_fence"),
        ("memory", "0016_snapshot_credits"),
    ]

    operations = [
        migrations.CreateModel(
            name="CreditChange",
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
                ("username", models.CharField(max_length=100)),
                ("amount", models.BigIntegerField(default=0)),
                ("credits", models.BigIntegerField(blank=True, null=True)),
                ("at", models.DateTimeField()),
                (
                    "mysis",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="agents.mysis",
                    ),
                ),
                (
                    "turn",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="agents.turn",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["username", "-id"], name="credits_of_account"),
                    models.Index(fields=["at"], name="credits_at"),
                ],
            },
        ),
        migrations.RunSQL(FROM_TURNS, migrations.RunSQL.noop),
    ]
