"""Search in broadcasts: each is found once, however many received it (W11)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.safestring import SafeString

from agents.models import Broadcast, Mysis
from memory.handles import RecallError, parse_id
from memory.models import Memory
from memory.redaction import hide_secrets
from memory.search.query import Mode, TextQuery, limit_time
from memory.search.results import build_pattern, filter_matching, make_snippet
from memory.search.visibility import fetch_seen, mask_texts

SCHEME = "broadcast://"


@dataclass(frozen=True, slots=True)
class BroadcastHit:
    """One match; ``snippet`` is HTML, escaped, with ``<mark>`` around hits."""

    id: int
    content: str
    sender: str
    snippet: SafeString
    timestamp: datetime


def search_broadcasts(  # noqa: PLR0913 (one keyword for each part of a question)
    *,
    query: str,
    mode: Mode = "fts",
    limit: int = 20,
    before: int | None = None,
    mysis_id: int | None = None,
    reader: Mysis | None = None,
    ignore_case: bool = False,
    stem: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    seconds: float | None = None,
) -> list[BroadcastHit]:
    """The newest matching broadcasts, newest first; secrets are taken out (A11).

    ``mysis_id``: only what that Mysis received or sent. ``reader``: what that Mysis may
    know, see `select_readable`. Raises SlowSearchError.
    """
    wanted = TextQuery(
        query=query.replace("\x00", ""),
        mode=mode,
        mysis_id=mysis_id,
        before=before,
        ignore_case=ignore_case,
        stem=stem,
    )
    pattern = build_pattern(wanted)
    matching = select_matching_broadcasts(wanted, reader)
    if since is not None:
        matching = matching.filter(created_at__gte=since)
    if until is not None:
        matching = matching.filter(created_at__lt=until)
    with limit_time(seconds):
        rows = fetch_seen(matching, wanted, limit, lambda row: mask_texts(row.text))
    return [
        BroadcastHit(
            id=row.pk,
            content=text,
            sender=row.sender,
            snippet=make_snippet(text, pattern),
            timestamp=row.created_at,
        )
        for row in rows
        for text in [hide_secrets(row.text)]
    ]


def select_matching_broadcasts(
    wanted: TextQuery, reader: Mysis | None = None
) -> QuerySet[Broadcast]:
    """The matching broadcasts that a reader may know, newest first; None may know all."""
    rows = Broadcast.objects.all() if reader is None else select_readable(reader)
    if wanted.before is not None:
        rows = rows.filter(pk__lt=wanted.before)
    if wanted.mysis_id is not None:
        rows = rows.filter(_is_of(wanted.mysis_id))
    return filter_matching(rows.defer("vector").order_by("-pk"), wanted, "text")


def select_readable(mysis: Mysis) -> QuerySet[Broadcast]:
    """The broadcasts that a Mysis may know (W11, I27).

    Those to the whole fleet, to its group and to its tags, whether it was there when
    they were sent or came later; and what it received or sent. None that was taken back.
    """
    fleet = Q(group="", tag="")
    own = Q(group=mysis.group, tag="") | Q(group="", tag__in=mysis.tags)
    gone = Memory.objects.filter(mysis=mysis, broadcast=OuterRef("pk"))
    return Broadcast.objects.filter(
        fleet | own | _is_of(mysis.pk), ~Exists(gone.exclude(branch=None))
    )


def _is_of(mysis_id: int) -> Q:
    got = Memory.objects.filter(mysis_id=mysis_id, broadcast=OuterRef("pk"))
    return Q(mysis_id=mysis_id) | Q(Exists(got))


def read_broadcast(handle: str, reader: Mysis | None) -> str:
    """The whole text behind ``broadcast://<id>``; raises RecallError.

    ``reader`` is the Mysis that asks, None for who may read all.
    """
    number = parse_id(handle.removeprefix(SCHEME).strip())
    rows = Broadcast.objects.all() if reader is None else select_readable(reader)
    found = rows.filter(pk=-1 if number is None else number)
    text = found.values_list("text", flat=True).first()
    if text is None:
        raise RecallError(
            f"There is no broadcast {handle[:100]}. zoea_search_broadcasts tells the "
            "handles of those that you may read."
        )
    return text
