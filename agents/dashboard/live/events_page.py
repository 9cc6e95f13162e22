"""The event log as its page shows it and as it grows, and the counts on its chips."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import slugify

from agents import events
from agents.dashboard import feed
from agents.dashboard.event_kinds import (
    GROUPS,
    TOLD_ELSEWHERE,
    WORDS_ON_IT,
    find_groups,
    is_news,
)
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fragments import Fragment, SentVersions, draw_count
from agents.dashboard.shared_results import shared, time_bucket
from agents.events import Item, Kind, Position
from agents.hub import passes_filter
from agents.models import Event
from memory.models import fetch_rows

# Events on a page; in stream order, which is (xid, id).
PAGE = 100
# Events that the chips count: the newest, so that it costs the same in a long log.
COUNTED = 1_000
FACTS = (
    *("tool", "ok", "told", "state", "outcome", "confidence"),
    *(*WORDS_ON_IT, *TOLD_ELSEWHERE),
)
# How many of the newest events say the same of these facts.
_NEWEST = """
SELECT kind, facts, count(*) FROM (
  SELECT kind, (SELECT jsonb_object_agg(key, value) FROM jsonb_each(data)
    WHERE key = ANY(%(facts)s)) AS facts
  FROM agents_event ORDER BY xid DESC, id DESC LIMIT %(most)s
) AS newest GROUP BY kind, facts
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the newest events: all by kind, and those that are news by chip."""

    kinds: Mapping[str, int]
    groups: Mapping[str, int]


def count_newest() -> Counts:
    """Counted once in ten seconds per process."""
    return shared.get(("chips", time_bucket(timezone.now(), shift=3)), _count)


def _count() -> Counts:
    kinds, groups = Counter[str](), Counter[str]()
    values = {"facts": list(FACTS), "most": COUNTED}
    for kind, facts, count in fetch_rows(_NEWEST, values):
        data = json.loads(facts or "{}")
        kinds[kind] += count
        if is_news(kind, data):
            groups.update(dict.fromkeys(find_groups(kind, data), count))
    return Counts(kinds, groups)


def make_element_id(kind: str) -> str:
    """The id of the element that counts a kind."""
    return f"kind-{slugify(kind)}"


def draw_kind_counts() -> list[Fragment]:
    """The numbers on the chips of the events page."""
    kinds = count_newest().kinds
    found = [draw_count(make_element_id(one), kinds.get(str(one), 0)) for one in Kind]
    return [*found, draw_count("kind-all", sum(kinds.values()))]


def draw_group_counts() -> list[Fragment]:
    """The numbers on the chips of the feed."""
    return _draw_group_counts(tuple(count_newest().groups.items()))


@lru_cache(maxsize=1)
def _draw_group_counts(counts: tuple[tuple[str, int], ...]) -> list[Fragment]:
    groups = dict(counts)
    return [draw_count(f"group-{name}", groups.get(name, 0)) for name in GROUPS]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are shown: of one kind, of one Mysis, or all."""

    kind: str = ""
    mysis: int | None = None

    @classmethod
    def read(cls, kind: str, mysis: int | None) -> EventFilter:
        """What is no kind falls back to all."""
        return cls(kind if kind in Kind.__members__.values() else "", mysis)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind,) if self.kind else ()

    @property
    def all(self) -> bool:
        return not self.kind and self.mysis is None

    def takes(self, item: Item) -> bool:
        return passes_filter(item, self.mysis, frozenset(self.kinds))


def load_events(chosen: EventFilter, before: int | None = None) -> list[Event]:
    """A page of events, newest first, and one more; from ``before`` on backwards."""
    found = Event.objects.order_by("-xid", "-id")
    if chosen.kind:
        found = found.filter(kind=chosen.kind)
    if chosen.mysis is not None:
        found = found.filter(mysis_id=chosen.mysis)
    edge = Event.objects.filter(pk=before).first() if before is not None else None
    if edge is not None:
        # Stream order is (xid, id): ids alone would repeat or skip some. Compared as
        # a pair, it is one range of the index.
        pair = "(agents_event.xid, agents_event.id) < (%s, %s)"
        found = found.extra(where=[pair], params=[edge.xid, edge.pk])  # noqa: S610
    return list(found[: PAGE + 1])


class EventsPage:
    """Events as they settle; ``after`` is the last one that the viewer has seen.

    Read from the log, not from what the hub brings: of a burst no event is missing.
    The hub only tells when there may be something to read.
    """

    def __init__(self, chosen: EventFilter, after: int) -> None:
        self.chosen = chosen
        self.position = events.find_position(after)
        self.sent = SentVersions()

    def draw_all(self, through: Position) -> list[SafeString]:
        return self._news()

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        # A full list has lost its oldest.
        full = dirty.everything or len(dirty.feed) == dirty.feed.maxlen
        if full or any(map(self.chosen.takes, dirty.feed)):
            return self._news()
        return self.sent.draw_news(draw_kind_counts())

    def _read(self) -> list[tuple[Position, Item]]:
        # What is not shown is stepped over once, not read at every look; taken
        # before the events, so that none settles between the two.
        end = self.position if self.chosen.all else events.read_settled_end()
        found = events.read_from(
            self.position,
            mysis_id=self.chosen.mysis,
            kinds=self.chosen.kinds,
            limit=PAGE + 1,
        )
        if not found:
            self.position = max(self.position, end)
        return found

    def _news(self) -> list[SafeString]:
        counts, found = self.sent.draw_news(draw_kind_counts()), self._read()
        if not found:
            return counts
        if len(found) > PAGE:
            # So much that a page cannot be read any more: it begins anew.
            self.position = events.find_position(events.read_settled_end().id)
            newest = feed.make_event_lines(load_events(self.chosen)[:PAGE])
            whole = Fragment("feed", fragments.draw_feed_lines(newest))
            return [*counts, fragments.swap_fragment(whole)]
        self.position = found[-1][0]
        told = feed.make_item_lines([item for _, item in found])
        return [*counts, fragments.prepend_feed_lines(told)]
