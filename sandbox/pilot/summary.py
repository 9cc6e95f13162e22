"""The pilot's summary of the messages in view, when it is asked for one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from memory.context.summaries import LAST_ORDER_LABEL, is_summary_block
from memory.context.types import UNDERSTOOD_TEXT
from sandbox.pilot.orders import is_human
from sandbox.pilot.reading import Called, Entry, Heard, Said, Transcript
from sandbox.pilot.replay import ACTIONS

MAX_LINES = 12
MAX_LINE = 160
_TAGS = ("<summary>", "</summary>")
_HEADING = re.compile(r"^\d\. (.+)$", re.M)


def is_summary_asked(transcript: Transcript) -> bool:
    """Whether the last thing heard is the request for a summary."""
    last = transcript.entries[-1] if transcript.entries else None
    return isinstance(last, Heard) and all(tag in last.text for tag in _TAGS)


def write_summary(transcript: Transcript) -> str:
    """Write a summary of the messages in view under the seven headings."""
    entries = transcript.entries[:-1]
    before = _read_former(entries)
    actions = [e for e in entries if isinstance(e, Called) and e.name in ACTIONS]
    sections = {
        "Goals/Intent": [*before.get("Goals/Intent", ()), *_orders(entries)],
        "Timeline": [*before.get("Timeline", ()), *_deeds(actions)],
        "Technical context": _places(actions) or before.get("Technical context", []),
        "Files/Changes": _count_actions(actions),
        "Active work (CRITICAL)": _last_words(entries),
        "Unresolved/Pending": _errors(actions),
        "Immediate next step": ["Look at the game state and go on from there."],
    }
    sections_text = [
        f"{number}. {heading}\n{_as_list(lines)}"
        for number, (heading, lines) in enumerate(sections.items(), 1)
    ]
    return f"{_TAGS[0]}\n" + "\n".join(sections_text) + f"\n{_TAGS[1]}"


def _as_list(lines: Sequence[str]) -> str:
    kept = list(dict.fromkeys(lines))[-MAX_LINES:]
    return "\n".join(f"- {line}" for line in kept) if kept else "- none"


def _read_former(entries: Sequence[Entry]) -> dict[str, list[str]]:
    heard = (entry.text for entry in entries if isinstance(entry, Heard))
    block = next(filter(is_summary_block, heard), "")
    sections_text, suffix, rest = block.rpartition(LAST_ORDER_LABEL)
    parts = _HEADING.split(sections_text if suffix else rest)
    return {
        heading.strip(): [
            line[2:]
            for line in text.splitlines()
            if line.startswith("- ") and line != "- none"
        ]
        for heading, text in zip(parts[1::2], parts[2::2], strict=False)
    }


def _orders(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, Heard) and is_human(entry.text):
            yield f"Ordered: {_shorten(entry.text)}"


def _deeds(actions: Sequence[Called]) -> Iterator[str]:
    """Accepted actions; a run of the same one is one line."""
    deeds = (
        " ".join([call.name, *map(str, call.arguments.values())])
        for call in actions
        if not call.answer.is_error
    )
    for words, run in groupby(deeds):
        times = len(list(run))
        yield _shorten(words if times == 1 else f"{words}, {times} times")


def _places(actions: Sequence[Called]) -> list[str]:
    places = Counter(
        str(value)
        for call in actions
        if call.name in ("travel", "jump") and not call.answer.is_error
        for value in call.arguments.values()
    )
    return [f"Been to {_shorten(place)}" for place, _ in places.most_common(MAX_LINES)]


def _count_actions(actions: Sequence[Called]) -> list[str]:
    done = Counter(call.name for call in actions if not call.answer.is_error)
    return [f"{name}: {times} times accepted" for name, times in sorted(done.items())]


def _last_words(entries: Sequence[Entry]) -> list[str]:
    said = [entry.text for entry in entries if isinstance(entry, Said)]
    return [_shorten(text) for text in said if text != UNDERSTOOD_TEXT][-1:]


def _errors(actions: Sequence[Called]) -> list[str]:
    refused = [call for call in actions if call.answer.is_error]
    return [
        _shorten(f"{call.name}: {call.answer.code} {call.answer.message}")
        for call in refused[-3:]
    ]


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_LINE else f"{words[: MAX_LINE - 1]}…"
