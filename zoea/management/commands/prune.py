"""``manage.py prune``: remove what is older than so many days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils import timezone

from agents import retention
from agents.retention import Step
from memory import audit
from memory.management.terminal import ActingCommand, show_bar
from zoea import idempotency
from zoea.commandline import parse_whole

MOST_DAYS = 36_500


class Command(ActingCommand):
    """Removes batch after batch; may be ended at any time and run again."""

    help = (
        "Remove what is older than so many days: turns with their calls and what "
        "these were sent, messages, events, and snapshots from before a logout; and "
        "answers kept for repeated writes, after their day. "
        "The audit log is kept for ZOEA_AUDIT_DAYS at least. "
        "Kept is what the summary in use, a pin or an open turn needs, the newest "
        "order, and whatever a call that stays was sent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        days = parse_whole(0, MOST_DAYS, f"give whole days, from 0 to {MOST_DAYS}")
        parser.add_argument("--keep-days", type=days, required=True, metavar="N")
        parser.add_argument(
            "--dry-run", action="store_true", help="Count, and remove nothing."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        kept = timedelta(days=options["keep_days"])
        dry: bool = options["dry_run"]
        done = "would be removed" if dry else "removed"
        gone: dict[str, int] = {}
        if not dry:
            # Before the first row goes: one that is killed midway has acted too.
            audit.record("prune.begin", after={"keep_days": options["keep_days"]})
        for step in list_steps(timezone.now() - kept):
            gone[step.what] = step.count
            if not dry:
                with show_bar(f"Removing {step.what}", step.count) as advance:
                    for removed in step.removal:
                        advance(removed)
            self.stdout.write(f"{step.what}: {step.count} {done}")
        if not dry:
            told = {"keep_days": options["keep_days"], "removed": gone}
            audit.record("prune", after=told)


def list_steps(before: datetime) -> Iterator[Step]:
    """The removals of rows from before a moment, and of all expired answers.

    The audit log is kept for ``settings.ZOEA_AUDIT_DAYS`` at least. Answers to repeated writes are promised for a day, and of no use after it.
    """
    yield from retention.plan_steps(before)
    audited = timezone.now() - timedelta(days=settings.ZOEA_AUDIT_DAYS)
    yield retention.plan_audit_step(min(before, audited))
    answers = idempotency.find_expired(timezone.now())
    yield Step("kept answers", answers.count(), retention.remove_rows(answers))
