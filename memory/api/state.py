"""GET /myses/{id}/state, /snapshots, /summaries and /myses/{id}/summary.

What is known of the game and how well, and what stands for the older parts of a log.
The last tells both, and has an ETag, as programs ask for it often.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_vary_headers
from ninja import Query, Router, Schema
from pydantic import Field

from memory.api.parameters import (
    After,
    MysisReference,
    Page,
    Rows,
    Window,
    build_page,
    get_owner,
    make_unknown_mysis,
    one_of,
)
from memory.gamestate.confidence import Confidence
from memory.gamestate.layout import MOST_EVENTS
from memory.gamestate.render import render_block
from memory.gamestate.rows import StateRow, build_rows
from memory.gamestate.types import AccountState
from memory.handles import split_reference
from memory.models import (
    GameSnapshot,
    HistorySummary,
    SentContext,
    fetch_rows,
)
from memory.models.contexts import EFFECTIVE_POLICY
from memory.models.secret_tools import read_secret_tools
from memory.redaction import hide_secret_texts, hide_secrets
from memory.snapshots.reads import fetches_events, read_account_state, read_moments

state_router = Router(tags=["memory"])


class CauseOut(Schema):
    """An action or event that made something untrue, and at which tick."""

    tool: str = Field(examples=["mine"])
    tick: int | None = Field(examples=[1041])


class RowCauseOut(CauseOut):
    """A cause with what it touched."""

    fields: Annotated[list[str], Field(description="JSON paths; empty for all.")]


class DoubtedFieldOut(Schema):
    """A field that an action made untrue."""

    confidence: str = Field(
        examples=["invalidated"], json_schema_extra=one_of(Confidence)
    )
    cause: CauseOut


class StateRowOut(Schema):
    """One snapshot: how old, how far to believe it, and why not further."""

    tool: str = Field(examples=["get_ship"])
    args: dict[str, Any]
    confidence: str = Field(examples=["ageing"], json_schema_extra=one_of(Confidence))
    age_ticks: int | None = Field(examples=[7])
    age_seconds: float = Field(examples=[70.4])
    reason: str | None = Field(examples=[None])
    tick: int | None = Field(examples=[1035])
    captured_at: datetime
    fields: Annotated[
        dict[str, str | DoubtedFieldOut],
        Field(
            description="The confidence by JSON path; of a field in doubt an object "
            "that names the action which touched it.",
            examples=[
                {
                    "ship.hull": "fresh",
                    "ship.fuel": {
                        "confidence": "invalidated",
                        "cause": {"tool": "travel", "tick": 1041},
                    },
                }
            ],
        ),
    ]
    causes: Annotated[
        list[RowCauseOut],
        Field(description="All that put a field in doubt, the newest first."),
    ]
    content: Annotated[
        Any, Field(description="Under full=1: as the game sent it, events merged in.")
    ] = None


class StateWindow(Window):
    """A page of the state."""

    full: bool = Field(False, description="1: with the contents.")


class SnapshotFilter(StateWindow):
    """Whose snapshots are wanted."""

    username: str = Field(examples=["VoidWanderer"])


@state_router.get(
    "/myses/{reference}/state", response=Page[StateRowOut], exclude_unset=True
)
def read_state(
    request: HttpRequest, reference: MysisReference, wanted: Query[StateWindow]
) -> Rows:
    """The snapshots of the account that a Mysis flies; none where it has none."""
    account = get_owner(reference).account
    if account is None:
        return Rows(items=[], next=None)
    alive = GameSnapshot.objects.filter(logged_out_at=None)
    return _build_state_page(alive, account.username, wanted)


@state_router.get("/snapshots", response=Page[StateRowOut], exclude_unset=True)
def list_snapshots(request: HttpRequest, wanted: Query[SnapshotFilter]) -> Rows:
    """The snapshots of a game account, also those from before a logout."""
    username = wanted.username.replace("\x00", "")
    return _build_state_page(GameSnapshot.objects.all(), username, wanted)


def _build_state_page(
    found: QuerySet[GameSnapshot], username: str, wanted: StateWindow
) -> Rows:
    shown = found.filter(username=username).exclude(tool_name__in=read_secret_tools())
    page = build_page(shown, wanted)
    snapshots = tuple(row.to_snapshot() for row in page["items"])
    present = read_moments([username], timezone.now())[username]
    state = AccountState(username, snapshots, present)
    items = []
    for row, snapshot in zip(build_rows(state), snapshots, strict=True):
        content = {"content": snapshot.current} if wanted.full else {}
        items.append(_write_row(row) | content)
    return Rows(items=items, next=page["next"])


def _write_row(row: StateRow) -> dict[str, Any]:
    document = asdict(row)
    for path, cause in document.pop("field_causes").items():
        document["fields"][path] = {
            "confidence": row.fields[path],
            "cause": {"tool": cause["reason"], "tick": cause["tick"]},
        }
    document["causes"] = [
        {"tool": one.reason, "tick": one.tick, "fields": list(one.fields)}
        for one in row.causes
    ]
    return document | {"age_seconds": round(row.age_seconds, 3)}


# --- What stands for the older parts of a log

summaries_router = Router(tags=["memory"])


class SummaryText(Schema):
    """One summary and the span of memory ids that it stands for."""

    id: int = Field(examples=[5])
    mysis: int = Field(0, validation_alias="mysis_id", examples=[1])
    first_id: int
    through_id: int = Field(examples=[900])
    generation: int = Field(examples=[2])
    text: str = Field(examples=["Ada mined iron at Sol and sold it at a profit."])
    tokens_before: int = Field(examples=[42000])
    tokens_after: int = Field(examples=[600])
    status: str = Field(
        examples=["active"], json_schema_extra=one_of(HistorySummary.Status)
    )
    attempts: int
    error: str = Field(examples=[""])
    cost: float = Field(examples=[0.003])
    created_at: datetime


class SummaryFilter(Window):
    """Which summaries are wanted."""

    after: Annotated[After | None, Field(description="A summary id.")] = None
    mysis: str | None = Field(None, description="Number or name.", examples=["Ada"])


@summaries_router.get("/summaries", response=Page[SummaryText])
def list_summaries(request: HttpRequest, wanted: Query[SummaryFilter]) -> Rows:
    """History summaries, oldest first, with those that are no longer used."""
    rows = HistorySummary.objects.all()
    if wanted.mysis is not None:
        rows = rows.filter(mysis_id=get_owner(wanted.mysis).pk)
    return build_page(rows, wanted, after=wanted.after)


# --- The document of a Mysis, made again only when its text may have changed

KEPT_DOCUMENTS = 256
# Whose it is, and what it is made of, in one query: versions where rows have one, the id
# where they never change, else a hash of the row. The ORM takes as long to write the
# first part alone as all of the rest takes.
SOURCES = f"""
WITH owner AS (
  SELECT mysis.id, account.username, policy.options::text AS options
  FROM agents_mysis AS mysis
  LEFT JOIN agents_account AS account ON account.id = mysis.account_id
  LEFT JOIN memory_contextpolicy AS policy ON policy.id = {EFFECTIVE_POLICY}
  WHERE mysis.id = %(number)s OR mysis.name = %(name)s
)
SELECT id, username, options,
  (SELECT md5(summary::text) FROM memory_historysummary AS summary
   WHERE mysis_id = owner.id AND status = 'active'
   ORDER BY through_id DESC, id DESC LIMIT 1),
  (SELECT max(id) FROM memory_sentcontext WHERE mysis_id = owner.id),
  (SELECT md5(string_agg(concat_ws(' ', id, version), ',' ORDER BY id))
   FROM memory_gamesnapshot
   WHERE username = owner.username AND logged_out_at IS NULL),
  (SELECT md5(clock::text) FROM memory_accountclock AS clock
   WHERE username = owner.username),
  (SELECT md5(lexicon::text) FROM memory_lexicon AS lexicon
   WHERE username = owner.username),
  (SELECT md5(string_agg(action::text, ',' ORDER BY id))
   FROM memory_actionunderway AS action WHERE username = owner.username),
  (SELECT string_agg(concat_ws(' ', id, tick), ',') FROM (
     SELECT id, tick FROM memory_gameevent WHERE username = owner.username
     ORDER BY received_at DESC, id DESC LIMIT %(events)s) AS newest)
FROM owner
"""  # noqa: S608 (no input in the text)


@dataclass(frozen=True, slots=True)
class SummaryDocument:
    """The state block and the newest history summary.

    ``rough_state`` has its ages rounded down to powers of two: a fleet that rests has
    the same ETag for longer and longer, and yet no copy shows an age of less than half.
    """

    state: str
    rough_state: str
    summary: Mapping[str, Any] | None


def read_document(reference: str) -> SummaryDocument:
    """A Mysis's document, by one query if nothing has changed; raises a 404 Problem."""
    number, name = split_reference(reference)
    wanted = {"number": number, "name": name, "events": MOST_EVENTS}
    found = fetch_rows(SOURCES, wanted)
    if not found:
        raise make_unknown_mysis(reference)
    mysis_id, username, options, *sources = found[0]
    version = (
        *sources,
        int(timezone.now().timestamp()),
        settings.ZOEA_STATE_BLOCK_BYTES,
        settings.ZOEA_SECONDS_PER_TICK,
        repr(settings.ZOEA_STATE_AGES),
    )
    fetched = fetches_events(json.loads(options or "{}"))
    return _make_document(mysis_id, username, fetched, version)


@lru_cache(maxsize=KEPT_DOCUMENTS)
def _make_document(
    mysis_id: int, username: str | None, fetched: bool, version: tuple[object, ...]
) -> SummaryDocument:
    """The document as the next call would show it; ``version`` changes where it may."""
    shown: Mapping[str, str] = {}
    if username is not None:
        calls = SentContext.objects.filter(mysis_id=mysis_id).order_by("-id")
        last = calls.values_list("username", "facts").first()
        shown = last[1] if last and last[0] == username else {}
    state = read_account_state(
        username, last_shown=shown, newest_only=True, fetched=fetched
    )
    block = render_block(state, settings.ZOEA_STATE_BLOCK_BYTES)
    newest = HistorySummary.objects.filter(mysis_id=mysis_id, status="active")
    row = newest.order_by("-through_id", "-id").first()
    summary = SummaryText.from_orm(row).model_dump(mode="json") if row else None
    return SummaryDocument(block.text, block.rough, summary)


# --- GET /myses/{id}/summary: the state block and the past in one text

summary_router = Router(tags=["memory"])

MARKDOWN = "text/markdown"
STATE = "## Current Game State\n\nShip: hull 85/100, fuel 40/100"
OLDER = "## Summary of Earlier History"
PAST = "Ada mined iron at Sol and sold it at a profit."
# What the answer's type cannot say.
ETAG_AND_MARKDOWN = {
    "headers": {
        "ETag": {
            "description": "Give it back in If-None-Match: an unchanged answer is a "
            "304.",
            "schema": {"type": "string"},
        }
    },
    "content": {
        MARKDOWN: {
            "schema": {"type": "string"},
            "example": f"{STATE}\n\n{OLDER}\n\n{PAST}\n",
        }
    },
}


class SummaryOut(Schema):
    """The state block as it would be sent now, and the newest summary."""

    state: str = Field(examples=[STATE])
    summary: SummaryText | None


def _hide_secrets(document: SummaryDocument) -> SummaryDocument:
    summary = hide_secret_texts(document.summary)
    return SummaryDocument(
        hide_secrets(document.state), hide_secrets(document.rough_state), summary
    )


@summary_router.get(
    "/myses/{reference}/summary",
    response={200: SummaryOut, 304: None},
    openapi_extra={"responses": {200: ETAG_AND_MARKDOWN}},
)
def read_summary(request: HttpRequest, reference: MysisReference) -> HttpResponse:
    """The state block and the newest history summary, as JSON or Markdown.

    The ETag stands for what is told. It is a weak one: ages that only grew a little are
    no news, and it changes when one has doubled.
    """
    known_types = ["application/json", MARKDOWN]
    markdown = request.get_preferred_type(known_types) == MARKDOWN
    document = _hide_secrets(read_document(reference))
    told = repr((markdown, document.rough_state, document.summary))
    etag = f'W/"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'
    response = get_conditional_response(request, etag=etag)
    if response is None and markdown:
        past = f"\n\n{OLDER}\n\n{document.summary['text']}" if document.summary else ""
        content_type = f"{MARKDOWN}; charset=utf-8"
        response = HttpResponse(f"{document.state}{past}\n", content_type=content_type)
    elif response is None:
        response = JsonResponse({"state": document.state, "summary": document.summary})
    response["ETag"] = etag
    # A copy must be kept to be asked about; it is the caller's own, and asked about always.
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
    return response
