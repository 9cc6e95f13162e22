"""The audit log is not emptied at once either."""

from django.db import migrations

# As for single rows: whoever prunes says so by a setting of the transaction.
REFUSE_TRUNCATE = """
CREATE FUNCTION memory_auditentry_keep_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('zoea.prunes_audit', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'The audit log is append-only: % is refused.', TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER memory_auditentry_keep_all BEFORE TRUNCATE ON memory_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION memory_auditentry_keep_all();
"""
FREE = """
DROP TRIGGER memory_auditentry_keep_all ON memory_auditentry;
DROP FUNCTION memory_auditentry_keep_all();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0020_branches"),
    ]

    operations = [migrations.RunSQL(REFUSE_TRUNCATE, FREE)]
