"""The table of an account's snapshots, and a snapshot in full by its handle.

A row is the "State row" of SURFACES.md section 6: age, confidence and why. The handle
``state://get_map?system_id=sol`` names a tool and the arguments of its call; without
any it is the call that had none, else the newest. ``#raw`` asks for the answer as it
came, before events were merged into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from urllib.parse import parse_qsl, quote, unquote, urlencode

from memory.gamestate.clock import count_seconds
from memory.gamestate.confidence import (
    LOGGED_OUT,
    Confidence,
    Judge,
    count_age_in_ticks,
    find_cause,
    list_causes,
)
from memory.gamestate.extract import build_args_key
from memory.gamestate.types import AccountState, Moment, Snapshot, Stale
from memory.gamestate.values import format_line, unwrap_content

MAX_FIELDS = 200


@dataclass(frozen=True, slots=True)
class StateRow:
    """One snapshot in the table.

    ``reason`` is the action that made it untrue, or why it is stale, else None.
    ``fields`` are its JSON paths: two keys deep, and those marked or merged.
    ``causes`` are all actions and events that put something of it in doubt, the newest
    first, ``field_causes`` the newest that touched each doubted path.
    """

    tool: str
    args: Mapping[str, object]
    confidence: Confidence
    age_ticks: int | None
    age_seconds: float
    reason: str | None
    tick: int | None
    captured_at: datetime
    fields: Mapping[str, Confidence]
    causes: tuple[Stale, ...] = ()
    field_causes: Mapping[str, Stale] = field(default_factory=dict)


def build_rows(state: AccountState) -> tuple[StateRow, ...]:
    """A row for each snapshot, in the order given; none where nobody is logged in."""
    if state.username is None:
        return ()
    return tuple(_make_row(snapshot, state.moment) for snapshot in state.snapshots)


def _make_row(snapshot: Snapshot, moment: Moment) -> StateRow:
    age = count_age_in_ticks(snapshot, moment)
    judge = Judge(snapshot, moment)
    found = judge.judge()
    paths = tuple(islice(dict.fromkeys(_paths(judge)), MAX_FIELDS))
    return StateRow(
        tool=snapshot.tool,
        args=snapshot.args,
        confidence=found,
        age_ticks=age,
        age_seconds=max(0.0, count_seconds(snapshot.captured_at, moment.now)),
        reason=_reason(snapshot, found, age),
        tick=snapshot.tick,
        captured_at=snapshot.captured_at,
        fields={path: judge.judge(path) for path in paths},
        causes=list_causes(snapshot, judge.marked),
        field_causes={
            path: cause
            for path in paths
            if (cause := find_cause(snapshot, [path], judge.marked))
        },
    )


def _reason(snapshot: Snapshot, found: Confidence, age: int | None) -> str | None:
    if snapshot.stale is not None and found is Confidence.INVALIDATED:
        return snapshot.stale.reason
    if snapshot.logged_out:
        return LOGGED_OUT
    return f"{age} ticks old" if found is Confidence.STALE else None


def _paths(judge: Judge) -> Iterator[str]:
    """What was marked or merged first, then the content's own keys."""
    yield from judge.marked or ()
    yield from judge.snapshot.field_ticks
    content = unwrap_content(judge.snapshot.current)
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        yield str(key)
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)


# --- Handles

SCHEME = "state://"
RAW = "#raw"
_LONGEST = 2_000
_FORM = "Give a handle such as state://get_ship, or state://get_map?system_id=sol."


def name_handles(snapshots: Iterable[Snapshot]) -> dict[str, str]:
    """The handles of snapshots, by which `recall_content` finds them, by tool and query."""
    names = sorted(_spell_call(each) for each in snapshots)
    return {name: f"{SCHEME}{name}" for name in names}


def _spell_call(snapshot: Snapshot) -> str:
    args = {key: _to_text(value) for key, value in snapshot.args.items()}
    return f"{quote(snapshot.tool)}{f'?{urlencode(args)}' if args else ''}"


def recall_content(snapshots: Iterable[Snapshot], handle: str) -> str:
    """The content that a handle names: JSON with two spaces, or the text it came as.

    Raises ValueError with the right form for a handle of another form, LookupError that
    says which snapshots exist where it names none of them.
    """
    body = handle.strip()
    if not body.startswith(SCHEME) or len(body) > _LONGEST:
        raise ValueError(_FORM)
    call = body.removeprefix(SCHEME)
    name, _, query = call.removesuffix(RAW).partition("?")
    tool = unquote(name).strip("/ ")
    if not tool:
        raise ValueError(_FORM)
    found = _pick_snapshot(snapshots, tool, _arguments(query))
    content = found.content if call.endswith(RAW) else found.current
    if isinstance(content, str):
        return content
    return json.dumps(content, ensure_ascii=False, indent=2)


def _arguments(query: str) -> dict[str, object]:
    text = unquote(query).strip()
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(_FORM) from None
        return {str(key): item for key, item in value.items()}
    return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=20))


def _pick_snapshot(
    snapshots: Iterable[Snapshot], tool: str, args: dict[str, object]
) -> Snapshot:
    known = list(snapshots)
    same = [each for each in known if each.tool == tool]
    same.sort(key=lambda each: (bool(each.args), -each.captured_at.timestamp()))
    if args:
        same = [each for each in same if _has_arguments(each, args)]
    if same:
        return same[0]
    names = sorted({format_line(each.tool, 40) for each in known})
    there = f"Kept are: {', '.join(names[:30])}." if names else "Nothing is kept yet."
    what = f"No answer of {format_line(tool, 40)} is kept for this account."
    raise LookupError(f"{what} {there}")


def _has_arguments(snapshot: Snapshot, args: dict[str, object]) -> bool:
    if build_args_key(snapshot.args) == build_args_key(args):
        return True
    # In a handle's query everything is text.
    return {k: _to_text(v) for k, v in snapshot.args.items()} == {
        k: _to_text(v) for k, v in args.items()
    }


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
