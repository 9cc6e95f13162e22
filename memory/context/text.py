"""Make text sendable, and cut it only between graphemes and escapes (I29)."""

from __future__ import annotations

import re
import unicodedata

from memory.context.tokens import TokenCounter

_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINER = "\u200d"
# A cut may move by one part in so many of the text to end at a line or a value.
_BOUNDARY_SHARE = 3
_BOUNDARIES = ("\n", "},", "],", ",", " ")


def clean_text(text: str) -> str:
    """The text without NUL and with U+FFFD for lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def find_safe_cut(text: str, index: int) -> int:
    """The nearest place at or before `index` that splits no grapheme or escape."""
    if index <= 0 or index >= len(text):
        return max(0, min(index, len(text)))
    index = _step_before_escape(text, index)
    while index > 0 and _splits_grapheme(text, index):
        index -= 1
    return index


def shorten_text(text: str, limit: int, count: TokenCounter, handle: str) -> str | None:
    """The head and the tail of a text within `limit` tokens, with a note between.

    The note says how much is missing and by which handle to read it. None where not
    even the note fits, or nothing would be saved.
    """
    total = count(text)
    if total <= limit:
        return text
    keep = len(text) * max(0, limit) // total
    while True:
        short = _head_and_tail(text, keep, handle)
        tokens = count(short)
        if tokens <= limit:
            return short if tokens < total else None
        if keep <= 0:
            return None
        excess = (tokens - limit) * len(text) // total
        keep = max(0, keep - max(excess, keep // 16, 1))


def count_shortest(text: str, count: TokenCounter, handle: str) -> int:
    """The fewest tokens that `shorten` can bring the text down to."""
    return min(count(text), count(_head_and_tail(text, 0, handle)))


def _head_and_tail(text: str, keep: int, handle: str) -> str:
    """About `keep` characters, two thirds of them from the head."""
    head_end, tail_start = 0, len(text)
    if keep > 0:
        head_end = _find_head_end(text, keep * 2 // 3)
        tail_start = _find_tail_start(text, len(text) - (keep - keep * 2 // 3))
        tail_start = max(tail_start, head_end)
    note = f"[... {tail_start - head_end} characters omitted, see {handle}]"
    return "\n".join(filter(None, (text[:head_end], note, text[tail_start:])))


def _find_head_end(text: str, index: int) -> int:
    """A cut at the end of a line, a value or a word shortly before `index`."""
    floor = index - index // _BOUNDARY_SHARE
    for mark in _BOUNDARIES:
        found = text.rfind(mark, floor, index)
        if found > 0:
            return find_safe_cut(text, found + len(mark))
    return find_safe_cut(text, index)


def _find_tail_start(text: str, index: int) -> int:
    """A cut at the start of a line, a value or a word shortly after `index`."""
    ceiling = index + (len(text) - index) // _BOUNDARY_SHARE
    for mark in _BOUNDARIES:
        found = text.find(mark, index, ceiling)
        if found >= 0:
            index = found + len(mark)
            break
    # Each step looks at its own place only: `find_safe_cut` would go back every time.
    while 0 < index < len(text) and (
        _splits_grapheme(text, index) or _step_before_escape(text, index) != index
    ):
        index += 1
    return index


def _step_before_escape(text: str, index: int) -> int:
    """The index, moved before a backslash escape that it would cut (\\n, \\u0041)."""
    start = text.rfind("\\", max(0, index - 6), index)
    if start < 0:
        return index
    run = start
    while run > 0 and text[run - 1] == "\\":
        run -= 1
    if (start - run) % 2:
        return index
    width = 6 if text[start + 1 : start + 2] == "u" else 2
    return start if index < start + width else index


def _splits_grapheme(text: str, index: int) -> bool:
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    if _JOINER in (before, after) or _extends(after):
        return True
    if _is_flag(before) and _is_flag(after):
        start = index  # flags are pairs, counted from the first one
        while start > 0 and _is_flag(text[start - 1]):
            start -= 1
        return (index - start) % 2 == 1
    return _is_jamo(before, after)


def _extends(char: str) -> bool:
    return (
        unicodedata.category(char)[0] == "M"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or char == "\u200c"
    )


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_jamo(before: str, after: str) -> bool:
    """Conjoining Hangul: a vowel or tail never starts, a lead never ends a cut."""
    if "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb":
        return True
    lead = "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    return lead and ("\u1100" <= after <= "\u115f" or "\uac00" <= after <= "\ud7a3")
