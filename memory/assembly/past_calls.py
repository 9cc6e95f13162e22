"""The recorded calls of one Mysis, oldest first, each with all that is stored of its moment.

What many calls have in common is read once: their texts, their tools, the summaries.
They are read in batches, so that a walk over a million takes no more memory than one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import QuerySet

from memory.assembly.log_rows import read_rows_by_id
from memory.assembly.packing import unpack_sources
from memory.assembly.prepare import Subject
from memory.assembly.replay import (
    PastCall,
    build_past_call,
    find_standing,
    list_branches,
    select_used,
)
from memory.assembly.sent_view import (
    find_ends,
    list_end_texts,
    read_texts,
    render_ends,
    render_tools,
)
from memory.context.types import OfferedTools
from memory.models import Branch, HistorySummary, SentContext

# Few: the stored views of long histories are large once they are read.
BATCH = 10
# Tools of calls that are kept apart: each is tens of kilobytes.
MOST_TOOLS = 8


def walk_calls(calls: QuerySet[SentContext], now: Subject) -> Iterator[PastCall]:
    """The calls of one Mysis among these, in their order; the rest is as it is ``now``."""
    shared = _SharedReads(now.mysis_id)
    rows = calls.filter(mysis_id=now.mysis_id).select_related("call__turn")
    after = 0
    while batch := list(
        rows.filter(pk__gt=after).defer("ledger").order_by("pk")[:BATCH]
    ):
        shared.read_texts(batch)
        known = read_rows_by_id(_list_end_rows(batch))
        for sent in batch:
            offered = shared.read_tools(sent)
            shown = render_ends(sent, known, shared.texts, offered)
            summary = shared.find_summary(sent)
            standing = find_standing(sent.last_id or 0, shared.branches)
            yield build_past_call(sent, now, shown, summary, standing)
        after = batch[-1].pk


def _list_end_rows(batch: list[SentContext]) -> set[int]:
    """The rows that stand as they are at the ends of these views."""
    views = [unpack_sources(sent.view["sources"]) for sent in batch]
    ends = [sources[place] for sources in views for place in find_ends(sources)]
    # One that was joined from several rows is stored whole.
    return {source for source in ends if isinstance(source, int)}


@dataclass(slots=True)
class _SharedReads:
    """What was read for the calls so far; ``texts`` are those of the newest batch."""

    mysis_id: int
    texts: dict[str, str] = field(default_factory=dict)
    _tools: dict[str, OfferedTools | None] = field(default_factory=dict)
    branches: list[Branch] = field(init=False)
    _summaries: dict[int, list[HistorySummary]] = field(init=False)

    def __post_init__(self) -> None:
        self.branches = list_branches(self.mysis_id)
        self._summaries = {}
        for row in select_used(self.mysis_id).order_by("pk"):
            self._summaries.setdefault(row.generation, []).append(row)

    def read_texts(self, batch: list[SentContext]) -> None:
        """Read the texts of a batch, but for those of the one before."""
        wanted = {digest for sent in batch for digest in list_end_texts(sent)}
        kept = {digest: self.texts[digest] for digest in wanted & self.texts.keys()}
        self.texts = kept | read_texts(sorted(wanted - kept.keys()))

    def read_tools(self, sent: SentContext) -> OfferedTools | None:
        """The tools of a call: the very same object where they are the same."""
        key = repr(sent.view.get("tools"))
        if key not in self._tools:
            while len(self._tools) >= MOST_TOOLS:
                del self._tools[next(iter(self._tools))]
            self._tools[key] = render_tools(sent, self.texts)
        return self._tools[key]

    def find_summary(self, sent: SentContext) -> HistorySummary | None:
        """The summary that a call had, as `replay.find_summary` reads it."""
        rows = self._summaries.get(sent.stats.get("generation", 0), [])
        earlier = (row for row in reversed(rows) if row.created_at <= sent.created_at)
        return next(earlier, None)
