"""A digest in words: sections of lines, for the page, Markdown and plain text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.urls import reverse

from agents.dashboard.conversation import read_sender_name
from agents.dashboard.digest import (
    GONE,
    LISTED,
    RANKED,
    TEXT,
    Digest,
    Happened,
    select_starts,
)
from agents.dashboard.orders import describe_counts, name_target
from agents.dashboard.yields import YieldLine
from agents.events import Kind
from agents.models import Rule
from agents.models.fleet import find_page_key
from agents.models.orders import OPEN_STATES
from agents.order_status import OrderStatus
from agents.templatetags.zoea import credits, money, order_state, size
from memory.gamestate.values import format_line
from memory.redaction import hide_secrets

_MARKDOWN = re.compile(r"([\\`*_\[\]<>#|~])")


class Part(NamedTuple):
    """Some words; ``link`` is a path of these pages, "" for none."""

    text: str
    link: str = ""


class Line(NamedTuple):
    """One line of parts that are written one after another."""

    parts: Sequence[Part]

    @property
    def text(self) -> str:
        """It without its links."""
        return "".join(part.text for part in self.parts)


class Section(NamedTuple):
    title: str
    lines: Sequence[Line]


def write_sections(digest: Digest) -> list[Section]:
    """What happened, in words; no section is empty."""
    found = {
        "Earned": _write_earned(digest),
        "Myses": _write_myses(digest),
        "Alerts": _write_alerts(digest),
        "Errors": _write_errors(digest),
        "Orders": _write_orders(digest),
        "Prompts and policies": _write_changes(digest),
        "Contexts": _write_compactions(digest),
    }
    written = ((title, list(lines)) for title, lines in found.items())
    return [Section(title, lines) for title, lines in written if lines]


def describe_span(since: datetime, until: datetime) -> str:
    """ "24 Nov 21:00 to 25 Nov 05:00 UTC (8 h)"."""
    begin, end = (one.astimezone(UTC) for one in (since, until))
    first = f"{begin.day} {begin:%b %H:%M}"
    last = f"{end:%H:%M}" if begin.date() == end.date() else f"{end.day} {end:%b %H:%M}"
    return f"{first} to {last} UTC ({describe_length(until - since)})"


def describe_length(span: timedelta) -> str:
    """A span in one unit: "25 min", "8 h", "3 d"."""
    minutes = round(span / timedelta(minutes=1))
    if minutes < 120 and minutes % 60:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 72 else f"{round(hours / 24)} d"


def describe_nothing(since: datetime) -> str:
    """What an empty digest says."""
    utc = since.astimezone(UTC)
    return f"Nothing happened since {utc.day} {utc:%b %H:%M} UTC."


def write_brief(digest: Digest) -> str:
    """What matters most, in half a line."""
    raised = _count(digest.select(Kind.ALERT_RAISED))
    parts = [
        f"{credits(digest.sums.credits)} credits"
        if digest.sums.credits is not None
        else "",
        _say_count(_count(digest.select(Kind.ERROR)), "error"),
        _say_count(raised, "alert"),
        _say_count(sum(digest.order_states.values()), "order"),
        _say_count(len(digest.prompts) + len(digest.policies), "change", "of settings"),
        _say_count(digest.sums.turns, "turn"),
    ]
    return ", ".join(filter(None, parts)) or "something happened"


def write_markdown(digest: Digest) -> str:
    """The digest as Markdown, short enough for a phone."""
    head = f"## Fleet, {describe_span(digest.since, digest.until)}"
    if digest.is_empty:
        return f"{head}\n\n{describe_nothing(digest.since)}\n"
    parts = [head]
    for section in write_sections(digest):
        lines = "\n".join(f"- {_escape(line.text)}" for line in section.lines)
        parts.append(f"**{section.title}**\n\n{lines}")
    return "\n\n".join(parts) + "\n"


def write_text(digest: Digest) -> str:
    """The digest as plain text, for messages."""
    if digest.is_empty:
        return describe_nothing(digest.since)
    return "\n".join(
        f"{section.title}\n" + "\n".join(f"• {line.text}" for line in section.lines)
        for section in write_sections(digest)
    )


def _escape(text: str) -> str:
    """Text in which nothing is taken for Markdown."""
    return _MARKDOWN.sub(r"\\\1", text)


def _count(found: Iterable[Happened]) -> int:
    return sum(one.times for one in found)


def _say_count(count: int, word: str, rest: str = "") -> str:
    plural = f"{count:,} {word}{'s' * (count != 1)}"
    return f"{plural} {rest}".strip() if count else ""


# --- Sections


def _shorten(text: str, most: int = 60) -> str:
    """What somebody wrote, in one line: it leaves the house, so without secrets."""
    return format_line(hide_secrets(text), most)


def _write_line(text: str, link: str = "") -> Line:
    return Line([Part(text, link)])


def _write_earned(digest: Digest) -> Iterator[Line]:
    sums = digest.sums
    if not sums.turns:
        return
    earned = "Credits unknown" if sums.credits is None else f"{sums.credits:+,} credits"
    yield _write_line(
        f"{earned} in {_say_count(sums.turns, 'turn')}, {size(sums.tokens)} tokens, "
        f"{money(sums.cost)}",
        reverse("yield"),
    )
    for word, lines in (("Best: ", digest.best), ("Worst: ", digest.worst)):
        if lines:
            yield Line([Part(word), *_name_earners(lines)])


def _name_earners(lines: Sequence[YieldLine]) -> Iterator[Part]:
    """ "Ada +500, Bea +90, Cid +90 and 2 more with as much"."""
    yield from _join(map(_name_earner, lines[:RANKED]))
    if len(lines) > RANKED:
        yield Part(f" and {len(lines) - RANKED} more with as much")


def _name_earner(line: YieldLine) -> Part:
    text = f"{line.label} {line.sums.credits or 0:+,}"
    return Part(text, reverse("mysis", args=[line.key]))


def _join(parts: Iterable[Part]) -> Iterator[Part]:
    for place, part in enumerate(parts):
        if place:
            yield Part(", ")
        yield part


def _name_myses(one: Happened, digest: Digest) -> Iterator[Part]:
    """ " (Ada, Brahe and 3 more)", each with its page; nothing for nobody."""
    numbers = [number for number in one.ids or () if number is not None]
    if not numbers:
        return
    yield Part(" (")
    yield from _join(_name_mysis(number, digest) for number in numbers)
    rest = one.myses - len(numbers)
    yield Part(f" and {rest} more)" if rest > 0 else ")")


def _name_mysis(number: int, digest: Digest) -> Part:
    name = digest.names.get(number)
    if name is None:
        return Part(GONE)
    return Part(name, reverse("mysis", args=[find_page_key(number, name)]))


def _write_myses(digest: Digest) -> Iterator[Line]:
    for word, one in select_starts(digest):
        yield _write_happened(f"{word}: {one.myses}", one, digest)
    for one in digest.select("settings"):
        what = f"Changed {one.what.replace('_', ' ')} of {one.myses}"
        yield _write_happened(what, one, digest)
    if digest.idle.unasked and not digest.is_empty:
        yield _write_line(f"Idle unasked now: {digest.idle.unasked}", reverse("fleet"))


def _write_happened(words: str, one: Happened, digest: Digest) -> Line:
    """What happened to some Myses, by whom, with the first names."""
    return Line([Part(f"{words}{_say_by(one.who)}"), *_name_myses(one, digest)])


def _say_by(who: str) -> str:
    return "" if who in ("", "runtime", "system") else f" by {read_sender_name(who)}"


def _write_alerts(digest: Digest) -> Iterator[Line]:
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    newest: dict[str, Happened] = {}
    for place, kind in enumerate((Kind.ALERT_CLEARED, Kind.ALERT_RAISED)):
        for one in digest.select(kind):
            counts[one.what][place] += one.times
            newest[one.what] = one
    labels: dict[str, str] = dict(Rule.choices)
    for rule, (cleared, raised) in counts.items():
        words = Part(labels.get(rule, rule), reverse("alerts"))
        told = Part(f": {raised} raised, {cleared} cleared")
        yield Line([words, told, *_name_myses(newest[rule], digest)])


def _write_errors(digest: Digest) -> Iterator[Line]:
    found = digest.select(Kind.ERROR)
    for one in found[:LISTED]:
        words = _shorten(one.words or one.what, TEXT)
        yield _write_happened(f"{one.times} × {words}", one, digest)  # noqa: RUF001
    if rest := found[LISTED:]:
        words = f"{_count(rest)} of {_say_count(len(rest), 'other cause')}"
        yield _write_line(words, reverse("events"))


def _write_orders(digest: Digest) -> Iterator[Line]:
    states = digest.order_states
    if not states:
        return
    ended = {order_state(s): n for s, n in states.items() if s not in OPEN_STATES}
    still = sum(n for state, n in states.items() if state in OPEN_STATES)
    counted = {**ended, "open": still} if still else ended
    told = ", ".join(f"{count} {word}" for word, count in sorted(counted.items()))
    yield _write_line(f"{sum(states.values())} given: {told}", reverse("orders"))
    names = dict(digest.names)
    for order in digest.orders:
        yield _name_order(order, names)


def _name_order(order: OrderStatus, names: dict[int, str]) -> Line:
    said = describe_counts(order.counts, order.recipients)
    whom = name_target(order, names)
    return Line(
        [
            Part(f"“{_shorten(order.text)}”", reverse("order", args=[order.id])),
            Part(f" to {whom}{_say_by(order.sender)}: {said}"),
        ]
    )


def _write_changes(digest: Digest) -> Iterator[Line]:
    for what, link, rows in (
        ("", "prompts", digest.prompts),
        ("policy ", "policies", digest.policies),
    ):
        for one in rows[:LISTED]:
            note = f" ({_shorten(one.note)})" if one.note else ""
            named = Part(f"{what}{one.name}", reverse(link))
            yield Line([named, Part(f"{_say_by(one.by)}{note}")])
        if len(rows) > LISTED:
            yield _write_line(f"{what}and {len(rows) - LISTED} more", reverse(link))


def _write_compactions(digest: Digest) -> Iterator[Line]:
    found = digest.select(Kind.CONTEXT_COMPACTED)
    words = {"made": "compacted", "reverted": "taken back", "cleared": "tried again"}
    if found:
        told = (f"{one.times} {words.get(one.what, one.what)}" for one in found)
        yield _write_line(", ".join(told))
