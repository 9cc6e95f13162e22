from django.db import migrations, models

# Until now the note alone said by which order another was replaced.
_FROM_NOTES = r"""
UPDATE agents_orderrecipient
SET replaced_by = substring(note FROM '^Order (\d{1,18}) took its place\.$')::bigint
WHERE state = 'superseded' AND note ~ '^Order \d{1,18} took its place\.$'
"""


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0028_rewinds"),
    ]

    operations = [
        migrations.AddField(
            model_name="orderrecipient",
            name="replaced_by",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.RunSQL(_FROM_NOTES, migrations.RunSQL.noop),
    ]
