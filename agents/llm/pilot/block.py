"""The state block, read line by line as a model would read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agents.llm.pilot.transcript import NOT_LOGGED_IN

_ACCOUNT = re.compile(r"\*\*Account:\*\*\s*(.+?)(?:\s+\([^()]*\))?\s*$")
_HEADING = re.compile(r"### [^(]*\((\w+)[^-]*-\s*(.*)\)\s*$")
_TICKS = re.compile(r"(\d+) ticks? ago")
_CLOCK = re.compile(r"(?:(\d+) h )?(\d+) (seconds|minutes|min) ago")
_MARK = re.compile(
    r"\s*\(?\bbefore ([^;()]+?)(?: at tick (\d+))?; call (\w+)(?: then)?\)?\s*$"
)
_MERGED = re.compile(r"\s*\(from an event at tick \d+(?:, recharging since)?\)\s*$")
_GROWING = re.compile(r"\s*\(recharging since\)\s*$")
_WAS = re.compile(r"\s*\(was [^()]*\)\s*$")
_STALE = re.compile(r"\*\*Stale data:\*\* (?:also (.+)|(\w+)\b.* (?:is|was) )")
_MORE = re.compile(r"(?: and |- and |- )\d+ more\b")

NOMINAL_SECONDS = 10
"""Seconds of a tick, for ages that are told by the clock."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of the block.

    ``age`` in ticks counts for what was not merged from an event later. ``changed``
    names the actions that made it untrue, ``ask`` the tool to call.
    """

    value: str
    age: int | None = None
    changed: str = ""
    ask: str = ""
    stale: bool = False
    children: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """A state block by tool and label; ``logged_in`` is None where there is none."""

    logged_in: bool | None = None
    account: str = ""
    sections: dict[str, dict[str, Shown]] = field(default_factory=dict)

    def find(self, label: str, *tools: str) -> Shown | None:
        """A line by its label: one without doubt before others, else the first."""
        found = [self.sections.get(tool, {}).get(label) for tool in tools]
        lines = [shown for shown in found if shown is not None]
        sure = (shown for shown in lines if not shown.changed and not shown.stale)
        return next(sure, lines[0] if lines else None)


@dataclass(slots=True)
class _Section:
    tool: str
    age: int | None
    note: str


def read_block(text: str) -> Block:
    """Read a state block; an empty text says nothing."""
    if not text:
        return Block()
    if text == NOT_LOGGED_IN:
        return Block(logged_in=False)
    stale = set(_stale(text))
    account = next((m[1] for m in map(_ACCOUNT.match, text.splitlines()) if m), "")
    sections: dict[str, dict[str, Shown]] = {}
    for section, lines in _sections(text):
        shown = sections.setdefault(section.tool, {})
        for label, line in _lines(section, lines, section.tool in stale):
            shown.setdefault(label, line)
    return Block(True, account, sections)


def _stale(text: str) -> Iterator[str]:
    """The tools whose snapshots the closing lines call too old."""
    for line in text.splitlines():
        if found := _STALE.match(line):
            yield from re.findall(r"\w+", found[1] or found[2])


def _sections(text: str) -> Iterator[tuple[_Section, list[str]]]:
    section: _Section | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if found := _HEADING.match(line):
            if section:
                yield section, lines
            section, lines = _Section(found[1], _age(found[2]), found[2]), []
        elif section and line.lstrip().startswith("- "):
            lines.append(line)
    if section:
        yield section, lines


def _lines(
    section: _Section, lines: list[str], stale: bool
) -> Iterator[tuple[str, Shown]]:
    """Each fact with its label; the first line without a label is the name."""
    for index, line in enumerate(lines):
        if line.startswith(" "):
            continue
        children = []
        for below in lines[index + 1 :]:
            if not below.startswith(" "):
                break
            children.append(below.strip()[2:])
        yield _fact(section, line[2:], children, stale)


def _fact(
    section: _Section, line: str, children: list[str], stale: bool
) -> tuple[str, Shown]:
    mark = _MARK.search(line) or _MARK.search(f" {section.note}")
    merged = _MERGED.search(line)
    for pattern in (_MARK, _MERGED, _GROWING, _WAS):
        line = pattern.sub("", line)
    label, colon, value = line.partition(": ")
    more = bool(_MORE.search(line)) or any(_MORE.match(f"- {c}") for c in children)
    return label if colon else "", Shown(
        value=_MORE.split(value if colon else line)[0].strip(),
        age=0 if merged else section.age,
        changed=mark[1] if mark else "",
        ask=mark[3] if mark else section.tool,
        stale=stale and not merged,
        children=tuple(_WAS.sub("", child) for child in children),
        complete=not more,
    )


def _age(words: str) -> int | None:
    """The age of a section in ticks, None where it says nothing of the kind."""
    if words.startswith("just now"):
        return 0
    if found := _TICKS.search(words):
        return int(found[1])
    if found := _CLOCK.search(words):
        unit = 1 if found[3] == "seconds" else 60
        seconds = 3600 * int(found[1] or 0) + unit * int(found[2])
        return seconds // NOMINAL_SECONDS
    return None
