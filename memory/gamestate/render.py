"""The state block: what an agent is told of its account (G3, G8).

Made anew whenever it is sent, so that ages are true at that moment. It says how
old each part is, what the agent's own actions made untrue, what changed since it
was last shown, and which tool brings the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memory.gamestate.blocks import (
    OWNER,
    Scene,
    before,
    call_of,
    key_of,
    remedy,
    section,
)
from memory.gamestate.confidence import LOGGED_OUT, Confidence, grade, stale_paths
from memory.gamestate.layout import Line, Notes, fit, happenings, size
from memory.gamestate.types import AccountState, Snapshot
from memory.gamestate.values import empire, first, line, primary

MAX_BYTES = 2048
MAX_SECTIONS = 40
NOT_LOGGED_IN = "Not logged in. Use register or login."
TITLE = "## Current Game State"
NOTE = "**Note:** Call get_notifications to see events since last update."
FETCHED = (
    "**Note:** Events are fetched for you at the start of each turn and merged above; "
    "call get_notifications for one that you miss."
)


@dataclass(frozen=True, slots=True)
class Rendered:
    """The block, the values it shows, and how many snapshots came from the future.

    ``rough`` is the block with its ages rounded down to powers of two. ``facts`` go
    into `AccountState.last_shown` of the next time.
    """

    text: str
    rough: str
    facts: Mapping[str, str] = field(default_factory=dict)
    tick_skew: int = 0


def render(state: AccountState, max_bytes: int = MAX_BYTES) -> Rendered:
    """The state block of an account in at most ``max_bytes`` bytes of UTF-8."""
    if state.username is None:
        lines = [Line(NOT_LOGGED_IN)]
        text = NOT_LOGGED_IN if size(lines) <= max_bytes + 1 else ""
        return Rendered(text, text)
    scene = Scene.of(state)
    unlisted = scene.ordered[MAX_SECTIONS:]
    sections = [section(scene, each) for each in scene.ordered[:MAX_SECTIONS]]
    untrue = [each.untrue for each in sections]
    untrue += [stale_paths(each) is None for each in unlisted]
    told = happenings(state)
    sections += [told] if told else []
    notes = Notes(
        FETCHED if state.fetched else NOTE, _stale_lines(scene, untrue), len(unlisted)
    )
    lines = fit(_header(scene), sections, notes, max_bytes)
    return Rendered(
        "\n".join(each.text for each in lines),
        "\n".join(each.rough or each.text for each in lines),
        _facts(scene, lines),
        sum(scene.age(snapshot).skew for snapshot in state.snapshots),
    )


def _header(scene: Scene) -> list[Line]:
    known = scene.plain("get_status")
    ruler = first(primary(known.current) if known else None, "player.empire", "empire")
    name = line(scene.state.username) or "unknown"
    suffix = f" ({empire(ruler)})" if empire(ruler) else ""
    ages = [scene.age(snapshot) for snapshot in scene.ordered]
    newest = min(
        ages,
        key=lambda age: (age.ticks is None, age.ticks or 0, age.seconds),
        default=None,
    )
    never = "never; call get_status"
    return [
        Line(TITLE),
        Line(""),
        Line(f"**Account:** {name}{suffix}"),
        Line(
            f"**Last Updated:** {newest.long if newest else never}",
            rough=f"**Last Updated:** {newest.rough if newest else never}",
        ),
    ]


def _stale_lines(scene: Scene, untrue: list[bool]) -> list[tuple[str, Line]]:
    """(call, line) for every snapshot that shows something not true any more."""
    lines = zip(scene.ordered, untrue, strict=True)
    found = [(each, _stale_line(scene, each, changed)) for each, changed in lines]
    return [(call_of(each), warning) for each, warning in found if warning]


def _stale_line(scene: Scene, snapshot: Snapshot, untrue: bool) -> Line | None:
    call, tool = f"**Stale data:** {call_of(snapshot)}", line(snapshot.tool, 40)
    if snapshot.logged_out:
        return Line(f"{call} was {LOGGED_OUT} - call {tool}.")
    if untrue:
        whole = stale_paths(snapshot) is None
        parts = f"**Stale data:** parts of {call_of(snapshot)} are"
        what = f"{call} is" if whole else parts
        return Line(f"{what} from {before(snapshot)} - {remedy(scene, snapshot)}.")
    if grade(snapshot, scene.moment) is not Confidence.STALE:
        return None
    age = scene.age(snapshot)
    old = f"{age.ticks} ticks old" if age.ticks else f"from {age.short}"
    far = "consider refreshing if planning long journey"
    advice = far if snapshot.tool == "get_map" else f"call {tool}"
    return Line(
        f"{call} is {old} - {advice}.", rough=f"{call} is {age.rough} - {advice}."
    )


def _facts(scene: Scene, lines: list[Line]) -> dict[str, str]:
    """The values shown now, over those of snapshots that found no room this time."""
    alive = {key_of(snapshot) for snapshot in scene.state.snapshots}
    shown = {key: value for each in lines for key, value in each.facts}
    sections = {key.split("/", 1)[0] for key in shown}
    kept = {
        key: value
        for key, value in scene.was.items()
        if (section := key.split("/", 1)[0]) in alive and section not in sections
    }
    return {**kept, **shown, OWNER: scene.state.username or ""}
