"""What the calls of a turn have read, and what the newest call of a Mysis was made of.

The next call goes on from both as far as the rows are the same; where they are not, or
anything else that a view depends on, it is made anew, so no view depends on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from memory.assembly.load import LoadedTail, SharedRows
from memory.assembly.sent_view import LastCall, Reference, find_stored_texts
from memory.context.assemble import EarlierWork
from memory.models import SentContext
from memory.snapshots.reads import KnownSnapshots

# About how many bytes the works of all Myses may have together in this process: those
# of 100 Myses that read 120 messages each. Each worker has its own.
_MOST_KEPT = 96_000_000
# Beside its text; counted object by object where 50 Myses flew.
_BYTES_PER_ROW = 6_000
# For how many rounds of all that are kept one may be unused before it goes.
_ROUNDS = 16


@dataclass(slots=True)
class Work:
    """What the newest call of a Mysis was made of in this process, and its view.

    The next one, of whichever turn, goes on from there as far as its rows are the same.
    ``stored`` are the digests of the texts that the sent context ``sent_id`` names.
    """

    earlier: EarlierWork = field(default_factory=EarlierWork)
    tail: LoadedTail | None = None
    messages: list[dict[str, Any]] | None = None
    digest: str = ""
    references: dict[int, Reference] = field(default_factory=dict)
    sent_id: int | None = None
    stored: frozenset[str] = frozenset()
    size: int = 0
    used: int = 0


@dataclass(slots=True)
class TurnReads:
    """What the calls of one turn have read; each reads only what is new since.

    ``apart``: they are no calls that are sent, such as those of a replay; their work is
    their own, and that of the Mysis's turns is left alone. ``shared`` rows are read for
    several views of one moment.
    """

    last: LastCall | None = None
    tail: LoadedTail | None = None
    snapshots: KnownSnapshots = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    apart: bool = False
    shared: SharedRows | None = None

    def list_stored(self) -> frozenset[str]:
        """The digests of the texts that the call before names."""
        if self.last is None:
            return frozenset()
        sent = self.last.sent
        if sent.pk == self.work.sent_id:
            return self.work.stored
        return find_stored_texts(sent.view) if sent.view else frozenset()

    def note_sent(self, sent: SentContext, texts: Mapping[str, str]) -> None:
        """Note the texts that a sent context names."""
        self.work.sent_id, self.work.stored = sent.pk, frozenset(texts)


def share_past_reads(count: int) -> Iterator[TurnReads]:
    """The reads of so many views of each past call, which read the same rows once."""
    shared = SharedRows()
    return (TurnReads(apart=True, shared=shared) for _ in range(count))


# By Mysis, those that were used last at the end. Whoever uses one takes it out.
_works: dict[int, Work] = {}
_works_lock = Lock()
_uses = itertools.count()


def take_work(mysis_id: int) -> Work | None:
    """What the newest call of a Mysis was made of; None if that is not kept."""
    with _works_lock:
        return _works.pop(mysis_id, None)


def keep_work(mysis_id: int, work: Work, loaded: LoadedTail) -> None:
    """Keep it for the next call, with the rows that were ``loaded`` for it.

    Myses take turns: the one that was used longest ago is the next to be used. So where
    there is no room for all, those that are kept stay, until one is not used any more.
    """
    # A text is held as it was read, as a message of the view, and as JSON.
    rows = loaded.rows.values()
    work.size = sum([3 * (row.size or 0) + _BYTES_PER_ROW for row in rows])
    with _works_lock:
        work.used = next(_uses)
        _works[mysis_id] = work
        while sum(each.size for each in _works.values()) > _MOST_KEPT:
            oldest = next(iter(_works))
            unused = work.used - _works[oldest].used > _ROUNDS * len(_works)
            del _works[oldest if unused else mysis_id]
            if not unused:
                break
