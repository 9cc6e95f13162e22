"""The audit log is not emptied at once either."""

from django.db import migrations

# Whoever prunes deletes row by row, which the trigger of migration 0019 lets through.
REFUSE_TRUNCATE = """
CREATE FUNCTION memory_auditentry_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The audit log is append-only: % is refused.', TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER memory_auditentry_refuse_truncate BEFORE TRUNCATE ON memory_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION memory_auditentry_refuse_truncate();
"""
FREE = """
DROP TRIGGER memory_auditentry_refuse_truncate ON memory_auditentry;
DROP FUNCTION memory_auditentry_refuse_truncate();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0020_branches"),
    ]

    operations = [migrations.RunSQL(REFUSE_TRUNCATE, FREE)]
