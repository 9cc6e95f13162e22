"""In a real Chromium: how late a word is painted in its row, and what a page weighs."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from math import floor
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Page, ViewportSize, sync_playwright

from agents import events, hub
from agents.events import CHANNEL, Position, get_connection_parameters
from bench.visitor import PATIENCE, Site

# Without the browser's own window, which costs as much as a page.
HEADLESS_SHELL = Path("/usr/bin/chromium-headless-shell")
CHROMIUM = HEADLESS_SHELL if HEADLESS_SHELL.exists() else Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDE = ViewportSize(width=1440, height=900)
# Of each word that a row takes in: the Mysis, the word's own time, and the clock after
# the frame in which it was drawn.
WATCH = """() => {
  window.seen = [];
  let fresh = new Map();
  new MutationObserver(records => {
    for (const {target} of records) {
      const node = target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement;
      const cells = node.id === "fleet-rows" ? node.querySelectorAll(".cell-said")
        : [node.closest(".cell-said")];
      for (const cell of cells) {
        const word = cell && cell.querySelector("time[data-time]");
        if (word) fresh.set(cell.id, Date.parse(word.getAttribute("datetime")));
      }
    }
    if (!fresh.size) return;
    const drawn = fresh;
    fresh = new Map();
    requestAnimationFrame(() => setTimeout(() => {
      const now = Date.now();
      drawn.forEach((at, id) => window.seen.push([parseInt(id.slice(1), 10), at, now]));
    }));
  }).observe(document.getElementById("fleet-rows"), {childList: true, subtree: true});
}"""
SIZES = """() => ["navigation", "resource"].flatMap(kind =>
  performance.getEntriesByType(kind).map(entry => entry.encodedBodySize))"""
# Words, not answers of tools: rows do not show those.
SPOKEN = """
SELECT event.id, event.mysis_id, memory.created_at, event.created_at
FROM agents_event AS event
JOIN memory_memory AS memory ON memory.id = (event.data->>'memory_id')::bigint
WHERE event.kind = 'memory.added' AND memory.role <> 'tool'
  AND event.created_at BETWEEN %s AND %s
ORDER BY event.id
"""
#: After the last word, so that it can be painted too.
GRACE = 5.0


class Word(NamedTuple):
    """A word of a Mysis: ``written`` is its own time, ``told`` that of its event.

    All times are in milliseconds.
    """

    event: int
    mysis: int
    written: float
    told: float


class Paint(NamedTuple):
    """A row that was painted at ``at`` with a word that was written then."""

    mysis: int
    written: float
    at: float


def measure_lateness(
    words: Sequence[Word], paints: Sequence[Paint]
) -> list[float | None]:
    """Milliseconds from each word's event to its paint; None for one never painted.

    A word that a newer one replaced at once is painted with that one. Pages show times
    to the millisecond.
    """
    rows: defaultdict[int, list[Paint]] = defaultdict(list)
    for one in paints:
        rows[one.mysis].append(one)
    found: list[float | None] = []
    for word in words:
        times = [
            one.at for one in rows[word.mysis] if one.written >= floor(word.written)
        ]
        found.append(min(times) - word.told if times else None)
    return found


class Painting(NamedTuple):
    """How late words were painted and read, in milliseconds, and how many never were."""

    painted: list[float]
    read: list[float]
    lost: int


def measure_painting(site: Site, seconds: float) -> Painting:
    """Watch the Fleet page for so long."""
    with read_events() as read:
        begun, ended, paints = watch_rows(site, seconds)
    words = list_words(begun, ended)
    late = measure_lateness(words, paints)
    return Painting(
        painted=[one for one in late if one is not None],
        read=[read[word.event] - word.told for word in words if word.event in read],
        lost=late.count(None),
    )


@contextmanager
def open_page(site: Site) -> Iterator[Page]:
    """The Fleet page in a browser that has nothing in its cache, once it is live."""
    cookie = {
        "name": site.cookie_name,
        "value": site.session,
        "url": site.server.origin,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        context = browser.new_context(viewport=WIDE)
        context.set_default_timeout(PATIENCE * 1000)
        context.add_cookies([cookie])  # type: ignore[list-item]
        page = context.new_page()
        page.goto(f"{site.server.origin}/")
        page.wait_for_selector("#live-status[data-state=live]")
        yield page
        browser.close()


def weigh_page(site: Site) -> tuple[int, int]:
    """The bytes of the Fleet page and of all it loads, compressed, and how many requests."""
    with open_page(site) as page:
        sizes: list[int] = page.evaluate(SIZES)
    return sum(sizes), len(sizes)


def watch_rows(site: Site, seconds: float) -> tuple[datetime, datetime, list[Paint]]:
    with open_page(site) as page:
        page.evaluate(WATCH)
        begun = timezone.now()
        time.sleep(seconds)
        ended = timezone.now()
        time.sleep(GRACE)
        paints = [Paint(*one) for one in page.evaluate("window.seen")]
    return begun, ended, paints


def list_words(begun: datetime, ended: datetime) -> list[Word]:
    """The words whose events came between these times."""
    with connection.cursor() as cursor:
        cursor.execute(SPOKEN, [begun, ended])
        return [
            Word(event, mysis, 1000 * written.timestamp(), 1000 * told.timestamp())
            for event, mysis, written, told in cursor.fetchall()
        ]


@contextmanager
def read_events() -> Iterator[dict[int, float]]:
    """When a reader of the log alone got each event, in milliseconds by its id."""
    got: dict[int, float] = {}
    over = threading.Event()
    words = [get_connection_parameters(), got, over]
    reader = threading.Thread(target=_read_until_over, args=words)
    reader.start()
    try:
        yield got
    finally:
        over.set()
        reader.join()


def _read_until_over(
    parameters: dict[str, Any], got: dict[int, float], over: threading.Event
) -> None:
    with psycopg.connect(**parameters, autocommit=True) as database:
        database.execute(f"LISTEN {CHANNEL}")
        newest = database.execute(events.NEWEST).fetchone()
        position = Position(*newest) if newest else events.START
        while not over.is_set():
            wanted = events.build_read_parameters(position, None, (), hub.BATCH)
            for row in database.execute(events.READ, wanted).fetchall():
                position = Position(row[0], row[1])
                got[position.id] = 1000 * time.time()
            for _ in database.notifies(timeout=hub.POLL, stop_after=1):
                pass
