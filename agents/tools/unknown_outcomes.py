"""Actions whose outcome is unknown, the read that shows it, and what they make doubtful."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents import events
from agents.game import accounts
from agents.game.accounts import ActiveAccount
from agents.models import UnknownOutcome
from agents.tools.request import (
    FILLED_IN,
    Tool,
    changes_nothing,
    route_command,
)
from memory.game_calls import resolve_call
from memory.gamestate import invalidation
from memory.gamestate.confidence import Confidence, TouchedSnapshot
from memory.gamestate.effects import LOST_EVENTS, LOST_SESSION
from memory.gamestate.values import applies_to, find_value, parse_text, unwrap_content
from memory.snapshots import writes
from memory.snapshots.reads import read_tick

LONGEST_VALUE = 120
# What a read must be given where the tool requires its action alone.
_NEEDED = {
    "get_chat_history": frozenset({"channel"}),
    "read_note": frozenset({"note_id"}),
    "forum_get_thread": frozenset({"thread_id"}),
    "captains_log_get": frozenset({"index"}),
}
LONGEST_FOUND = 600


@dataclass(frozen=True, slots=True)
class Read:
    """A call that shows what an action did, and the fields of its answer that do.

    ``tool`` is called with ``arguments`` for the command ``name``.
    """

    name: str
    arguments: Mapping[str, Any]
    fields: tuple[str, ...]
    tool: str = ""

    def describe_answer(self, text: str, tick: int | None) -> str:
        """What an answer says of those fields, in a sentence; without them its head."""
        content = unwrap_content(parse_text(text))
        found = {
            path: find_value(content, path)
            for path in self.fields
            if "*" not in path and applies_to(content, path)
        }
        parts = [
            f"{path} {_clipped(json.dumps(value, ensure_ascii=False, default=str))}"
            for path, value in found.items()
        ]
        said = ", ".join(parts) or " ".join(text.split())
        at = "" if tick is None else f" at tick {tick}"
        return f"{self.name} says now{at}: {_clipped(said, LONGEST_FOUND)}."


def find_read(unknown: UnknownOutcome, tools: Mapping[str, Tool]) -> Read | None:
    """The read that shows what became of an action; None where no tool does.

    What such a read must be given is taken from the action: the channel of a chat.
    """
    reads = invalidation.find_telling_fields(unknown.tool, unknown.args)
    for name, fields in reads.items():
        route = route_command(name, tools)
        if route is None:
            continue
        tool, command = tools[route.tool], resolve_call(route.tool, route.arguments)
        if not changes_nothing(tool, command, {}):
            continue
        required = set(tool.spec.parameters.get("required", [])) - {*route.arguments}
        if command.grouped:
            required |= _NEEDED.get(name, frozenset())
        if all(key in unknown.args for key in required):
            given = {key: unknown.args[key] for key in sorted(required)}
            return Read(name, {**route.arguments, **given}, fields, route.tool)
    return None


def shows_outcome(unknown: UnknownOutcome, tick: int | None, now: datetime) -> bool:
    """Whether a read of this tick shows the outcome; without a tick the time decides."""
    if unknown.tick is None or tick is None:
        seconds = invalidation.QUEUE_MARGIN_TICKS * settings.ZOEA_SECONDS_PER_TICK
        return now >= unknown.created_at + timedelta(seconds=seconds)
    # So far behind, the game's counter was set back.
    return not tick < unknown.tick <= tick + invalidation.LONGEST_WAIT_TICKS


def normalise_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as far as two calls with them are the same."""
    return {
        key: value
        for key, value in arguments.items()
        if value is not None and key not in FILLED_IN
    }


def note_unknown(
    *,
    mysis_id: int,
    username: str,
    tool: str,
    args: Mapping[str, Any],
    memory_id: int | None = None,
) -> None:
    """Store that an action of an account may have happened or not."""
    now = read_tick(username)
    UnknownOutcome.objects.update_or_create(
        mysis_id=mysis_id,
        username=username,
        tool=tool,
        args=normalise_arguments(args),
        defaults={
            "tick": None if now is None else now + invalidation.QUEUE_MARGIN_TICKS,
            "memory": memory_id,
            "created_at": timezone.now(),
        },
    )


def find_unknown(mysis_id: int, username: str) -> tuple[UnknownOutcome, ...]:
    """What is unknown of the account that a Mysis plays as, the oldest first."""
    rows = UnknownOutcome.objects.filter(mysis=mysis_id, username=username)
    return tuple(rows.order_by("pk"))


def append_stale_events(
    mysis_id: int, username: str, touched: Iterable[TouchedSnapshot]
) -> None:
    """Append a ``snapshot.stale`` event for each snapshot that was marked."""
    events.append_all([build_stale_event(mysis_id, username, one) for one in touched])


def build_stale_event(
    mysis_id: int, username: str, touched: TouchedSnapshot
) -> tuple[events.Kind, int, dict[str, Any]]:
    """The line of the event log for a snapshot that is to be believed less."""
    data = {
        "account": username,
        "tool": touched.tool,
        "args": dict(touched.args),
        "fields": list(touched.mark.fields),
        "reason": touched.mark.reason,
        "tick": touched.mark.tick,
        "causes": _list_causes(touched),
        "confidence": str(touched.confidence),
    }
    return events.Kind.SNAPSHOT_STALE, mysis_id, data


def _list_causes(touched: TouchedSnapshot) -> list[dict[str, Any]]:
    """Which action touched which fields, the newest first; none for what grew old."""
    if touched.confidence is not Confidence.INVALIDATED:
        return []
    return [
        {"tool": one.reason, "tick": one.tick, "fields": list(one.fields)}
        for one in reversed(touched.mark.parts)
    ]


@transaction.atomic
def lose_events(mysis_id: int, username: str, why: str = LOST_EVENTS) -> None:
    """Doubt what lost notifications may have changed: the game gave them away."""
    append_stale_events(mysis_id, username, writes.mark_lost_events(username, why))


@transaction.atomic
def play_as(mysis_id: int, card: ActiveAccount, session: str) -> ActiveAccount:
    """Play as an account after its login, and doubt what its older session was to hear.

    Events wait in that session's own queue, which nobody asks for any more.
    """
    played = accounts.play_as(mysis_id, card, session)
    lose_events(mysis_id, card.username, LOST_SESSION)
    return played


def _clipped(text: str, most: int = LONGEST_VALUE) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
