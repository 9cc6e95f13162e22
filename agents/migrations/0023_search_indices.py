"""Words of events, orders and summaries are looked up by an index.

That of events holds the kinds that are searched only: a small part of the log.
"""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.fields.json
import django.db.models.functions.comparison
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0022_turn_of_epoch"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="event",
            index=django.contrib.postgres.indexes.GinIndex(
                models.Func(
                    models.Func(
                        django.db.models.functions.text.Left(
                            models.Func(
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "name", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "state", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "by", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "tool", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "outcome", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "prompt", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "note", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "text", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "reason", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "detail", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "remedy", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "error", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "hold", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                django.db.models.functions.comparison.Coalesce(
                                    django.db.models.fields.json.KeyTextTransform(
                                        "stuck", "data"
                                    ),
                                    models.Value(""),
                                    output_field=models.TextField(),
                                ),
                                arg_joiner=" || ' ' || ",
                                output_field=models.TextField(),
                                template="(%(expressions)s)",
                            ),
                            32000,
                        ),
                        models.Value("<>/\\@.:=&?#%~+*|"),
                        models.Value("                "),
                        function="translate",
                        output_field=models.TextField(),
                    ),
                    output_field=django.contrib.postgres.search.SearchVectorField(),
                    template="to_tsvector('simple'::regconfig, %(expressions)s)",
                ),
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "mysis.state",
                            "context.compacted",
                            "broadcast.sent",
                            "order.changed",
                            "prompt.changed",
                            "error",
                            "alert.raised",
                            "alert.cleared",
                        ],
                    ),
                    models.Q(("data__has_key", "by"), ("kind", "tool.called")),
                    _connector="OR",
                ),
                fastupdate=False,
                name="event_fts",
            ),
        ),
        migrations.AddIndex(
            model_name="order",
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
                name="order_fts",
            ),
        ),
    ]
