"""The lines of the state block, and the bytes that they share (GAME_STATE.md 3).

What does not fit is left out by whole lines, or by whole items of a list in a line,
from the largest section first; a line is never cut. The newest events are a section
of their own: the agent hears of them there when the program fetches them itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memory.gamestate.clock import round_down
from memory.gamestate.types import AccountState, Happening, Stale
from memory.gamestate.values import format_line

# How many items of a list are shown, step by step.
LIST_LIMITS = (12, 6, 3, 1)
# The share of the bytes that the closing lines may take before they shrink.
NOTES_SHARE = 0.3
MOST_EVENTS = 6
# Older events are not shown: search and the facts tell of them.
RECENT_TICKS = 20
_EVENT_TOOL = "get_notifications"
_MOST_VALUES = 4
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Line:
    """One line and the facts it shows; ``rough`` has its age, if any, rounded down."""

    text: str
    facts: tuple[tuple[str, str], ...] = ()
    rough: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A fact ready to be written: its line, the list in it and the lines below it.

    The line ends with ``after``, such as the last value, and with ``mark``, a doubt.
    """

    start: str
    items: tuple[str, ...] = ()
    children: tuple[Line, ...] = ()
    after: str = ""
    mark: str = ""
    facts: tuple[tuple[str, str], ...] = ()

    def lines(self, limit: int, *, marked: bool) -> list[Line]:
        """The entry with at most ``limit`` items of each list; ``marked`` with its doubt."""
        text = f"- {self.start}{join_items(self.items, limit)}{self.after}"
        first = Line(text + self.mark if marked else text, self.facts)
        below = list(self.children[:limit])
        more = len(self.children) - len(below)
        if more > 0:
            below.append(Line(f"  - and {more} more"))
        return [first, *below]


def join_items(items: Sequence[str], limit: int) -> str:
    """``a, b and 3 more``."""
    if not items:
        return ""
    shown = ", ".join(items[:limit])
    more = len(items) - limit
    return f"{shown} and {more} more" if more > 0 else shown


@dataclass(slots=True)
class Section:
    """A snapshot's part of the block, with ``step`` and ``kept`` as it shrinks.

    ``rough`` is the heading with its age rounded down. ``whole`` is the mark that all
    its entries share; when ``folded`` it stands once, in the heading. ``cause`` is the
    newest action that changed something that the section shows, ``recall`` how to get
    what was left out.
    """

    heading: str
    rough: str
    entries: list[Entry]
    recall: str = ""
    whole: str = ""
    folded: bool = False
    cause: Stale | None = None
    step: int = 0
    kept: int = field(init=False)

    def __post_init__(self) -> None:
        self.kept = len(self.entries)

    def lines(self) -> list[Line]:
        end = f", {self.whole})" if self.folded else ")"
        lines = [Line(f"### {self.heading}{end}", rough=f"### {self.rough}{end}")]
        for entry in self.entries[: self.kept]:
            lines += entry.lines(LIST_LIMITS[self.step], marked=not self.folded)
        left_out = len(self.entries) - self.kept
        if left_out and self.kept:
            lines.append(Line(f"- {left_out} more: {self.recall}"))
        return lines

    def shrink(self) -> bool:
        """Make it one step shorter; False when only the heading is left."""
        if self.whole and not self.folded:
            self.folded = True
        elif (step := self._next_step()) is not None:
            self.step = step
        elif self.kept > 0:
            self.kept -= 1
        else:
            return False
        return True

    def _next_step(self) -> int | None:
        longest = max(
            (max(len(e.items), len(e.children)) for e in self.entries[: self.kept]),
            default=0,
        )
        steps = range(self.step + 1, len(LIST_LIMITS))
        return next((s for s in steps if LIST_LIMITS[s] < longest), None)


@dataclass(slots=True)
class Notes:
    """The closing lines: a note, one (call, line) per stale snapshot, and a count.

    Of the stale ones ``shown`` have their own line, the others share one.
    ``unlisted`` snapshots have no section.
    """

    note: str
    stale: list[tuple[str, Line]]
    unlisted: int = 0
    shown: int = 12

    def lines(self) -> list[Line]:
        lines = [Line(self.note)] if self.note else []
        lines += [warning for _, warning in self.stale[: self.shown]]
        rest = [what for what, _ in self.stale[self.shown :]]
        if rest:
            lines.append(Line(f"**Stale data:** also {join_items(rest, 6)}."))
        if self.unlisted:
            lines.append(Line(f"**Also cached:** {self.unlisted} more snapshots."))
        return lines

    def shrink(self) -> bool:
        """Halve the lines of stale snapshots; False when they share one already."""
        if self.shown == 0 or len(self.stale) <= 1:
            return False
        self.shown = min(self.shown, len(self.stale)) // 2
        return True


def count_bytes(lines: Sequence[Line]) -> int:
    """The bytes of lines, with their line ends."""
    return sum(len(line.text.encode()) + 1 for line in lines)


def fit_lines(
    header: list[Line], sections: list[Section], notes: Notes, max_bytes: int
) -> list[Line]:
    """All lines within ``max_bytes``, the largest sections shortened first."""
    room = max_bytes + 1 - count_bytes(header) - len(sections) - 1
    closing = count_bytes(notes.lines())
    # The warnings matter most: they give way only beyond their share.
    while closing > max_bytes * NOTES_SHARE and notes.shrink():
        closing = count_bytes(notes.lines())
    _shorten(sections, room - closing)
    return _join_lines(header, sections, notes, max_bytes)


def _shorten(sections: list[Section], room: int) -> None:
    sizes = [count_bytes(section.lines()) for section in sections]
    shrinkable = set(range(len(sections)))
    while sum(sizes) > room and shrinkable:
        largest = max(shrinkable, key=lambda index: (sizes[index], index))
        if sections[largest].shrink():
            sizes[largest] = count_bytes(sections[largest].lines())
        else:
            shrinkable.discard(largest)


def _join_lines(
    header: list[Line], sections: list[Section], notes: Notes, max_bytes: int
) -> list[Line]:
    """All lines with blank ones between; the last sections go if there is no room."""
    unlisted = notes.unlisted
    for count in range(len(sections), -1, -1):
        lines = list(header)
        for section in sections[:count]:
            lines += [Line(""), *section.lines()]
        notes.unlisted = unlisted + len(sections) - count
        lines += [Line(""), *notes.lines()]
        if count_bytes(lines) <= max_bytes + 1:
            return lines
    # Not even the notes fit: as many lines as do, without a blank one at the end.
    lines = [*header, Line(""), *notes.lines()]
    while lines and (count_bytes(lines) > max_bytes + 1 or not lines[-1].text):
        lines.pop()
    return lines


# --- Events


def build_events_section(state: AccountState) -> Section | None:
    """The newest recent events, the oldest of them first; None where there are none."""
    found = [
        each
        for each in state.events
        if (_ticks_since(each, state) or 0) <= RECENT_TICKS
    ][-MOST_EVENTS:]
    if not found:
        return None
    ticks, age, rough = _ticks_since(found[-1], state), "of late", "of late"
    if ticks is not None:
        age = "just now" if ticks <= 0 else f"{ticks} ticks ago"
        rough = age if ticks <= 0 else f"{round_down(ticks)} ticks ago"
    return Section(
        f"Events ({_EVENT_TOOL} - {age}",
        f"Events ({_EVENT_TOOL} - {rough}",
        [Entry(_describe_event(each)) for each in found],
        recall=_EVENT_TOOL,
    )


def _ticks_since(event: Happening, state: AccountState) -> int | None:
    current = state.moment.current_tick
    return None if event.tick is None or current is None else current - event.tick


def _describe_event(event: Happening) -> str:
    when = "" if event.tick is None else f" at tick {event.tick}"
    values = list(_values(event.data))[:_MOST_VALUES]
    said = f": {', '.join(values)}" if values else ""
    return f"{format_line(event.kind, _LONGEST)}{when}{said}"


def _values(data: Mapping[str, object]) -> Iterator[str]:
    """The plain values of an event; an id is left out where its name is there."""
    for key, value in data.items():
        stem = key.removesuffix("_id")
        if key == "id" or (stem != key and (f"{stem}_name" in data or stem in data)):
            continue
        shown = format_line(value, _LONGEST)
        if shown:
            yield f"{format_line(key.replace('_', ' '), _LONGEST)} {shown}"
