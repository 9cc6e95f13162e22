"""The state block: what an agent is told of its account (G3, G8).

It is rendered each time it is sent, so that its ages are true at that moment. It says
how old each part is, what the agent's own actions made untrue, what changed since it
was last shown, and which tool to call for the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memory.gamestate.clock import Recency, count_seconds, measure_recency
from memory.gamestate.confidence import (
    LOGGED_OUT,
    Confidence,
    find_cause,
    find_stale_paths,
    judge_age,
    may_have_recharged,
)
from memory.gamestate.effects import LOCATION_TOOL, TICK_TOOL
from memory.gamestate.extract import build_args_key
from memory.gamestate.facts import Fact, Names, View, collect_names
from memory.gamestate.invalidation import SEPARATOR
from memory.gamestate.layout import (
    Entry,
    Line,
    Notes,
    Section,
    build_events_section,
    count_bytes,
    fit_lines,
)
from memory.gamestate.sections import READERS, read_facts
from memory.gamestate.types import AccountState, Snapshot, Stale
from memory.gamestate.values import (
    find_first,
    format_empire,
    format_line,
    format_title,
    unwrap_content,
)

MAX_BYTES = 2048
_MAX_SECTIONS = 40
_MAX_FACTS = 25
NOT_LOGGED_IN = "Not logged in. Use register or login."
TITLE = "## Current Game State"
# Between a block and the text that it is joined to.
_BEFORE = "\n\n"
NOTE = "**Note:** Call get_notifications to see events since last update."
FETCHED = (
    "**Note:** Events are fetched for you at the start of each turn and merged above; "
    "call get_notifications for one that you miss."
)
# Said of a shield that was not full and may have grown by itself.
_RECHARGING = "recharging since"
# The key of the account's name among the facts last shown.
OWNER_KEY = "account"

_ORDER = {tool: place for place, tool in enumerate(READERS)}


@dataclass(frozen=True, slots=True)
class Rendered:
    """The block, the values it shows, and how many snapshots came from the future.

    ``rough`` is the block with its ages rounded down to powers of two. ``facts`` are
    the `AccountState.last_shown` of the next block.
    """

    text: str
    rough: str
    facts: Mapping[str, str] = field(default_factory=dict)
    tick_skew: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """A state with what all its sections share; `was` are the values last shown."""

    state: AccountState
    ordered: tuple[Snapshot, ...]
    names: Names
    was: Mapping[str, str]

    @classmethod
    def from_state(cls, state: AccountState) -> Scene:
        same = state.last_shown.get(OWNER_KEY) == state.username
        newest_first = sorted(
            state.snapshots,
            key=lambda s: (
                count_seconds(s.captured_at, state.moment.now),
                _snapshot_key(s),
            ),
        )
        # Curated sections in their order, the call without arguments first.
        ordered = sorted(
            newest_first, key=lambda s: (_ORDER.get(s.tool, len(_ORDER)), bool(s.args))
        )
        return cls(
            state,
            tuple(ordered),
            {**state.names, **collect_names(newest_first[::-1])},
            state.last_shown if same else {},
        )

    def age(self, snapshot: Snapshot) -> Recency:
        return measure_recency(snapshot, self.state.moment)

    def plain(self, tool: str) -> Snapshot | None:
        """The snapshot of a tool that was called without arguments."""
        found = (
            s for s in self.ordered if s.tool == tool and not build_args_key(s.args)
        )
        return next(found, None)


def split_state(text: str) -> tuple[str, str]:
    """A text of a view without the block at its end, and the block; either may be empty."""
    at = text.rfind(f"{_BEFORE}{TITLE}") + len(_BEFORE)
    if text.endswith(NOT_LOGGED_IN):
        at = len(text) - len(NOT_LOGGED_IN)
    elif at < len(_BEFORE):
        at = 0 if text.startswith(TITLE) else len(text)
    return text[:at].removesuffix(_BEFORE), text[at:]


def render_block(state: AccountState, max_bytes: int = MAX_BYTES) -> Rendered:
    """The state block of an account in at most ``max_bytes`` bytes of UTF-8."""
    if state.username is None:
        lines = [Line(NOT_LOGGED_IN)]
        text = NOT_LOGGED_IN if count_bytes(lines) <= max_bytes + 1 else ""
        return Rendered(text, text)
    scene = Scene.from_state(state)
    unlisted = scene.ordered[_MAX_SECTIONS:]
    sections = [_build_section(scene, each) for each in scene.ordered[:_MAX_SECTIONS]]
    causes = [each.cause for each in sections]
    causes += [s.stale if find_stale_paths(s) is None else None for s in unlisted]
    told = build_events_section(state)
    sections += [told] if told else []
    stale = [
        (_format_call(each), warning)
        for each, cause in zip(scene.ordered, causes, strict=True)
        if (warning := _stale_line(scene, each, cause))
    ]
    notes = Notes(FETCHED if state.fetched else NOTE, stale, len(unlisted))
    lines = fit_lines(_header(scene), sections, notes, max_bytes)
    return Rendered(
        "\n".join(each.text for each in lines),
        "\n".join(each.rough or each.text for each in lines),
        _facts(scene, lines),
        sum(scene.age(snapshot).skew for snapshot in state.snapshots),
    )


def _header(scene: Scene) -> list[Line]:
    known = scene.plain("get_status")
    content = unwrap_content(known.current) if known else None
    ruler = format_empire(find_first(content, "player.empire", "empire"))
    name = format_line(scene.state.username) or "unknown"
    suffix = f" ({ruler})" if ruler else ""
    ages = [scene.age(snapshot) for snapshot in scene.ordered]
    ages.sort(key=lambda age: (age.ticks is None, age.ticks or 0, age.seconds))
    never = "never; call get_status"
    updated, rough = (ages[0].long, ages[0].rough) if ages else (never, never)
    return [
        Line(TITLE),
        Line(""),
        Line(f"**Account:** {name}{suffix}"),
        Line(f"**Last Updated:** {updated}", rough=f"**Last Updated:** {rough}"),
    ]


def _stale_line(scene: Scene, snapshot: Snapshot, cause: Stale | None) -> Line | None:
    start, tool = "**Stale data:**", format_line(snapshot.tool, 40)
    call = f"{start} {_format_call(snapshot)}"
    if snapshot.logged_out:
        return Line(f"{call} was {LOGGED_OUT} - call {tool}.")
    if cause:
        whole = find_stale_paths(snapshot) is None
        parts = f"{start} parts of {_format_call(snapshot)} are"
        what = f"{call} is" if whole else parts
        since, cure = describe_cause(cause), _describe_remedy(scene, snapshot, cause)
        return Line(f"{what} from {since} - {cure}.")
    if judge_age(snapshot, scene.state.moment) is not Confidence.STALE:
        return None
    age = scene.age(snapshot)
    old = f"{age.ticks} ticks old" if age.ticks else f"from {age.short}"
    far = "consider refreshing if planning long journey"
    advice = far if snapshot.tool == "get_map" else f"call {tool}"
    return Line(
        f"{call} is {old} - {advice}.", rough=f"{call} is {age.rough} - {advice}."
    )


def _facts(scene: Scene, lines: list[Line]) -> dict[str, str]:
    """The values shown now, and the last ones of snapshots that had no room now."""
    alive = {_snapshot_key(snapshot) for snapshot in scene.state.snapshots}
    shown = {key: value for each in lines for key, value in each.facts}
    sections = {key.split("/", 1)[0] for key in shown}
    kept = {
        key: value
        for key, value in scene.was.items()
        if (start := key.split("/", 1)[0]) in alive and start not in sections
    }
    return {**kept, **shown, OWNER_KEY: scene.state.username or ""}


# --- One snapshot as a section


def _build_section(scene: Scene, snapshot: Snapshot) -> Section:
    content = unwrap_content(snapshot.current)
    view = View(
        content if isinstance(content, Mapping) else {},
        scene.names,
        ship_elsewhere=_ship_elsewhere(scene, snapshot),
        cargo_elsewhere=_at_least_as_good(scene, scene.plain("get_cargo"), snapshot),
    )
    facts = read_facts(snapshot.tool, view, content)[:_MAX_FACTS]
    curated = READERS.get(snapshot.tool)
    heading = curated[0] if curated else format_title(snapshot.tool)
    age, end = scene.age(snapshot), f", {LOGGED_OUT}" if snapshot.logged_out else ""
    start = f"{heading} ({_format_call(snapshot)} - "
    marked = find_stale_paths(snapshot)
    causes = [find_cause(snapshot, fact.paths, marked) for fact in facts]
    entries = [
        _entry(scene, snapshot, fact, cause)
        for fact, cause in zip(facts, causes, strict=True)
    ]
    whole = marked is None
    return Section(
        heading=f"{start}{age.short}{end}",
        rough=f"{start}{age.rough}{end}",
        entries=entries,
        recall=f'zoea_recall("state://{format_line(snapshot.tool, 40)}")',
        whole=_describe_mark(scene, snapshot, _find_whole(snapshot)) if whole else "",
        folded=whole and not any(entry.mark for entry in entries),
        cause=_choose_newest(snapshot, causes) or (snapshot.stale if whole else None),
    )


def _find_whole(snapshot: Snapshot) -> Stale | None:
    """What touches all of a snapshot, the newest of several; for one line of all facts."""
    parts = snapshot.stale.parts if snapshot.stale else ()
    return next((p for p in reversed(parts) if not p.fields), snapshot.stale)


def _choose_newest(snapshot: Snapshot, causes: list[Stale | None]) -> Stale | None:
    """The newest of what made facts untrue, by its place among the snapshot's causes."""
    parts = snapshot.stale.parts if snapshot.stale else ()
    known = next((part for part in reversed(parts) if part in causes), None)
    return known or next(filter(None, causes), None)


def _ship_elsewhere(scene: Scene, snapshot: Snapshot) -> bool:
    if snapshot.tool == "get_status":
        ship = scene.plain("get_ship")
        return _has_ship(ship) and _at_least_as_good(scene, ship, snapshot)
    if snapshot.tool == "get_ship":
        status = scene.plain("get_status")
        return _has_ship(status) and not _at_least_as_good(scene, snapshot, status)
    return False


def _has_ship(snapshot: Snapshot | None) -> bool:
    if snapshot is None:
        return False
    paths = ("ship.hull", "hull") if snapshot.tool == "get_ship" else ("ship.hull",)
    return find_first(unwrap_content(snapshot.current), *paths) is not None


def _at_least_as_good(
    scene: Scene, one: Snapshot | None, other: Snapshot | None
) -> bool:
    if one is None or other is None:
        return one is not None
    if one.tick is None or other.tick is None:
        return scene.age(one).seconds <= scene.age(other).seconds
    if one.tick != other.tick:
        return one.tick > other.tick
    return one.stale is None or other.stale is not None


def _entry(scene: Scene, snapshot: Snapshot, fact: Fact, cause: Stale | None) -> Entry:
    key = f"{_snapshot_key(snapshot)}/{fact.label}"
    start = f"{fact.label}: {fact.value}" if fact.label else fact.value
    if fact.items:
        start = f"{start} (" if fact.value else start
    was = _format_was(scene, key, fact.value)
    children = tuple(_child(scene, key, fact.between, *c) for c in fact.children)
    return Entry(
        start=start.rstrip() if not fact.items else start,
        items=fact.items,
        children=children,
        after=(")" if fact.items and fact.value else "") + was,
        mark=f" ({_describe_mark(scene, snapshot, cause)})"
        if cause
        else _describe_doubt(scene, snapshot, fact),
        facts=((key, fact.value),) if fact.label and fact.value else (),
    )


def _child(scene: Scene, parent: str, between: str, what: str, amount: str) -> Line:
    if not amount:
        return Line(f"  - {what}")
    key = f"{parent}/{what}"
    return Line(
        f"  - {what}{between}{amount}{_format_was(scene, key, amount)}",
        ((key, amount),),
    )


def _describe_doubt(scene: Scene, snapshot: Snapshot, fact: Fact) -> str:
    """What stands behind a fact that holds and is not simply as old as its section."""
    ticks = snapshot.field_ticks
    merged = [ticks[path] for path in fact.paths if path in ticks]
    said = [f"from an event at tick {max(merged)}"] if merged else []
    moment = scene.state.moment
    if any(may_have_recharged(snapshot, moment, path) for path in fact.paths):
        said.append(_RECHARGING)
    return f" ({', '.join(said)})" if said else ""


def _describe_mark(scene: Scene, snapshot: Snapshot, cause: Stale | None) -> str:
    return f"{describe_cause(cause)}; {_describe_remedy(scene, snapshot, cause)}"


def _describe_remedy(scene: Scene, snapshot: Snapshot, mark: Stale | None) -> str:
    """Which tool to call for the truth; another first while a flight may go on."""
    now = scene.state.moment.current_tick
    flown = mark and scene.state.unsettled.intersection(mark.reason.split(SEPARATOR))
    if flown and snapshot.tool != LOCATION_TOOL:
        return f"call {LOCATION_TOOL}, then {format_line(snapshot.tool, 40)}"
    if _awaits_game_tick(scene, snapshot):
        return f"call {TICK_TOOL}, then {format_line(snapshot.tool, 40)}"
    pending = mark and mark.tick is not None and now is not None and mark.tick > now
    return f"call {format_line(snapshot.tool, 40)}{' then' if pending else ''}"


def _awaits_game_tick(scene: Scene, snapshot: Snapshot) -> bool:
    """Whether an action was over, by our clock alone, before this was asked for."""
    now, asked = scene.state.moment.current_tick, snapshot.asked_at
    return any(
        mark.tick is not None
        and (now is not None and mark.tick <= now)
        and (mark.done is not None and asked is not None and mark.done < asked)
        for mark in snapshot.marks
    )


def _format_was(scene: Scene, key: str, value: str) -> str:
    """`` (was 72)`` where the value differs from the one last shown."""
    shown = scene.was.get(key)
    if shown is None or shown == value or not value:
        return ""
    number, slash, limit = shown.partition("/")
    same_limit = slash and value.endswith(f"/{limit}")
    return f" (was {format_line(number if same_limit else shown)})"


def describe_cause(mark: Stale | None) -> str:
    """What made a fact untrue: ``before buy at tick 104``."""
    if mark is None:
        return ""
    at = "" if mark.tick is None else f" at tick {mark.tick}"
    return f"before {format_line(mark.reason, 40) or 'an action'}{at}"


def _format_call(snapshot: Snapshot) -> str:
    tool = format_line(snapshot.tool, 40)
    if not snapshot.args:
        return tool
    values = ", ".join(
        f"{format_line(str(key), 20)}="
        + ("..." if isinstance(value, (Mapping, list)) else format_line(value, 30))
        for key, value in list(snapshot.args.items())[:3]
    )
    return f"{tool} {format_line(values, 60)}"


def _snapshot_key(snapshot: Snapshot) -> str:
    return f"{snapshot.tool}{build_args_key(snapshot.args)}"
