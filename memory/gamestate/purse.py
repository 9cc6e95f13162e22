"""What changed the credits of an account: which events, or which doubt a read ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from memory.gamestate.draft import Draft
from memory.gamestate.effects import CREDITS, LOSSES
from memory.gamestate.extract import CREDITS_TOOL
from memory.gamestate.invalidation import SEPARATOR
from memory.gamestate.merge import arrange_events
from memory.gamestate.notices import Notice
from memory.gamestate.reactions import Owner, apply_event, find_outcome
from memory.gamestate.types import Stale
from memory.gamestate.values import is_number, paths_overlap

_PATH = CREDITS[0]
# Events that pay for an action without being its outcome.
_PAID_FOR: Mapping[str, tuple[str, ...]] = {
    "pirate_destroyed": ("attack", "hunt", "battle"),
    "trade_complete": ("trade_offer", "trade_accept"),
}


class Share(NamedTuple):
    """A part of a change, one of ``actions`` brought it; none: no own action did.

    The action was called before ``until``, None where nothing tells; ``untold``: after
    the change before.
    """

    amount: int
    actions: tuple[str, ...] = ()
    until: datetime | None = None
    untold: bool = False


def share_change(
    before: int, after: int, events: Iterable[Notice], username: str
) -> list[Share]:
    """A change by events in parts, which come to the whole of it."""
    draft = Draft(CREDITS_TOOL, {"player": {"credits": before}})
    shares: list[Share] = []
    for event in arrange_events(events):
        known = draft.get(_PATH)
        apply_event(draft, event, Owner(username))
        now = draft.get(_PATH)
        if is_number(known) and is_number(now) and now != known:
            until = event.at and event.at + timedelta(seconds=event.slack)
            shares.append(Share(int(now - known), _find_actions(event), until))
    if sum(share.amount for share in shares) == after - before:
        return shares
    # The events came to something else, such as with one that came too late.
    named = (action for share in shares for action in share.actions)
    return [Share(after - before, tuple(named))]


def _find_actions(event: Notice) -> tuple[str, ...]:
    command = find_outcome(event)
    return (command,) if command else _PAID_FOR.get(event.kind, ())


def find_doubter(mark: Stale | None) -> tuple[str, ...]:
    """What had put the credits in doubt that a read told, none where nothing had.

    The newest action or event: of what older ones did a change was told before. That
    events were lost is no cause itself.
    """
    named = [
        cause.reason
        for cause in (mark.parts if mark else ())
        if cause.reason not in LOSSES
        and (
            not cause.fields
            or any(paths_overlap(path, own) for path in cause.fields for own in CREDITS)
        )
    ]
    return tuple(named[-1].split(SEPARATOR)) if named else ()
