"""The pilot's reading of texts: tool answers, the view's messages, the state block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeGuard

from memory.context.summaries import LAST_ORDER_LABEL, is_summary_block
from memory.context.tool_calls import GAME_HELP
from memory.context.types import SEPARATOR, is_nudge

Json = Mapping[str, Any]

_ERROR = re.compile(r"\s*error:\s*(?:([a-z][a-z0-9_]*):\s*)?(.*)", re.I | re.S)
_UNKNOWN = re.compile(r"\s*interrupted\b|.*\boutcome (?:is )?unknown\b", re.I)

# Error codes that mean: nobody is logged in.
LOGGED_OUT_CODES = frozenset(
    {
        "not_authenticated",
        "session_required",
        "session_invalid",
        "session_expired",
        "not_logged_in",
    }
)

# Error codes that only time can mend.
WAIT_CODES = frozenset(
    {
        "rate_limited",
        "action_queued",
        "action_pending",
        "queue_full",
        "in_transit",
        "already_traveling",
        "already_jumping",
    }
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of a result, and what was read from it.

    ``data`` is its JSON object, empty for other texts; ``code`` is that of an error,
    "error" if it names none. ``unsure``: the action may or may not have happened.
    """

    text: str
    data: Json = field(default_factory=dict)
    code: str = ""
    message: str = ""
    unsure: bool = False

    @property
    def is_error(self) -> bool:
        return bool(self.code)


def read_answer(text: str) -> Answer:
    if found := _ERROR.match(text):
        return Answer(text, {}, found[1] or "error", found[2].strip())
    data = find_object(text)
    if error := data.get("error"):
        named = error if isinstance(error, Mapping) else {**data, "code": error}
        code, message = named.get("code") or "error", named.get("message") or ""
        return Answer(text, {}, str(code), str(message))
    unsure = not data and bool(_UNKNOWN.match(text))
    return Answer(text, data, unsure=unsure)


def find_object(text: str) -> Json:
    """The JSON object of a text, also after some words; empty if there is none."""
    start = text.find("{")
    if start < 0:
        return {}
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def as_mapping(value: object) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_objects(value: object) -> list[Json]:
    """The objects of a list; the server sends null for an empty one."""
    found = value if isinstance(value, list) else []
    return [item for item in found if isinstance(item, Mapping)]


def as_texts(value: object) -> list[str]:
    found = value if isinstance(value, list) else []
    return [item for item in found if isinstance(item, str)]


def as_text(value: object) -> str | None:
    """The value if it is a text and not empty."""
    return value if isinstance(value, str) and value else None


def as_whole(value: object) -> int | None:
    """The value as a whole number, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value)


# --- Tools that are offered on demand: a line each in the system message.

_TOOL_LINE = re.compile(r"^(\w+)\(([^()]*)\)(?:: .*)?$", re.M)


def read_catalogue(system: str) -> dict[str, list[str]]:
    """The tools that a system message lists, with the names of what they take in order."""
    return {
        found[1]: re.findall(r"\w+", found[2]) for found in _TOOL_LINE.finditer(system)
    }


# --- The view: what was heard, said, called and answered.

STATE_TITLE = "## Current Game State"
NOT_LOGGED_IN = "Not logged in. Use register or login."


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of the user role that is no state block."""

    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """An own message without a call, which ends a turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A call with its answer; calls of one message share their ``step``."""

    name: str
    arguments: Mapping[str, Any]
    answer: Answer
    step: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Equal for equal calls."""
        return call_key(self.name, self.arguments)


def call_key(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """What makes two calls the same."""
    return name, str(sorted(arguments.items()))


Entry = Heard | Said | Called


def is_help(entry: Entry) -> TypeGuard[Called]:
    """Whether schemas were asked for."""
    return isinstance(entry, Called) and entry.name == GAME_HELP


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that the pilot is given for a call, beside the tools.

    ``open_orders`` are those that the nudge names, by number and beginning. ``note`` is
    what the pilot noted of its order.
    """

    system: str = ""
    entries: Sequence[Entry] = ()
    state: str = ""
    open_orders: Sequence[tuple[int, str]] = ()
    note: str = ""
    turn_start: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turn_start", _find_turn_start(self.entries))

    @property
    def turn(self) -> Sequence[Entry]:
        """The entries of the present turn, the message that began it first."""
        return self.entries[self.turn_start :]

    def calls(self) -> Iterator[Called]:
        """All calls in view, oldest first."""
        return (entry for entry in self.entries if isinstance(entry, Called))

    @property
    def is_cramped(self) -> bool:
        """Whether no end of an earlier turn is in view.

        Then the view may begin inside this turn, and each new answer pushes out an old.
        """
        return not any(isinstance(entry, Said) for entry in self.entries)

    def calls_of_turn(self) -> list[Called]:
        return [entry for entry in self.turn if isinstance(entry, Called)]


def _find_turn_start(entries: Sequence[Entry]) -> int:
    for index, entry in reversed(list(enumerate(entries))):
        # The last turn begins with what was heard last, or after what was said last.
        if not isinstance(entry, Called):
            return index if isinstance(entry, Heard) else index + 1
    return 0


def split_state(text: str) -> tuple[str, str]:
    """Split a text of the user role into (message, state block); either may be empty."""
    at = text.rfind(f"\n{STATE_TITLE}") + 1
    if at or text.startswith(STATE_TITLE):
        return text[:at].strip(), text[at:].strip()
    lines = text.rstrip().splitlines()
    if lines and lines[-1].strip() == NOT_LOGGED_IN:
        return "\n".join(lines[:-1]).strip(), NOT_LOGGED_IN
    return text.strip(), ""


def split_joined(text: str) -> list[str]:
    """The texts of the user role that are joined in one; a nudge is only one."""
    if is_nudge(text):
        return [text]
    parts = [part for part in text.split(SEPARATOR) if part.strip()]
    if is_summary_block(text):
        # Its text, and the order that it quotes at its end.
        quoted = LAST_ORDER_LABEL.strip()
        ends = [place for place, part in enumerate(parts) if part.startswith(quoted)]
        end = ends[-1] + 1 if ends else 2
        parts = [SEPARATOR.join(parts[:end]), *parts[end:]]
    return parts


# --- The state block, read line by line as a model would read it.

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

# Seconds of a tick, for ages in hours, minutes and seconds.
NOMINAL_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of the block; its ``age`` is in ticks.

    ``changed`` names the actions that have changed it since, ``ask`` the tool to call.
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
    """A state block by tool and label; ``logged_in`` is None if there is no block."""

    logged_in: bool | None = None
    account: str = ""
    sections: dict[str, dict[str, Shown]] = field(default_factory=dict)

    def find(self, label: str, *tools: str) -> Shown | None:
        """A line by its label: one without doubt if there is one, else the first."""
        found = [self.sections.get(tool, {}).get(label) for tool in tools]
        lines = [shown for shown in found if shown is not None]
        sure = (shown for shown in lines if not shown.changed and not shown.stale)
        return next(sure, lines[0] if lines else None)


def read_block(text: str) -> Block:
    """Read a state block; the text may be empty."""
    if not text:
        return Block()
    if text == NOT_LOGGED_IN:
        return Block(logged_in=False)
    stale = set(_stale_tools(text))
    account = next((m[1] for m in map(_ACCOUNT.match, text.splitlines()) if m), "")
    sections: dict[str, dict[str, Shown]] = {}
    for section, lines in _split_sections(text):
        shown = sections.setdefault(section[1], {})
        for label, line in _read_lines(section, lines, section[1] in stale):
            shown.setdefault(label, line)
    return Block(True, account, sections)


def _stale_tools(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if found := _STALE.match(line):
            yield from re.findall(r"\w+", found[1] or found[2])


def _split_sections(text: str) -> list[tuple[re.Match[str], list[str]]]:
    """The headings, each a match of tool and age, with the lines below."""
    sections: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        if found := _HEADING.match(line):
            sections.append((found, []))
        elif sections and line.lstrip().startswith("- "):
            sections[-1][1].append(line)
    return sections


def _read_lines(
    section: re.Match[str], lines: list[str], stale: bool
) -> Iterator[tuple[str, Shown]]:
    """Each fact with its label; the first line without a label is the name."""
    for index, line in enumerate(lines):
        if line.startswith(" "):
            continue
        below = takewhile(lambda one: one.startswith(" "), lines[index + 1 :])
        children = [child.strip()[2:] for child in below]
        yield _read_fact(section, line[2:], children, stale)


def _read_fact(
    section: re.Match[str], line: str, children: list[str], stale: bool
) -> tuple[str, Shown]:
    mark = _MARK.search(line) or _MARK.search(f" {section[2]}")
    merged = _MERGED.search(line)
    for pattern in (_MARK, _MERGED, _GROWING, _WAS):
        line = pattern.sub("", line)
    label, colon, value = line.partition(": ")
    more = bool(_MORE.search(line)) or any(_MORE.match(f"- {c}") for c in children)
    return label if colon else "", Shown(
        value=_MORE.split(value if colon else line)[0].strip(),
        age=0 if merged else _read_age(section[2]),
        changed=mark[1] if mark else "",
        ask=mark[3] if mark else section[1],
        stale=stale and not merged,
        children=tuple(_WAS.sub("", child) for child in children),
        complete=not more,
    )


def _read_age(words: str) -> int | None:
    if words.startswith("just now"):
        return 0
    if found := _TICKS.search(words):
        return int(found[1])
    if found := _CLOCK.search(words):
        unit = 1 if found[3] == "seconds" else 60
        seconds = 3600 * int(found[1] or 0) + unit * int(found[2])
        return seconds // NOMINAL_SECONDS
    return None


def find_note(text: str, name: str) -> str:
    """The text of a note, as the system message quotes it or one message defines it."""
    if found := re.search(rf'^note/"{name}" ; = (".*")$', text, re.M):
        return str(json.loads(found[1]))
    quoted = re.search(rf'^Note "{name}":\n((?:>.*\n?)+)', text, re.M)
    lines = quoted[1].splitlines() if quoted else []
    return "\n".join(line.removeprefix("> ") for line in lines)
