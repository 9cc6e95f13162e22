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
from itertools import count
from urllib.parse import quote, quote_plus, urlsplit

HIDDEN = "[hidden]"
# Shorter values are hidden by their name only: as text they are anywhere.
SHORTEST = 6
# A value without a digit among its first signs is taken for a word.
_NEAR = 100
# The longest value that is looked for in quotes of other texts, so that no text takes
# long.
_LONGEST = 500

# Signs that nobody sees, also as JSON writes them: they only break words.
_INVISIBLE = re.compile(
    r"[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
    r"|\\{1,3}u(?:00ad|034f|061c|180e|200[b-f]|202[a-e]|206[\da-f]|feff)",
    re.IGNORECASE,
)


def _drop_invisible(text: str) -> str:
    if text.isascii() and "\\u" not in text:
        return text
    return _INVISIBLE.sub("", text)


# --- By their names

# Passwords in other languages: as part of a longer word, and as a word by itself.
_FOREIGN = (
    *("passwort", "kennwort", "wachtwoord", "lösenord", "passord", "adgangskode"),
    *("salasana", "jelszó", "contraseña", "contrasena", "mật khẩu", "parool"),
    *("пароль", "парола", "κωδικός", "密码", "密碼", "口令", "パスワード", "暗証番号"),
    *("비밀번호", "암호", "كلمة المرور", "كلمة السر", "סיסמה", "पासवर्ड", "รหัสผ่าน"),
)
_FOREIGN_WORDS = (
    *("mdp", "senha", "parola", "parolă", "hasło", "haslo", "heslo", "şifre", "sifre"),
    *("palavra-passe", "kata sandi"),
)
_MOT_DE_PASSE = tuple(f"mot{link}de{link}passe" for link in (" ", "_", "-", ""))
_NAME_ENDS = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey"),
    *("accesskey", "privatekey", "secretkey", "sessionid", "registrationcode"),
    *("authorization", "motdepasse", *(one.replace(" ", "") for one in _FOREIGN)),
)
_WHOLE_NAMES = ("pass", *(re.sub("[- ]", "", one) for one in _FOREIGN_WORDS))
# Tokens that say where a list goes on.
_PLACES = ("page", "next", "cursor")


def is_secret_name(name: object) -> bool:
    """Whether what a document has under this name is a secret."""
    if not isinstance(name, str):
        return False
    plain = _drop_invisible(name.lower())
    plain = plain.replace("_", "").replace("-", "").replace(" ", "")
    if plain.endswith("token") and plain.removesuffix("token").endswith(_PLACES):
        return False
    return plain.endswith(_NAME_ENDS) or plain in _WHOLE_NAMES


_SURE = (
    rf"(?:password|passwd|passphrase|pwd|{'|'.join((*_FOREIGN, *_MOT_DE_PASSE))}"
    rf"|(?<!\w)(?:{'|'.join(_FOREIGN_WORDS)}))"
)
_WORD = rf"(?:{_SURE}|(?<![\w-])pass)"
_SESSION = r"session[ _-]?id"
_NAME = (
    rf"(?:{_WORD}|secret|token|(?:api|access|private|secret)[ _-]?key|{_SESSION}"
    r"|registration[ _-]?code|authorization)"
)
# Also as JSON writes them inside of its own texts, and as pages do.
_QUOTE = r"""\\{0,3}(?:["'`]|&quot;|&\#x27;|&\#3[49];)"""
# No brackets, so that what is hidden already stays as it is.
_NO_VALUE = r"""\s"'`\\,;|<>(){}\[\]\uff0c。\uff1b、“”„«»「」『』"""
_VALUE = rf"(?:&(?:amp|lt|gt);|[^{_NO_VALUE}])"
_FORM_VALUE = r"""[^\s"'`\\,;|<>(){}\[\]&]"""
_WITH_DIGIT = rf"(?=(?:&(?:amp|lt|gt);|[^{_NO_VALUE}\d]){{0,{_NEAR}}}+\d)"
# Between a name and its value; no quotes or commas, which would end the name's own text.
_GAP = r"[ *\u00a0\u202f\u3000]"
_IS = r"(?:is|ist|lautet|est|es|é|è|är|er|jest|je|это)"
_LINK = (
    rf"(?:{_GAP}{{0,3}}[:=\uff1a\uff1d]{{1,2}}{_GAP}{{0,3}}`?"
    rf"|{_GAP}{{1,3}}{_IS}[: *]{{1,3}}[\"'`]?|{_GAP}{{0,3}}[是为為は][\uff1a: ]{{0,3}})"
)
_FLAGS = re.IGNORECASE
# What every pattern begins with, to be asked first.
_NAME_ALONE = re.compile(rf"(?:{_NAME}|bearer)(?=[\W是为為は])", _FLAGS)
# Each name begins with one of them.
_BEGINNINGS = (
    *("pass", "pwd", "secret", "token", "api", "access", "private"),
    *("session", "registration", "authorization", "bearer"),
    *(one for one in (*_MOT_DE_PASSE, *_FOREIGN, *_FOREIGN_WORDS) if one[:4] != "pass"),
)
_PLAIN_BEGINNINGS = tuple(filter(str.isascii, _BEGINNINGS))
_NAMED = tuple(
    (re.compile(pattern, _FLAGS), replacement)
    for pattern, replacement in (
        # As JSON has it; also cut off.
        (
            rf"""({_NAME}(["'`])\s*[:=]\s*\2)(?!\2|\[hidden)"""
            r"""(?:\\.|(?!\2)[^\\\n])+\\?""",
            rf"\1{HIDDEN}",
        ),
        # The same inside of a text of JSON or of a page.
        (
            rf"({_NAME}({_QUOTE})\s*[:=]\s*\2)(?!\2|\[hidden)"
            rf"(?:.{{1,{_LONGEST}}}?(?=(?<!\\)\2|\n|\Z)|.{{{_LONGEST}}}{_VALUE}*)",
            rf"\1{HIDDEN}",
        ),
        # As programs have it.
        (
            rf"((?:{_WORD}[ \t]*[:=]|{_NAME}[ \t]?=)[ \t]*({_QUOTE}))(?=[^\s,;:.)}}\]>/&\\])"
            rf"""(?!\2|\[hidden)[^"<>\n]{{1,{_LONGEST}}}?(?=\2)""",
            rf"\1{HIDDEN}",
        ),
        # As people quote it.
        (
            rf"({_SURE}{_GAP}{{1,3}}(?:{_IS}[: ]{{1,2}})?({_QUOTE}))(?=[^\s,;:.)}}\]>/&\\])"
            rf"""(?!\2|\[hidden)[^"<>\n]{{1,{_LONGEST}}}?(?=\2(?!\w))""",
            rf"\1{HIDDEN}",
        ),
        (
            rf"({_SURE}(?:{_LINK}|{_GAP}{{0,3}})[“„«\u2018\u201a\u2039「『])(?!\[hidden)"
            rf"[^”“»\u2019\u203a」』<>\n]{{1,{_LONGEST}}}(?=[”“»\u2019\u203a」』])",
            rf"\1{HIDDEN}",
        ),
        # The same as a number.
        (
            rf"((?:{_WORD}|{_SESSION})({_QUOTE})\s*:\s*)-?\d[\d.e+-]*",
            rf"\1\2{HIDDEN}\2",
        ),
        # As headers have it.
        (
            r"(authorization\W{1,6}(?:basic|bearer|digest|token)\s+)"
            rf"(?={_VALUE}{{0,{_NEAR}}}(?:[\d=]|(?-i:[a-z][A-Z]))){_VALUE}{{4,}}",
            rf"\1{HIDDEN}",
        ),
        (rf"(bearer\s+){_WITH_DIGIT}{_VALUE}{{16,}}", rf"\1{HIDDEN}"),
        # As forms and addresses have it.
        (
            rf"({_NAME}\s?=\s?)(?={_FORM_VALUE}{{0,{_NEAR}}}\d){_FORM_VALUE}{{4,}}",
            rf"\1{HIDDEN}",
        ),
        (rf"({_NAME}=){_FORM_VALUE}{{6,}}", rf"\1{HIDDEN}"),
        # As people say it.
        (rf"({_WORD}{_LINK}){_WITH_DIGIT}{_VALUE}{{4,}}", rf"\1{HIDDEN}"),
        (
            rf"((?:{_WORD}|token|{_SESSION}){_LINK})"
            rf"(?=[\w-]{{0,{_NEAR}}}\d)[\w-]{{16,}}",
            rf"\1{HIDDEN}",
        ),
        (
            rf"({_NAME}[ \t]*:[ \t]*)(?=[\w-]{{0,{_NEAR}}}\d)[\w-]{{16,}}",
            rf"\1{HIDDEN}",
        ),
        (
            rf"((?:{_WORD}|token|{_SESSION}) {{1,3}})"
            rf"(?=[a-z0-9]{{0,{_NEAR}}}\d)[a-z0-9]{{16,}}",
            rf"\1{HIDDEN}",
        ),
        (
            rf"({_NAME}[ \t]*(?::|\sis:?)[ \t]*){_WITH_DIGIT}"
            rf"(?={_VALUE}{{0,{_NEAR}}}[a-z]){_VALUE}{{6,}}",
            rf"\1{HIDDEN}",
        ),
    )
)

# --- By their shapes


def has_login(address: str) -> bool:
    """Whether a web address has a name or a password; raises ValueError for no address."""
    return "@" in urlsplit(address).netloc


_QUERY = re.compile(r"([?#]).+", re.DOTALL)


def has_query(address: str) -> bool:
    """Whether something follows the path of a web address: often a key."""
    return "?" in address or "#" in address


def mask_query(address: str) -> str:
    """A web address without what follows its path."""
    return _QUERY.sub(rf"\1{HIDDEN}", address)


_LOWER = {sign: sign + 32 for sign in range(ord("A"), ord("Z") + 1)}
# A number before a path is a port.
_USER_INFO = re.compile(
    r"""(:?//(?:(?<=://)|[^\s/:@"'<>])[^\s/:@"'<>]{0,200}:)"""
    r"""(?!\[hidden|\d{1,5}[/?#])(?:[^\s/"'<>]{1,500}(?=@)|[^\s@"'<>]{1,500}(?=@))"""
)
# The same without a scheme, told by its port or its path.
_BARE_USER_INFO = re.compile(
    r"(?<![\w/:.@-])([a-z_][\w.-]{0,40}:)(?=[^\s:@]{0,60}\d)(?=[^\s:@]{0,60}[a-z])"
    r"""[^\s/:@"'`\\<>,;(){}\[\]]{4,60}(?=@[\w.-]{1,100}(?::\d|/))""",
    re.IGNORECASE,
)
# Also behind a sign that JSON or an address has escaped.
_KEYS = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt])|(?<=%[\dA-Fa-f]{2}))"
    r"(?:sk-(?=[\w-]{0,100}\d)[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{16,}|ya29\.[\w.-]{16,}"
    r"|(?:hf|gsk|npm)_[A-Za-z0-9]{16,}|(?:xai|pplx|nvapi)-[\w-]{16,}"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[\w+/=-]{16,}"
    r"|zoea_[\w-]{43}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"
    # A block that was cut off reaches as far as what looks like one.
    r"|-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"""(?:[^-"'<>]*(?:-(?!----)[^-"'<>]*)*-----END [A-Z0-9 ]{0,60}-----"""
    r"|(?:(?:\s|\\{1,3}[nr]){0,8}[A-Za-z0-9+/=]{16,})*)"
)
_KEY_STARTS = (
    *("sk-", "xox", "gh", "glpat-", "AKIA", "ASIA", "AIza", "ya29.", "hf_", "gsk_"),
    *(
        "npm_",
        "xai-",
        "pplx-",
        "nvapi-",
        "k_live_",
        "k_test_",
        "whsec_",
        "zoea_",
        "eyJ",
    ),
    "-----BEGIN",
)


def mask_patterns(text: str) -> str:
    """A text without what its name or its shape tells to be a secret.

    Signs that nobody sees stay, but where they would keep a secret from being found.
    """
    masked = _mask_patterns(text)
    bare = _drop_invisible(masked)
    if bare == masked:
        return masked
    found = _mask_patterns(bare)
    return masked if found == bare else found


def _mask_patterns(text: str) -> str:
    text = _mask_named(text)
    if "@" in text:
        text = _USER_INFO.sub(rf"\1{HIDDEN}", text)
        text = _BARE_USER_INFO.sub(rf"\1{HIDDEN}", text)
    if any(start in text for start in _KEY_STARTS):
        text = _KEYS.sub(HIDDEN, text)
    return text


_WHOLE = (
    *("password", "passwd", "passphrase", "pwd", 'pass"', "secret", "token"),
    *(*_MOT_DE_PASSE, *_FOREIGN, *_FOREIGN_WORDS),
    *(
        f"{first}{link}{last}"
        for first, last in (
            *(("api", "key"), ("access", "key"), ("private", "key")),
            *(("session", "id"), ("registration", "code")),
        )
        for link in ("", "_", "-", " ")
    ),
    "authorization",
)


def names_secret(text: str) -> bool:
    """Whether the name of a secret is in a text."""
    lowered = _drop_invisible(text).lower()
    return any(name in lowered for name in _WHOLE)


def _mask_named(text: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters of Turkish become two
        lowered = text.translate(_LOWER)
    pieces: list[str] = []
    at = 0
    for start in sorted(_find_beginnings(lowered)):
        if start < at or not _NAME_ALONE.match(text, start):
            continue
        found = (pattern.match(text, start) for pattern, _ in _NAMED)
        for match, (_, replacement) in zip(found, _NAMED, strict=True):
            if match:
                pieces += [text[at:start], match.expand(replacement)]
                at = match.end()
                break
    return "".join((*pieces, text[at:])) if pieces else text


# A page needs its own token against forged requests, and tells it nobody else.
_HARMLESS_TOKENS = ("csrf", *_PLACES)


def _find_beginnings(lowered: str) -> Iterator[int]:
    for word in _PLAIN_BEGINNINGS if lowered.isascii() else _BEGINNINGS:
        at = lowered.find(word)
        while at >= 0:
            before = lowered[max(0, at - 8) : at].rstrip("_- ")
            if word != "token" or not before.endswith(_HARMLESS_TOKENS):
                yield at
            at = lowered.find(word, at + 1)


# --- By their values


_GO_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


@lru_cache(maxsize=16_384)
def list_spellings(value: str) -> frozenset[str]:
    """How a value may stand in a text: as it is, escaped, or encoded."""
    found = {value, html.escape(value)}
    # As programs in Go write JSON.
    found.add(json.dumps(value, ensure_ascii=False)[1:-1].translate(_GO_ESCAPES))
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


_numbers = count(1)


class KnownValues:
    """Secret values, and where they stand in a text.

    ``number`` tells those of a process apart, for who must not hold on to all of them.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.number = next(_numbers)
        self.values = frozenset(value for value in values if len(value) >= SHORTEST)
        self._spellings = {
            spelling for value in self.values for spelling in list_spellings(value)
        }
        # By window: where it stands in spellings, and how long these are.
        shapes: dict[str, set[tuple[int, int]]] = {}
        for spelling in self._spellings:
            for start in range(_STEP):
                window = spelling[start : start + _WINDOW]
                shapes.setdefault(window, set()).add((start, len(spelling)))
        # In the order in which they begin, the longest first.
        self._windows = {
            window: tuple(sorted(found, reverse=True))
            for window, found in shapes.items()
        }

    def mask(self, text: str) -> str:
        """A text without them."""
        if not self.values:
            return text
        pieces, at = [], 0
        for start, end in self._find_places(text):
            pieces += [text[at:start], HIDDEN]
            at = end
        return "".join((*pieces, text[at:])) if pieces else text

    def _find_places(self, text: str) -> Iterator[tuple[int, int]]:
        """Where they stand, in order; those that overlap or touch are one place.

        The work grows with the text and with how many lengths spellings of the same
        beginning have, not with how many spellings there are.
        """
        first, end = -1, -1
        for begin, length in self._find_likely(text):
            if begin + length <= end or text[begin : begin + length] not in (
                self._spellings
            ):
                continue
            if begin > end:
                if end >= 0:
                    yield first, end
                first = begin
            end = begin + length
        if end >= 0:
            yield first, end

    def _find_likely(self, text: str) -> Iterator[tuple[int, int]]:
        """Begin and length of what may be a spelling, in the order of the begins."""
        windows = self._windows
        for at in range(0, len(text) - _WINDOW + 1, _STEP):
            window = text[at : at + _WINDOW]
            if window in windows:
                for start, length in windows[window]:
                    if start <= at <= len(text) + start - length:
                        yield at - start, length
