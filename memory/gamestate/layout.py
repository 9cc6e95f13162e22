"""Sections as lines, and the byte budget that they share (GAME_STATE.md section 3).

Whatever must go goes by whole lines, or by whole items of a list in a line, from
the largest section first; a line is never cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memory.gamestate.clock import round_down
from memory.gamestate.types import AccountState, Happening
from memory.gamestate.values import line

LIST_LIMITS = (12, 6, 3, 1)
"""How many items of a list are shown, step by step."""

NOTES_SHARE = 0.3
"""The part of the budget that the closing lines may take while sections shrink."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the summary, and the facts that it shows, by their key.

    ``rough`` is the text with its age rounded down; empty where it names no age.
    """

    text: str
    facts: tuple[tuple[str, str], ...] = ()
    rough: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A fact ready to be written: its line, its list and the lines below it.

    ``after`` is said at the end of the line: what it was before, and what made it
    untrue.
    """

    start: str
    items: tuple[str, ...] = ()
    children: tuple[Line, ...] = ()
    after: str = ""
    mark: str = ""
    facts: tuple[tuple[str, str], ...] = ()

    def lines(self, limit: int, *, marked: bool) -> list[Line]:
        """The entry with at most ``limit`` items of each of its lists."""
        text = f"- {self.start}{listed(self.items, limit)}{self.after}"
        first = Line(text + self.mark if marked else text, self.facts)
        below = list(self.children[:limit])
        more = len(self.children) - len(below)
        if more > 0:
            below.append(Line(f"  - and {more} more"))
        return [first, *below]


def listed(items: Sequence[str], limit: int) -> str:
    """``a, b and 3 more``."""
    if not items:
        return ""
    shown = ", ".join(items[:limit])
    more = len(items) - limit
    return f"{shown} and {more} more" if more > 0 else shown


@dataclass(slots=True)
class Section:
    """A snapshot's part of the summary; ``rough`` is the heading with a rough age.

    ``whole`` is the mark that all its entries share; when room gets short it is
    said once in the heading. ``untrue`` says that an action changed something that
    the section shows. ``recall`` says how to get what was left out.
    """

    heading: str
    rough: str
    entries: list[Entry]
    recall: str = ""
    whole: str = ""
    folded: bool = False
    untrue: bool = False
    step: int = 0
    kept: int = field(default=-1)

    def __post_init__(self) -> None:
        if self.kept < 0:
            self.kept = len(self.entries)

    def lines(self) -> list[Line]:
        """The section as it stands now."""
        end = f", {self.whole})" if self.folded else ")"
        lines = [Line(f"### {self.heading}{end}", rough=f"### {self.rough}{end}")]
        for entry in self.entries[: self.kept]:
            lines += entry.lines(LIST_LIMITS[self.step], marked=not self.folded)
        left_out = len(self.entries) - self.kept
        if left_out and self.kept:
            lines.append(Line(f"- {left_out} more: {self.recall}"))
        return lines

    def shrink(self) -> bool:
        """One step shorter; False when only the heading is left."""
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
        """The next limit that shortens a list which is still shown."""
        longest = max(
            (max(len(e.items), len(e.children)) for e in self.entries[: self.kept]),
            default=0,
        )
        steps = range(self.step + 1, len(LIST_LIMITS))
        return next((s for s in steps if LIST_LIMITS[s] < longest), None)


@dataclass(slots=True)
class Notes:
    """The closing lines: what to call, and one line per stale snapshot.

    Where these take too much room, the last of them are joined into one.
    ``unlisted`` snapshots have no section.
    """

    note: str
    stale: list[tuple[str, Line]]
    unlisted: int = 0
    shown: int = 12

    def lines(self) -> list[Line]:
        """The notes as they stand now; ``stale`` is (what, whole line)."""
        lines = [Line(self.note)] if self.note else []
        lines += [warning for _, warning in self.stale[: self.shown]]
        rest = [what for what, _ in self.stale[self.shown :]]
        if rest:
            lines.append(Line(f"**Stale data:** also {listed(rest, 6)}."))
        if self.unlisted:
            lines.append(Line(f"**Also cached:** {self.unlisted} more snapshots."))
        return lines

    def shrink(self) -> bool:
        """Half as many single lines; False when they are one already."""
        if self.shown == 0 or len(self.stale) <= 1:
            return False
        self.shown = min(self.shown, len(self.stale)) // 2
        return True


def size(lines: Sequence[Line]) -> int:
    """Bytes of some lines as written, with their line ends."""
    return sum(len(line.text.encode()) + 1 for line in lines)


def fit(
    header: list[Line], sections: list[Section], notes: Notes, max_bytes: int
) -> list[Line]:
    """All lines within ``max_bytes``, the largest sections shortened first."""
    room = max_bytes + 1 - size(header) - len(sections) - 1
    closing = size(notes.lines())
    # The warnings matter most: they give way only beyond their share.
    while closing > max_bytes * NOTES_SHARE and notes.shrink():
        closing = size(notes.lines())
    _shorten(sections, room - closing)
    return _joined(header, sections, notes, max_bytes)


def _shorten(sections: list[Section], room: int) -> None:
    sizes = [size(section.lines()) for section in sections]
    shrinkable = set(range(len(sections)))
    while sum(sizes) > room and shrinkable:
        largest = max(shrinkable, key=lambda index: (sizes[index], index))
        if sections[largest].shrink():
            sizes[largest] = size(sections[largest].lines())
        else:
            shrinkable.discard(largest)


def _joined(
    header: list[Line], sections: list[Section], notes: Notes, max_bytes: int
) -> list[Line]:
    """Everything with blank lines between; what still is too much goes at the end."""
    unlisted = notes.unlisted
    for count in range(len(sections), -1, -1):
        lines = list(header)
        for section in sections[:count]:
            lines += [Line(""), *section.lines()]
        notes.unlisted = unlisted + len(sections) - count
        lines += [Line(""), *notes.lines()]
        if size(lines) <= max_bytes + 1:
            return lines
    return _leading([*header, Line(""), *notes.lines()], max_bytes)


def _leading(lines: list[Line], max_bytes: int) -> list[Line]:
    """As many lines from the start as fit, without a blank one at the end."""
    while lines and (size(lines) > max_bytes + 1 or not lines[-1].text):
        lines.pop()
    return lines


# SECTION What the game told of late, as a section of the state block.
#
# Events are read once and then gone from the game's queue. Where the program fetches
# them itself, this is where the agent hears of them; all are kept, and merged into the
# facts above.

MOST = 6
"""How many of the newest events are shown."""

RECENT_TICKS = 20
"""Older ones are history: search and the facts tell of them."""

TOOL = "get_notifications"
MOST_VALUES = 4
LONGEST = 40


def happenings(state: AccountState) -> Section | None:
    """The newest events, oldest of them first; None where there are none of late."""
    found = [each for each in state.events if _is_recent(each, state)][-MOST:]
    if not found:
        return None
    age, rough = _ages(found[-1], state)
    return Section(
        f"Events ({TOOL} - {age}",
        f"Events ({TOOL} - {rough}",
        [Entry(_told(each)) for each in found],
        recall=TOOL,
    )


def _is_recent(event: Happening, state: AccountState) -> bool:
    if event.tick is None or state.current_tick is None:
        return True
    return state.current_tick - event.tick <= RECENT_TICKS


def _ages(event: Happening, state: AccountState) -> tuple[str, str]:
    """How long ago it was, exactly and roughly."""
    if event.tick is None or state.current_tick is None:
        return "of late", "of late"
    ticks = state.current_tick - event.tick
    if ticks <= 0:
        return "just now", "just now"
    return f"{ticks} ticks ago", f"{round_down(ticks)} ticks ago"


def _told(event: Happening) -> str:
    when = "" if event.tick is None else f" at tick {event.tick}"
    values = list(_values(event.data))[:MOST_VALUES]
    said = f": {', '.join(values)}" if values else ""
    return f"{line(event.kind, LONGEST)}{when}{said}"


def _values(data: Mapping[str, object]) -> Iterator[str]:
    """The plain values; an id gives way to the name that stands beside it."""
    for key, value in data.items():
        stem = key.removesuffix("_id")
        if key == "id" or (stem != key and (f"{stem}_name" in data or stem in data)):
            continue
        shown = line(value, LONGEST)
        if shown:
            yield f"{line(key.replace('_', ' '), LONGEST)} {shown}"
