"""How late a word of a Mysis is painted in its row, in a real Chromium."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from django.utils import timezone
from playwright.sync_api import sync_playwright

from agents import events, hub
from agents.events import CHANNEL, Position, connection_parameters
from bench.pages.lateness import Seen, Word, lateness
from bench.pages.visits import SECONDS, Site
from tests.browser.conftest import CHROMIUM, FLAGS, WIDE

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


def painted(site: Site, seconds: float) -> dict[str, Any] | None:
    """How late the words of so long were painted and read; None without a Chromium."""
    if not CHROMIUM.exists():
        return None
    with reading() as read:
        begun, ended, seen = looked(site, seconds)
    words = spoken(begun, ended)
    late = lateness(words, seen)
    return {
        "painted": [one for one in late if one is not None],
        "lost": sum(one is None for one in late),
        "read": [read[word.event] - word.told for word in words if word.event in read],
    }


def looked(site: Site, seconds: float) -> tuple[datetime, datetime, list[Seen]]:
    """From when to when a browser looked, and what was painted."""
    cookie = {
        "name": settings.SESSION_COOKIE_NAME,
        "value": site.session,
        "url": site.server.origin,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        context = browser.new_context(viewport=WIDE)
        context.set_default_timeout(SECONDS * 1000)
        context.add_cookies([cookie])  # type: ignore[list-item]
        page = context.new_page()
        page.goto(f"{site.server.origin}/")
        page.wait_for_selector("#live-status[data-state=live]")
        page.evaluate(WATCH)
        begun = timezone.now()
        time.sleep(seconds)
        ended = timezone.now()
        time.sleep(GRACE)
        seen = [Seen(*one) for one in page.evaluate("window.seen")]
        browser.close()
    return begun, ended, seen


def spoken(begun: datetime, ended: datetime) -> list[Word]:
    """The words that were told of between these times."""
    with connection.cursor() as cursor:
        cursor.execute(SPOKEN, [begun, ended])
        return [
            Word(event, mysis, 1000 * written.timestamp(), 1000 * told.timestamp())
            for event, mysis, written, told in cursor.fetchall()
        ]


@contextmanager
def reading() -> Iterator[dict[int, float]]:
    """When a reader that only reads got each event, in milliseconds by its id."""
    got: dict[int, float] = {}
    over = threading.Event()
    words = [connection_parameters(), got, over]
    reader = threading.Thread(target=_read, args=words)
    reader.start()
    try:
        yield got
    finally:
        over.set()
        reader.join()


def _read(
    parameters: dict[str, Any], got: dict[int, float], over: threading.Event
) -> None:
    with psycopg.connect(**parameters, autocommit=True) as database:
        database.execute(f"LISTEN {CHANNEL}")
        newest = database.execute(events.NEWEST).fetchone()
        position = Position(*newest) if newest else events.START
        while not over.is_set():
            wanted = events.parameters(position, None, (), hub.BATCH)
            for row in database.execute(events.READ, wanted).fetchall():
                position = Position(row[0], row[1])
                got[position.id] = 1000 * time.time()
            for _ in database.notifies(timeout=hub.POLL, stop_after=1):
                pass
