"""The parts of a text that must not be reworded: numbers, ids and quoted words."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: A summary is not held to more of them than this, the first ones.
MOST_LITERALS = 40
_LONGEST = 80
_QUOTES = "|".join(
    f"{before}{start}([^{end}\n]{{1,{_LONGEST}}}){end}{after}"
    for before, start, end, after in (
        ("", '"', '"', ""),
        ("", "`", "`", ""),
        ("", "“", "”", ""),
        ("", "«", "»", ""),
        # No apostrophe, as in "don't sell the miners' ore".
        (r"(?<!\w)", "'", "'", r"(?!\w)"),
    )
)
_WORD = r"([A-Za-z0-9_]+(?:[.:/-][A-Za-z0-9_]+|,[0-9]+)*)"
_LITERAL = re.compile(f"{_QUOTES}|{_WORD}")
_TELLING = re.compile(r"\d|[A-Za-z0-9]_[A-Za-z0-9]")


def literals_of(text: str) -> tuple[str, ...]:
    """What a text names literally, each once, in the order of the text.

    These are its quoted parts, and else its numbers and the words with a digit or an
    underscore in them. Longer ones than 80 characters are no names.
    """
    found: dict[str, None] = {}
    for match in _LITERAL.finditer(text):
        literal = match.group(match.lastindex or 0).strip()
        is_word = match.group(match.re.groups) is not None
        if is_word and not _TELLING.search(literal):
            continue
        if 0 < len(literal) <= _LONGEST:
            found[literal] = None
            if len(found) == MOST_LITERALS:
                break
    return tuple(found)


def missing_literals(text: str, literals: Iterable[str]) -> list[str]:
    """The literals that a text lost, in their order.

    Case, white space and the commas of thousands do not matter; `3` in `13` and `A-1`
    in `A-12` are not kept.
    """
    plain = _plain(text)
    return [literal for literal in literals if not _stands_in(_plain(literal), plain)]


def _plain(text: str) -> str:
    """One spelling for what reads the same."""
    words = " ".join(text.casefold().split())
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", words)


def _stands_in(literal: str, text: str) -> bool:
    before = r"(?<![a-z0-9_])" if literal[:1].isalnum() else ""
    after = r"(?![a-z0-9_])" if literal[-1:].isalnum() else ""
    return re.search(f"{before}{re.escape(literal)}{after}", text) is not None
