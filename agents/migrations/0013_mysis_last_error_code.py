from django.db import migrations, models

# Errors of before are told apart once, by their words, so that their links still lead
# to where they are mended.
FILL = r"""
UPDATE agents_mysis SET last_error_code = CASE
  WHEN last_error ~* 'no provider is named|names a provider but no model' THEN 'model'
  WHEN NOT starts_with(last_error, model) AND last_error ~* '\mgame\M' THEN 'game'
  WHEN last_error ~* 'answered 400|the request that was sent' THEN 'request'
  WHEN last_error ~* 'context policy|budget|window|answered 413' THEN 'context'
  WHEN last_error ~* 'api key|answered 40[123]' THEN 'key'
  WHEN last_error ~* ('the key of provider|base url|answered [0-9]{3}|provider is up|'
    'could not be reached|the provider|no completion|out of reach') THEN 'provider'
  ELSE '' END
WHERE last_error <> ''
"""


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
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
