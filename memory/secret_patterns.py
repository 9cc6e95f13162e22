"""What a secret looks like in a text: by its name, by its shape, or as a known value.

Pure, and shared by everything that hides secrets. Time is linear in the text.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
# Shorter values are hidden by their name only: as text they are anywhere.
SHORTEST = 6
# The longest value that is looked for behind a name, so that no text takes long.
_LONGEST = 4000
# A value without a digit among its first signs is taken for a word.
_NEAR = 100

# --- By their names

_NAME_ENDS = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey"),
    *("accesskey", "privatekey", "secretkey", "sessionid", "registrationcode"),
    "authorization",
)


def is_secret_name(name: object) -> bool:
    """Whether what a document has under this name is a secret."""
    if not isinstance(name, str):
        return False
    plain = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    return plain.endswith(_NAME_ENDS) or plain == "pass"


_WORD = r"(?:password|passwd|passphrase|pwd)"
_SESSION = r"session[ _-]?id"
_NAME = (
    rf"(?:{_WORD}|secret|token|(?:api|access|private|secret)[ _-]?key|{_SESSION}"
    r"|registration[ _-]?code|authorization)"
)
# Also as JSON writes them inside of its own texts, and as pages do.
_QUOTE = r"""\\*(?:["'`]|&quot;|&\#x27;|&\#3[49];)"""
# No brackets, so that what is hidden already stays as it is.
_VALUE = r"""(?:&(?:amp|lt|gt);|[^\s"'`\\,;|<>(){}\[\]])"""
_FORM_VALUE = r"""[^\s"'`\\,;|<>(){}\[\]&]"""
_LINK = r"(?:\W{1,6}|\W{1,6}is\W{1,6})"
_FLAGS = re.IGNORECASE | re.DOTALL
# Each name begins with one of them.
_BEGINNINGS = (
    *("passw", "passphrase", "pwd", "secret", "token", "api", "access", "private"),
    *("session", "registration", "authorization", "bearer"),
)
_NAMED = tuple(
    (re.compile(pattern, _FLAGS), replacement)
    for pattern, replacement in (
        # As JSON has it.
        (
            rf"({_NAME}(?:{_QUOTE})?\s*[:=]\s*)({_QUOTE})(?!\2|\[hidden)"
            rf".{{1,{_LONGEST}}}?(?:(?<!\\)(\2)|\Z)",
            rf"\1\2{HIDDEN}\3",
        ),
        # The same as a number.
        (
            rf"((?:{_WORD}|{_SESSION})({_QUOTE})\s*:\s*)-?\d[\d.]*",
            rf"\1\2{HIDDEN}\2",
        ),
        # As headers have it.
        (
            rf"(authorization\W{{1,6}}(?:basic|bearer|digest|token)\s+){_VALUE}{{4,}}",
            rf"\1{HIDDEN}",
        ),
        (rf"(bearer\s+)(?={_VALUE}{{0,{_NEAR}}}\d){_VALUE}{{16,}}", rf"\1{HIDDEN}"),
        # As forms and addresses have it.
        (
            rf"({_NAME}\s?=\s?)(?:(?={_FORM_VALUE}{{0,{_NEAR}}}\d){_FORM_VALUE}{{4,}}"
            rf"|{_FORM_VALUE}{{6,}})",
            rf"\1{HIDDEN}",
        ),
        # As people say it.
        (rf"({_WORD}{_LINK})(?={_VALUE}{{0,{_NEAR}}}\d){_VALUE}{{4,}}", rf"\1{HIDDEN}"),
        (rf"((?:{_WORD}|token|{_SESSION}){_LINK})[\w-]{{16,}}", rf"\1{HIDDEN}"),
        (
            rf"({_NAME}\s*(?::|\sis:?)\s*)(?={_VALUE}{{0,{_NEAR}}}\d)"
            rf"(?={_VALUE}{{0,{_NEAR}}}[a-z]){_VALUE}{{6,}}",
            rf"\1{HIDDEN}",
        ),
    )
)

# --- By their shapes

_LOWER = {sign: sign + 32 for sign in range(ord("A"), ord("Z") + 1)}
_USER_INFO = re.compile(
    r"""(://[^\s/:@"'<>]{0,200}:)(?!\[hidden)[^\s/@"'<>]{1,500}(?=@)"""
)
_KEYS = re.compile(
    r"(?<![\w-])(?:sk-(?=[\w-]{0,100}\d)[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|zoea_[\w-]{43}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"
)
_KEY_STARTS = ("sk-", "xox", "gh", "AKIA", "zoea_", "eyJ")


def mask_patterns(text: str) -> str:
    """A text without what its name or its shape tells to be a secret."""
    text = _mask_named(text)
    if "://" in text and "@" in text:
        text = _USER_INFO.sub(rf"\1{HIDDEN}", text)
    if any(start in text for start in _KEY_STARTS):
        text = _KEYS.sub(HIDDEN, text)
    return text


def _mask_named(text: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters of Turkish become two
        lowered = text.translate(_LOWER)
    pieces: list[str] = []
    at = 0
    for start in sorted(_find_beginnings(lowered)):
        if start < at:
            continue
        found = (pattern.match(text, start) for pattern, _ in _NAMED)
        for match, (_, replacement) in zip(found, _NAMED, strict=True):
            if match:
                pieces += [text[at:start], match.expand(replacement)]
                at = match.end()
                break
    return "".join((*pieces, text[at:])) if pieces else text


def _find_beginnings(lowered: str) -> Iterator[int]:
    for word in _BEGINNINGS:
        at = lowered.find(word)
        while at >= 0:
            # A page needs its own token against forged requests, and tells it nobody else.
            if not lowered.endswith("csrf", 0, at):
                yield at
            at = lowered.find(word, at + 1)


# --- By their values


@lru_cache(maxsize=16_384)
def list_spellings(value: str) -> frozenset[str]:
    """How a value may stand in a text: as it is, escaped, or encoded."""
    found = {value, html.escape(value)}
    for written in (
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    ):
        found |= {written, json.dumps(written)[1:-1], html.escape(written)}
    for encoded in (quote(value, safe=""), quote(value), quote_plus(value)):
        found |= {encoded, re.sub("%..", lambda code: code[0].lower(), encoded)}
    found |= set(_list_base64(value.encode("utf-8", "surrogatepass")))
    return frozenset(one for one in found if len(one) >= SHORTEST)


def _list_base64(raw: bytes) -> Iterator[str]:
    """What each alignment of these bytes always looks like, whatever stands around."""
    for before in range(3):
        bits = 8 * (before + len(raw))
        first, end = -(-8 * before // 6), bits // 6
        text = base64.b64encode(bytes(before) + raw).decode()[first:end]
        yield text
        yield text.translate(str.maketrans("+/", "-_"))


# Of every spelling some window of four signs begins at a multiple of three.
_STEP, _WINDOW = 3, 4
_WINDOWS = re.compile(rf"(?s)(?=(.{{{_WINDOW}}})).{{{_STEP}}}")


class KnownValues:
    """Secret values, and where they stand in a text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = frozenset(value for value in values if len(value) >= SHORTEST)
        self._windows: dict[str, list[str]] = {}
        for value in self.values:
            for spelling in list_spellings(value):
                for start in range(_STEP):
                    window = spelling[start : start + _WINDOW]
                    self._windows.setdefault(window, []).append(spelling)

    def mask(self, text: str) -> str:
        """A text without them."""
        places = sorted(self._find_places(text)) if self.values else []
        if not places:
            return text
        pieces, at = [], 0
        for start, end in _join(places):
            pieces += [text[at:start], HIDDEN]
            at = end
        return "".join((*pieces, text[at:]))

    def _find_places(self, text: str) -> Iterator[tuple[int, int]]:
        seen = self._windows.keys() & set(_WINDOWS.findall(text))
        likely = {spelling for window in seen for spelling in self._windows[window]}
        for spelling in likely:
            at = text.find(spelling)
            while at >= 0:
                yield at, at + len(spelling)
                at = text.find(spelling, at + 1)


def _join(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Places that overlap as one; they come in order."""
    start, end = -1, -1
    for first, last in places:
        if first > end:
            if end >= 0:
                yield start, end
            start, end = first, last
        else:
            end = max(end, last)
    yield start, end
