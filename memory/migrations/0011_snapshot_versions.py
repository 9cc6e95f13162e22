from django.db import migrations, models

# Whoever writes a row, and whichever of its columns: the number it is told by changes.
COUNT_WRITES = """
CREATE FUNCTION memory_count_writes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  RETURN NEW;
END $$;
CREATE TRIGGER memory_gamesnapshot_version BEFORE UPDATE ON memory_gamesnapshot
FOR EACH ROW EXECUTE FUNCTION memory_count_writes();
"""
UNCOUNT = """
DROP TRIGGER memory_gamesnapshot_version ON memory_gamesnapshot;
DROP FUNCTION memory_count_writes();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0010_default_target"),
    ]

    operations = [
        migrations.AddField(
            model_name="gamesnapshot",
            name="version",
            field=models.BigIntegerField(db_default=0, editable=False),
        ),
        migrations.RunSQL(COUNT_WRITES, UNCOUNT),
    ]
