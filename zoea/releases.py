"""Which databases this release can go on from."""

from __future__ import annotations

from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

OURS = ("agents", "memory", "zoea")
OLDEST = "a3ff10bd"
"""The last commit of the release of 2026-11-28, whose migrations the first ones replace."""


def find_refusal() -> str:
    """Why this release cannot use the tables of the database; empty where it can.

    Django passes over migrations that it does not know, and the fleet would fly on tables
    that it does not know; and it cannot go on where only some of those that a migration
    replaces are applied.
    """
    known = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    replaced = {key: set(one.replaces) for key, one in known.items() if key[0] in OURS}
    applied = {
        key
        for key in MigrationRecorder(connection).applied_migrations()
        if key[0] in OURS
    }
    newer = sorted(applied - known.keys() - set().union(*replaced.values()))
    if newer:
        return (
            f"The database is of a newer release ({'.'.join(newer[0])} is not known here): "
            "start that release, or choose another data folder (ZOEA_DATA) or database "
            "(DATABASE_URL)."
        )
    # None of them on a database that is new, or whose first start was cut short.
    older = [
        name
        for names in replaced.values()
        if names & applied
        for name in sorted(names - applied)
    ]
    if older:
        return (
            f"The database is of an older release ({'.'.join(older[0])} is not applied): "
            f"run `manage.py migrate` of the release of 2026-11-28 (commit {OLDEST}) on "
            "it, then start this one."
        )
    return ""
