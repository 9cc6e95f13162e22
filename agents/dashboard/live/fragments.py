"""Fragments: the pieces of pages that change while somebody looks.

A fragment is the inside of one element with an id. The page puts it in place, the
socket sends it as an out-of-band swap of the same element; both by one template, so
they cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from django.conf import settings
from django.forms.utils import flatatt
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.dashboard import budget_bars, event_kinds, feed, health, orders
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.conversation import Line
from agents.dashboard.fleet import COLUMNS, FleetRow, FleetRows
from agents.dashboard.shared_results import Keyed
from agents.dashboard.troubles import find_fixes, load_provider_ids
from agents.events import Item
from agents.models import Mysis
from memory.notes import select_notes

CACHED_ROWS = 1024
# Turns that the page of a Mysis lists, and notes with their texts; the others of both
# have pages of their own.
TURNS = 12
NOTES = 5


@dataclass(frozen=True, slots=True)
class Fragment:
    """The inside of the element ``id``; ``css`` are its classes on the page.

    ``version`` is a digest of the inside. The element carries it, so that the
    browser leaves alone what it has already: a swap would take a click or a
    selection away.
    """

    id: str
    html: SafeString
    css: str = ""
    version: str = field(init=False)

    def __post_init__(self) -> None:
        digest = blake2b(self.html.encode(), digest_size=8).hexdigest()
        object.__setattr__(self, "version", digest)

    @property
    def at(self) -> SafeString:
        return format_html('id="{}" data-v="{}"', self.id, self.version)

    def draw_element(self, tag: str, attributes: Mapping[str, object]) -> SafeString:
        more = flatatt(dict(attributes))
        return format_html("<{0} {1}{2}>{3}</{0}>", tag, self.at, more, self.html)


def draw_template(template: str, **context: Any) -> SafeString:
    """A template of ``agents/`` as HTML, by its folder and name: ``fleet/row``."""
    context["pace"] = settings.ZOEA_SECONDS_PER_TICK
    return render_to_string(f"agents/{template}.html", context)


def draw_fragment(template: str, **context: Any) -> Fragment:
    """A template as what its element holds: ``fleet/rows`` is that of ``fleet-rows``."""
    return Fragment(template.replace("/", "-"), draw_template(template, **context))


def draw_count(element: str, count: int) -> Fragment:
    """A number that stands alone in its element."""
    return Fragment(element, format_html("{}", count))


@lru_cache(maxsize=CACHED_ROWS)
def draw_cells(row: FleetRow) -> tuple[Fragment, ...]:
    """The cells of a fleet row; equal rows are drawn once per process."""
    found = []
    for cell, _, fields, _ in COLUMNS:
        shown = tuple(getattr(row, name) for name in fields)
        html = _draw_cell(cell, Keyed(shown, row))
        found.append(Fragment(f"m{row.id}-{cell}", html, f"cell cell-{cell}"))
    return tuple(found)


@lru_cache(maxsize=CACHED_ROWS * len(COLUMNS))
def _draw_cell(cell: str, row: Keyed[FleetRow]) -> SafeString:
    # At a word of a Mysis two or three of its cells change.
    return draw_template(f"fleet/cell_{cell}", row=row.value)


def draw_fleet_rows(rows: FleetRows) -> Fragment:
    """The whole list, for a start and whenever Myses come or go."""
    drawn = format_html_join("\n", "{}", ((draw_row(row),) for row in rows.shown))
    return draw_fragment("fleet/rows", drawn=drawn, rows=rows)


@lru_cache(maxsize=CACHED_ROWS)
def draw_row(row: FleetRow) -> SafeString:
    """A row with its cells and the box that selects it."""
    inside = format_html_join(
        "",
        '<div class="{}" {}>{}</div>',
        ((c.css, c.at, c.html) for c in draw_cells(row)),
    )
    return draw_template("fleet/row", row=row, inside=inside)


def draw_fleet_head(found: health.Health) -> list[Fragment]:
    """Counts, the health line, and whom a broadcast would reach."""
    limits = found.sums.limits[: budget_bars.SHOWN]
    counts = {"all": found.total, **found.counts, **found.sums.flags}
    return [
        draw_fragment("fleet/totals", health=found),
        draw_fragment("fleet/limits", limits=limits, health=found),
        draw_fragment("fleet/health", health=found),
        draw_fragment("fleet/reach", health=found),
        *(draw_count(f"count-{name}", count) for name, count in counts.items()),
    ]


def draw_newest_orders() -> Fragment:
    """The last orders, as they stand under the composer; before any, whom one talks to."""
    lines = orders.load_lines()
    flown = () if lines else Mysis.objects.values_list("model", flat=True).distinct()
    piloted = bool(flown) and all(model.startswith("pilot") for model in flown)
    return draw_fragment("fleet/orders", lines=lines, piloted=piloted)


def draw_orders_list(lines: Sequence[orders.OrderLine], state: str) -> Fragment:
    """A page of the list of orders."""
    return draw_fragment("orders/list", lines=lines, state=state)


def draw_order(line: orders.OrderLine, groups: Sequence[orders.StateGroup]) -> Fragment:
    """How far one order has come with everybody."""
    return draw_fragment("order/status", line=line, groups=groups)


def draw_feed_lines(lines: Iterable[feed.FeedLine], group: str = "") -> SafeString:
    """Lines of the feed, as items of its list."""
    drawn = format_html_join("", "{}", ((_feed_line(line),) for line in lines))
    return drawn or draw_template(
        "events/empty", group=event_kinds.GROUPS.get(group, "")
    )


@lru_cache(maxsize=CACHED_ROWS)
def _feed_line(line: feed.FeedLine) -> SafeString:
    return draw_template("events/lines", lines=[line])


def draw_newest_feed(group: str = "") -> Fragment:
    """The feed from its newest line on; of one chip if named."""
    return draw_feed(feed.load_newest_feed(group), group)


def draw_feed(lines: Iterable[feed.FeedLine], group: str = "") -> Fragment:
    """The whole list of the feed."""
    return Fragment("feed", draw_feed_lines(lines, group))


def draw_mysis_head(found: dashboard_mysis.Head) -> Fragment:
    """What the head of a Mysis's page says, with the ways to change it."""
    return draw_fragment("mysis/head", head=found, row=found.row)


def draw_mysis(found: dashboard_mysis.Head, now: datetime) -> list[Fragment]:
    """The live parts of a Mysis's page, but for the conversation."""
    panel = dashboard_mysis.load_panel(found.mysis, now)
    fixes = find_fixes(found.mysis, load_provider_ids())
    trend = dashboard_mysis.load_credits_trend(found.row.account)
    notes = list(select_notes(found.mysis.pk)[: NOTES + 1])
    turns = found.mysis.turns.order_by("-id")[:TURNS]
    return [
        draw_mysis_head(found),
        draw_fragment("mysis/acts", row=found.row),
        draw_fragment("mysis/error", row=found.row, fixes=fixes),
        draw_fragment("mysis/reach", row=found.row),
        draw_fragment("mysis/context", row=found.row),
        draw_fragment("mysis/state", panel=panel),
        draw_fragment("mysis/purse", trend=trend),
        draw_fragment(
            "mysis/notes",
            notes=notes[:NOTES],
            more=len(notes) > NOTES,
            mysis=found.mysis,
        ),
        draw_fragment("mysis/turns", turns=turns, mysis=found.mysis),
    ]


@lru_cache(maxsize=2)
def draw_clock(now: datetime) -> Fragment:
    """The server's clock: a page whose socket is dead falls behind it."""
    return Fragment("as-of", draw_template("shared/as_of", now=now))


def draw_log_lines(
    lines: Sequence[Line], mysis: Mysis, swap: bool = False
) -> SafeString:
    """Lines of a conversation; each is drawn once for as long as it stays the same."""
    # Without a script a moment of today reads in another way.
    today = timezone.now().date()
    return format_html_join(
        "",
        "{}",
        (
            (_draw_log_line(Keyed((mysis.page_key, today), mysis), one, swap),)
            for one in lines
        ),
    )


@lru_cache(maxsize=CACHED_ROWS)
def _draw_log_line(mysis: Keyed[Mysis], line: Line, swap: bool) -> SafeString:
    return draw_template(
        "conversation/lines", lines=[line], mysis=mysis.value, swap=swap
    )


def draw_log(lines: Sequence[Line], mysis: Mysis) -> Fragment:
    """A conversation from its newest page on, with a way to what is older."""
    older = lines[0].id if lines else None
    drawn = draw_log_lines(lines, mysis)
    return Fragment(
        "log", draw_template("conversation/log", drawn=drawn, mysis=mysis, older=older)
    )


def swap_fragment(fragment: Fragment) -> SafeString:
    """A fragment as the socket sends it."""
    return format_html(
        '<div {} hx-swap-oob="innerHTML">{}</div>', fragment.at, fragment.html
    )


def append_items(target: str, where: str, html: SafeString) -> SafeString:
    """Items to add to a list: ``where`` is ``beforeend`` or ``afterbegin``."""
    return format_html('<ol hx-swap-oob="{}:#{}">{}</ol>', where, target, html)


def prepend_feed_lines(lines: Iterable[feed.FeedLine]) -> SafeString:
    """Lines to stand above those that the feed has."""
    return append_items("feed", "afterbegin", draw_feed_lines(lines))


def draw_alert_news(items: Iterable[Item]) -> list[SafeString]:
    """Alerts that were just raised, for browsers that notify of them."""
    drawn = format_html_join(
        "",
        '<li data-alert="{}" data-cause="{}" data-title="{}" data-link="{}">{}</li>',
        ((item["id"], *_read_alert(item["data"])) for item in items),
    )
    return [append_items("alert-news", "beforeend", drawn)] if drawn else []


def _read_alert(data: Mapping[str, Any]) -> tuple[str, ...]:
    rule = str(data.get("rule") or "").replace("_", " ")
    title = f"{data.get('mysis') or 'Zoea'}: {rule}"
    values = (data.get(name) for name in ("cause", "link", "text", "also"))
    cause, link, text, also = (str(value or "") for value in values)
    return cause, title, link, f"{text} {also}".strip()


class SentVersions:
    """Which version of each fragment the viewer has."""

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def draw_news(self, found: Iterable[Fragment]) -> list[SafeString]:
        """The swaps of those fragments that differ."""
        fresh = [one for one in found if self._versions.get(one.id) != one.version]
        self.note(fresh)
        return [swap_fragment(one) for one in fresh]

    def note(self, found: Iterable[Fragment]) -> None:
        """The viewer has these already, as parts of something bigger."""
        self._versions |= {fragment.id: fragment.version for fragment in found}
