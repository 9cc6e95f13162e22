"""Small words for templates: icons, times, sizes, marks. Nothing here trusts text."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from memory.redaction import hide_secrets

register = template.Library()


# Sparklines and gauges stay the same while all else of a row changes, and have more
# numbers than all else: they are drawn once, and not by a template.
DRAWN = 2048
# Seconds of the units in which ages are told, as the script tells them.
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_MARKS = re.compile(r"<mark>(.*?)</mark>", re.DOTALL)


@register.simple_tag(takes_context=True)
def live(
    context: Mapping[str, Any], name: str, tag: str = "div", **attributes: object
) -> SafeString:
    """The element of a fragment: ``{% live "feed" tag="ol" aria_label="News" %}``.

    ``name`` is its id among the page's ``parts``; ``_`` in attributes stands for ``-``.
    """
    found: SafeString = context["parts"][name].draw_element(
        tag, {key.replace("_", "-"): value for key, value in attributes.items()}
    )
    return found


@register.simple_tag
@lru_cache(maxsize=DRAWN, typed=True)
def icon(name: str, label: str = "") -> SafeString:
    """An icon of the sprite; without a label it is decoration."""
    as_what = 'role="img" aria-label="{0}"' if label else 'aria-hidden="true"'
    drawn = f'<svg class="icon" {as_what}><use href="#i-{{1}}"/></svg>'
    return format_html(drawn, label, name)


@register.simple_tag
def ago(moment: datetime | None, prefix: str = "") -> SafeString | str:
    """A moment; the script writes its age and keeps it current.

    Without a script it reads as a time in UTC. ``prefix`` stands before the age.
    """
    if moment is None:
        return ""
    utc = moment.astimezone(UTC)
    today = utc.date() == timezone.now().astimezone(UTC).date()
    shown = utc.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")
    return format_html(
        '<time datetime="{}" data-time data-prefix="{}" title="{} UTC">{} UTC</time>',
        utc.isoformat(timespec="milliseconds"),
        prefix,
        utc.strftime("%Y-%m-%d %H:%M:%S"),
        shown,
    )


# States of orders that people read as another word.
_ORDER_WORDS = {"not_done": "not done", "superseded": "cleared"}


@register.filter
def masked(text: object) -> str:
    """A stored text without secrets, for where it is cut after that."""
    return hide_secrets(str(text or ""))


@register.filter
def order_state(state: str) -> str:
    """The state of an order as people read it."""
    return _ORDER_WORDS.get(state, state)


@register.filter
def moment(value: datetime) -> str:
    """A moment as HTML has it: its fractions of a second have three digits at most."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds")


@register.simple_tag
def brief(moment: datetime) -> SafeString:
    """How long ago a moment was, in one unit: "2 min". The script keeps it current."""
    seconds = max(0, round((timezone.now() - moment).total_seconds()))
    length, unit = next(one for one in UNITS if seconds >= one[0] or one[0] == 1)
    return format_html(
        '<time datetime="{}" data-time data-brief>{} {}</time>',
        moment.astimezone(UTC).isoformat(timespec="milliseconds"),
        seconds // length,
        unit,
    )


@register.simple_tag
def clock(moment: datetime) -> SafeString:
    """A time of day, in the reader's zone when there is a script."""
    utc = moment.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-clock>{} UTC</time>',
        utc.isoformat(timespec="milliseconds"),
        utc.strftime("%H:%M:%S"),
    )


@register.filter
def marked(snippet: str) -> SafeString:
    """A search snippet: its marks stay, whatever else it holds is text."""
    pieces: list[tuple[SafeString]] = []
    at = 0
    for hit in _MARKS.finditer(snippet):
        before = html.unescape(snippet[at : hit.start()])
        inside = html.unescape(hit[1])
        pieces.append((format_html("{}<mark>{}</mark>", before, inside),))
        at = hit.end()
    pieces.append((escape(html.unescape(snippet[at:])),))
    return format_html_join("", "{}", pieces)


@register.simple_tag(takes_context=True)
def highlight(context: Mapping[str, Any], text: str) -> SafeString | str:
    """A text with marks around what was searched, where a hit led to the page.

    A mark inside of a secret would keep it from being hidden, so it is hidden first.
    """
    text = hide_secrets(text)
    walk = context.get("hit_walk")
    marker: re.Pattern[str] | None = walk.marker if walk else None
    if marker is None:
        return text
    pieces: list[tuple[SafeString]] = []
    at = 0
    for hit in marker.finditer(text):
        before, at = text[at : hit.start()], hit.end()
        pieces.append((format_html("{}<mark>{}</mark>", before, hit[0]),))
    return format_html_join("", "{}", [*pieces, (escape(text[at:]),)])


@register.filter
def size(characters: int) -> str:
    """A length in characters, short: 950, 1.2k, 190k."""
    if characters < 1000:
        return f"{characters}"
    if characters < 9_950:
        return f"{characters / 1000:.1f}k"
    if characters < 999_500:
        return f"{characters / 1000:.0f}k"
    return f"{characters / 1_000_000:.1f}M"


@register.filter
def money(amount: Decimal) -> str:
    """Dollars with as many digits as say something; nothing for nothing."""
    if not amount:
        return "$0"
    if amount < Decimal("0.01"):
        return f"${amount:.4f}"
    return f"${amount:,.2f}"


@register.filter
def milliseconds(value: int) -> str:
    """A duration: 850 ms, 12.3 s, 4 min 10 s."""
    if value < 1000:
        return f"{value} ms"
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    return f"{value // 60_000} min {value % 60_000 // 1000} s"


@register.filter
def words(value: str) -> str:
    """A slug as words: iteration_limit is "iteration limit"."""
    return value.replace("_", " ")


@register.filter
def num(value: float, move: float = 0) -> str:
    """A coordinate, moved if asked, as SVG wants it in pages of any language."""
    return f"{value + move:g}"


@register.filter
def byte_size(size: int) -> str:
    """Bytes in a unit that fits: 850 B, 12 kB, 3.4 MB."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


@register.filter
@lru_cache(maxsize=DRAWN)
def columns(bars: tuple[Any, ...]) -> SafeString:
    return format_html_join(
        "",
        '<rect class="{}" x="{}" y="{}" width="4" height="{}"/>',
        (("bar-bad" if b.bad else "bar", b.x, b.y, b.height) for b in bars),
    )


@register.filter
@lru_cache(maxsize=DRAWN)
def level_bars(levels: tuple[Any, ...]) -> SafeString:
    """Fuel, hull and cargo as bars that colour, each with its share in words."""
    return format_html_join(
        "",
        '<span class="level limit-{}{}" title="{} {}{}"><span class="level-name">{}</span>'
        '<svg class="limit-bar" viewBox="0 0 100 6" preserveAspectRatio="none" '
        'aria-hidden="true"><rect width="{}" height="6"/></svg>'
        '<span class="limit-word">{} %</span></span>',
        (
            (
                *(one.level, " doubtful" if one.doubtful else "", one.name, one.value),
                *(", not sure any more" if one.doubtful else "", one.name),
                *(max(0, min(100, one.percent)), one.percent),
            )
            for one in levels
        ),
    )


@register.filter
def credits(amount: float | None) -> str:
    """Credits as won or lost: +1,240, -35, +12k; a dash for unknown."""
    if amount is None:
        return "–"  # noqa: RUF001 (a dash)
    if abs(amount) < 10 and amount != round(amount):
        return f"{amount:+.1f}"
    return f"{amount:+,.0f}" if abs(amount) < 100_000 else f"{amount / 1000:+,.0f}k"


@register.filter
def rate(amount: float | None) -> str:
    """Credits an hour, for tokens or for money: three digits, as won or lost."""
    return credits(None if amount is None else float(f"{amount:.3g}"))


@register.filter
def share(part: float | None) -> str:
    """A part of one in per cent; a dash for unknown."""
    return "–" if part is None else f"{100 * part:.0f} %"  # noqa: RUF001 (a dash)


@register.filter
@lru_cache(maxsize=DRAWN)
def segments(parts: tuple[Any, ...]) -> SafeString:
    """The parts of a gauge, each with its tokens in words."""
    return format_html_join(
        "",
        '<rect class="seg seg-{}" x="{}" y="0" width="{}" height="6">'
        "<title>{}: {} tokens</title></rect>",
        ((p.category, p.x, p.width, p.category, f"{p.tokens:,}") for p in parts),
    )


@register.filter
@lru_cache(maxsize=DRAWN)
def segment_words(parts: tuple[Any, ...]) -> str:
    return ", ".join(f"{part.category} {part.tokens:,}" for part in parts)


@register.filter
def named(names: Mapping[int, str], number: int) -> str:
    """The name of a Mysis by its number; "" where it is not among them."""
    return names.get(number, "")
