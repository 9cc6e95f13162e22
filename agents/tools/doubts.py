"""Says which snapshots are not true any more, and marks what lost events told of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction

from agents import events
from agents.game import accounts
from agents.game.accounts import Card
from memory import state
from memory.gamestate.confidence import Confidence
from memory.gamestate.effects import LOST_EVENTS, LOST_SESSION


def tell(mysis_id: int, username: str, touched: Iterable[state.Touched]) -> None:
    """Append an event for each snapshot that was made untrue."""
    lines = [
        (events.Kind.SNAPSHOT_STALE, mysis_id, _line(username, t)) for t in touched
    ]
    events.append_all(lines)


@transaction.atomic
def lose_events(mysis_id: int, username: str) -> None:
    """The game gave events away that never arrived: doubt what they may have told."""
    tell(mysis_id, username, state.lose_events(username, LOST_EVENTS))


@transaction.atomic
def play_as(mysis_id: int, card: Card, session: str) -> Card:
    """Play as an account after its login; events of an older session are lost.

    They wait in that session's own queue, which nobody asks for any more.
    """
    played = accounts.play_as(mysis_id, card, session)
    tell(mysis_id, card.username, state.lose_events(card.username, LOST_SESSION))
    return played


def _line(username: str, touched: state.Touched) -> dict[str, Any]:
    return {
        "account": username,
        "tool": touched.tool,
        "args": dict(touched.args),
        "fields": list(touched.fields),
        "reason": touched.reason,
        "tick": touched.tick,
        "confidence": str(Confidence.INVALIDATED),
    }
