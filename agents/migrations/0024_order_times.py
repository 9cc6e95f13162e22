"""When an order was shown and answered, and since when a Mysis owes a word on it."""

import django.utils.timezone
from django.db import migrations, models
from django.db.models.functions import Now

# As the deliveries know it, where they do. Who reports has had it; of a message that was
# removed the last change is the nearest that is known.
KNOWN_TIMES = """
UPDATE agents_orderrecipient AS recipient
SET shown_at = known.shown_at, answered_at = known.answered_at, since_at = known.since_at
FROM (
  SELECT part.id,
    coalesce(
      CASE WHEN delivery.shown THEN delivery.shown_at END,
      CASE WHEN part.state IN ('shown', 'answered') OR starts_with(part.changed_by, 'mysis:')
             OR (part.memory_id IS NULL AND part.state IN ('done', 'not_done'))
        THEN coalesce(part.changed_at, given.created_at) END) AS shown_at,
    coalesce(
      CASE WHEN delivery.shown THEN delivery.done_at END,
      CASE WHEN part.state = 'answered' THEN coalesce(part.changed_at, given.created_at) END
    ) AS answered_at,
    coalesce(CASE WHEN starts_with(part.changed_by, 'mysis:') THEN part.changed_at END,
      given.created_at) AS since_at
  FROM agents_orderrecipient AS part
  JOIN agents_order AS given ON given.id = part.order_id
  LEFT JOIN agents_delivery AS delivery ON delivery.memory_id = part.memory_id
) AS known
WHERE known.id = recipient.id
"""


class Migration(migrations.Migration):
    # After the last that had landed: where that is applied, nothing may come before it.
    dependencies = [("agents", "0023_search_indices")]

    operations = [
        migrations.AddField(
            model_name="orderrecipient",
            name="shown_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="orderrecipient",
            name="answered_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="orderrecipient",
            name="since_at",
            field=models.DateTimeField(
                db_default=Now(), default=django.utils.timezone.now
            ),
        ),
        migrations.AddIndex(
            model_name="orderrecipient",
            index=models.Index(fields=["state", "order"], name="order_in_state"),
        ),
        migrations.RunSQL(KNOWN_TIMES, migrations.RunSQL.noop),
    ]
