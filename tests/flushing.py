"""Empties the database between tests that commit, and what a process keeps of it.

Django's own way makes every table anew, filled or not, and then all content types and
permissions, which takes longer than many a test; and it passes over the tables that
it does not manage, those of queued jobs.
"""

from __future__ import annotations

from django.db import connection
from django.test import TransactionTestCase

from agents.dashboard import game_state, lane_seconds
from agents.dashboard.shared_results import shared
from zoea.middleware import readiness

# A table without a page has no row. Of small ones the rows are deleted, which is
# cheaper than a new file; large ones would leave their dead rows to later readers.
# Nobody writes meanwhile: what a server still writes belongs to the test before.
EMPTY = """
DO $$
DECLARE
    mine CONSTANT oid[] := (
        SELECT array_agg(oid ORDER BY oid) FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        AND relname NOT IN (
            'django_migrations', 'django_content_type', 'auth_permission')
    );
    names CONSTANT text := (
        SELECT string_agg(one::regclass::text, ', ') FROM unnest(mine) AS one
        WHERE one <> 'memory_auditentry'::regclass
    );
    one regclass;
BEGIN
    IF current_setting('is_superuser') = 'off' THEN
        EXECUTE 'TRUNCATE ' || names;
        -- The audit log refuses that, and lets rows go to whoever prunes.
        PERFORM set_config('zoea.prunes_audit', 'on', true);
        DELETE FROM memory_auditentry;
        PERFORM set_config('zoea.prunes_audit', 'off', true);
        RETURN;
    END IF;
    EXECUTE 'LOCK TABLE memory_auditentry, ' || names || ' IN SHARE ROW EXCLUSIVE MODE';
    -- Neither foreign keys nor triggers: all rows go.
    SET LOCAL session_replication_role = replica;
    FOREACH one IN ARRAY mine LOOP
        CONTINUE WHEN pg_relation_size(one) = 0;
        IF pg_table_size(one) > 1000000 THEN
            EXECUTE format('TRUNCATE %s CASCADE', one);
        ELSE
            EXECUTE format('DELETE FROM %s', one);
        END IF;
    END LOOP;
END
$$
"""


def empty() -> None:
    """Delete every row but those that migrations made for Django itself."""
    with connection.cursor() as cursor:
        cursor.execute(EMPTY)


def _fixture_teardown(self: TransactionTestCase) -> None:
    empty()


def forget_shared() -> None:
    """Forget what this process drew for others of the rows of the test before."""
    for kept in (shared, lane_seconds._past_blocks, game_state._names):
        kept.forget()
    readiness.forget()


def replace_flush() -> None:
    """Have transactional tests end in this way instead of Django's."""
    TransactionTestCase._fixture_teardown = _fixture_teardown  # type: ignore[attr-defined]
