"""What an answer says in its calls is searched, and owners stand apart from words.

Generated columns cannot be altered, so the table is written anew, once, in one
transaction: a million messages take minutes, in which nobody reads or writes them.
What is broken off begins again.
"""

import django.contrib.postgres.search
import django.db.models.functions.comparison
import django.db.models.functions.text
from django.db import migrations, models

import memory.models.vectors

BATCH = 2000
# Their indexes go with them; what is filled in next then costs no index either.
DROP = """
ALTER TABLE memory_memory DROP COLUMN content_vector, DROP COLUMN reasoning_vector
"""
FILL = """
UPDATE memory_memory SET calls_text = line.said
FROM unnest(%s::bigint[], %s::text[]) AS line(id, said)
WHERE memory_memory.id = line.id
"""
ADD = r"""
ALTER TABLE memory_memory
  ADD COLUMN content_vector tsvector GENERATED ALWAYS AS (
    to_tsvector('simple'::regconfig, translate(
      left(content, 32000) || ' ' || left(calls_text, 32000),
      E'<>/\\@.:=&?#%~+*|', '                '))
    || array_to_tsvector(ARRAY['@' || mysis_id::text])) STORED,
  ADD COLUMN reasoning_vector tsvector GENERATED ALWAYS AS (
    to_tsvector('simple'::regconfig, translate(
      left(reasoning, 32000), E'<>/\\@.:=&?#%~+*|', '                '))
    || array_to_tsvector(ARRAY['@' || mysis_id::text])) STORED;
CREATE INDEX memory_content_fts ON memory_memory USING gin (content_vector)
  WITH (fastupdate = off);
CREATE INDEX memory_reasoning_fts ON memory_memory USING gin (reasoning_vector)
  WITH (fastupdate = off) WHERE NOT (reasoning = '');
ANALYZE memory_memory
"""


def fill(apps, schema_editor):
    """Say in words what the calls that are there say."""
    rows = apps.get_model("memory", "Memory").objects.exclude(tool_calls=[])
    pairs = rows.order_by("pk").values_list("pk", "tool_calls")
    after = 0
    while found := list(pairs.filter(pk__gt=after)[:BATCH]):
        said = [memory.models.vectors.describe_calls(calls) for _, calls in found]
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(FILL, [[pk for pk, _ in found], said])
        after = found[-1][0]


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0008_pending_calls"),
    ]

    operations = [
        migrations.AddField(
            model_name="memory",
            name="calls_text",
            field=memory.models.vectors.CallsText(
                blank=True, db_default="", editable=False
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(DROP),
                migrations.RunPython(fill),
                migrations.RunSQL(ADD),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="memory",
                    name="content_vector",
                    field=models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(
                            models.Func(
                                models.Func(
                                    models.Func(
                                        django.db.models.functions.text.Left(
                                            models.F("content"), 32000
                                        ),
                                        django.db.models.functions.text.Left(
                                            models.F("calls_text"), 32000
                                        ),
                                        arg_joiner=" || ' ' || ",
                                        output_field=models.TextField(),
                                        template="(%(expressions)s)",
                                    ),
                                    models.Value("<>/\\@.:=&?#%~+*|"),
                                    models.Value("                "),
                                    function="translate",
                                    output_field=models.TextField(),
                                ),
                                output_field=django.contrib.postgres.search.SearchVectorField(),
                                template="to_tsvector('simple'::regconfig, %(expressions)s)",
                            ),
                            models.Func(
                                django.db.models.functions.text.Concat(
                                    models.Value("@"),
                                    django.db.models.functions.comparison.Cast(
                                        models.F("mysis"), models.TextField()
                                    ),
                                    output_field=models.TextField(),
                                ),
                                output_field=django.contrib.postgres.search.SearchVectorField(),
                                template="array_to_tsvector(ARRAY[%(expressions)s])",
                            ),
                            arg_joiner=" || ",
                            output_field=django.contrib.postgres.search.SearchVectorField(),
                            template="(%(expressions)s)",
                        ),
                        output_field=django.contrib.postgres.search.SearchVectorField(),
                    ),
                ),
                migrations.AlterField(
                    model_name="memory",
                    name="reasoning_vector",
                    field=models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(
                            models.Func(
                                models.Func(
                                    django.db.models.functions.text.Left(
                                        models.F("reasoning"), 32000
                                    ),
                                    models.Value("<>/\\@.:=&?#%~+*|"),
                                    models.Value("                "),
                                    function="translate",
                                    output_field=models.TextField(),
                                ),
                                output_field=django.contrib.postgres.search.SearchVectorField(),
                                template="to_tsvector('simple'::regconfig, %(expressions)s)",
                            ),
                            models.Func(
                                django.db.models.functions.text.Concat(
                                    models.Value("@"),
                                    django.db.models.functions.comparison.Cast(
                                        models.F("mysis"), models.TextField()
                                    ),
                                    output_field=models.TextField(),
                                ),
                                output_field=django.contrib.postgres.search.SearchVectorField(),
                                template="array_to_tsvector(ARRAY[%(expressions)s])",
                            ),
                            arg_joiner=" || ",
                            output_field=django.contrib.postgres.search.SearchVectorField(),
                            template="(%(expressions)s)",
                        ),
                        output_field=django.contrib.postgres.search.SearchVectorField(),
                    ),
                ),
            ],
        ),
    ]
