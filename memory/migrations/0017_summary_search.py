"""Words of summaries are looked up by an index."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0016_snapshot_credits"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="historysummary",
            index=django.contrib.postgres.indexes.GinIndex(
                models.Func(
                    models.Func(
                        django.db.models.functions.text.Left(models.F("text"), 32000),
                        models.Value("<>/\\@.:=&?#%~+*|"),
                        models.Value("                "),
                        function="translate",
                        output_field=models.TextField(),
                    ),
                    output_field=django.contrib.postgres.search.SearchVectorField(),
                    template="to_tsvector('simple'::regconfig, %(expressions)s)",
                ),
                fastupdate=False,
                name="summary_fts",
            ),
        ),
    ]
