"""Whose a change of an account's credits is: of the turn that caused it, else the Mysis's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.utils import timezone

from agents import db, statements
from agents.models import CreditChange
from agents.tools.request import INTERRUPTED
from memory.gamestate.purse import Share


def note_credits(
    mysis_id: int,
    username: str,
    credits: int,
    share: Callable[[int, int], Sequence[Share]],
) -> None:
    """Keep what an account has, and who brought what of the change, under its lock.

    ``share`` parts what lies between two amounts. The first one known is no gain.
    """
    newest = CreditChange.objects.filter(username=username).order_by("-pk").first()
    level = newest.credits if newest else None
    if level == credits:
        return
    shares = [Share(0)] if level is None else share(level, credits)
    level, now, rows = credits if level is None else level, timezone.now(), []
    for one in shares:
        level += one.amount
        rows.append(
            CreditChange(
                username=username,
                mysis_id=mysis_id,
                turn_id=_find_turn(mysis_id, one, newest),
                amount=one.amount,
                credits=level,
                at=now,
            )
        )
    CreditChange.objects.bulk_create(rows)


def _find_turn(mysis_id: int, share: Share, last: CreditChange | None) -> int | None:
    if not share.actions:
        return None
    values = {
        "mysis": mysis_id,
        "actions": list(share.actions),
        "since": last.at if last and share.untold else None,
        "until": share.until,
        "unknown": INTERRUPTED,
    }
    row = db.fetch_row(statements.TURN_OF_ACTION, values)
    return row[0] if row else None
