"""GET /summaries: what stands for the older parts of histories."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_vary_headers
from ninja import Query, Router, Schema
from pydantic import Field

from memory.api.parameters import After, MysisReference, Page, Rows, Window, page_of
from memory.gamestate.layout import MOST
from memory.gamestate.render import render
from memory.lookup import named, owner_of, unknown
from memory.models import HistorySummary, SentContext
from memory.snapshots.reads import account_state, fetches_events

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
    status: str = Field(examples=["active"])
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
        rows = rows.filter(mysis_id=owner_of(wanted.mysis).pk)
    return page_of(rows, wanted, after=wanted.after)


# SECTION What a summary tells now: made anew when it may read otherwise, and only then.
#
# Two questions are apart here. Whether the text has to be made again is asked of the
# database by one query: the versions of the rows that it is made of, as PostgreSQL keeps
# them. Whether a client has to be sent it again is asked of the text itself.

KEPT_TEXTS = 256

# A row's place and writer change with every update of it, also of a column that
# somebody adds later. The place alone is used again after a vacuum, the writer alone
# is the same for two updates of one transaction.
VERSION = """
SELECT
  (SELECT concat_ws(' ', id, ctid, xmin) FROM memory_historysummary
   WHERE mysis_id = %(mysis)s AND status = 'active'
   ORDER BY through_id DESC, id DESC LIMIT 1),
  (SELECT max(id) FROM memory_sentcontext WHERE mysis_id = %(mysis)s),
  (SELECT md5(string_agg(concat_ws(' ', id, ctid, xmin), ',' ORDER BY id))
   FROM memory_gamesnapshot WHERE username = %(username)s AND logged_out_at IS NULL),
  (SELECT concat_ws(' ', ctid, xmin) FROM memory_accountclock
   WHERE username = %(username)s),
  (SELECT concat_ws(' ', ctid, xmin) FROM memory_lexicon
   WHERE username = %(username)s),
  (SELECT md5(string_agg(concat_ws(' ', id, ctid, xmin), ',' ORDER BY id))
   FROM memory_actionunderway WHERE username = %(username)s),
  (SELECT string_agg(concat_ws(' ', id, ctid, xmin), ',') FROM (
     SELECT id, ctid, xmin FROM memory_gameevent WHERE username = %(username)s
     ORDER BY received_at DESC, id DESC LIMIT %(events)s) AS newest)
"""

# Ages as the state block writes them.
AGE = re.compile(
    r"(?P<number>\d{1,9}) (?P<unit>ticks|seconds|minutes|h)(?: \d{1,2} min)?"
    r" (?P<end>ago|old)(?: \([\d.e+]{1,20} seconds\))?"
)


@dataclass(frozen=True, slots=True)
class SummaryDocument:
    """The state block, the newest history summary, and what an ETag is made of."""

    state: str
    summary: Mapping[str, Any] | None
    mark: str


@dataclass(frozen=True, slots=True)
class Place:
    """Whose summary, and all that its text depends on beside the rows."""

    mysis_id: int
    username: str | None
    fetched: bool
    version: tuple[object, ...]
    second: int
    rules: str


def tell_summary(reference: str) -> SummaryDocument:
    """What there is to tell of a Mysis; raises a 404 Problem.

    Costs two queries as long as nothing was written and the second is the same.
    """
    myses = apps.get_model("agents", "Mysis").objects
    columns = myses.values_list("pk", "account__username", "policy__options")
    found = named(columns, reference).first()
    if found is None:
        raise unknown(reference)
    mysis_id, username, options = found
    place = Place(
        mysis_id=mysis_id,
        username=username,
        fetched=fetches_events(options or {}),
        version=_version(mysis_id, username),
        second=int(timezone.now().timestamp()),
        rules=_rules(),
    )
    return _made(place)


def _version(mysis_id: int, username: str | None) -> tuple[object, ...]:
    wanted: dict[str, str | int | None]
    wanted = {"mysis": mysis_id, "username": username, "events": MOST}
    with connection.cursor() as cursor:
        cursor.execute(VERSION, wanted)
        return tuple(cursor.fetchone() or ())


def _rules() -> str:
    size, pace = settings.ZOEA_STATE_BLOCK_BYTES, settings.ZOEA_SECONDS_PER_TICK
    return repr((size, pace, settings.ZOEA_STATE_AGES))


@lru_cache(maxsize=KEPT_TEXTS)
def _made(place: Place) -> SummaryDocument:
    state = _state(place)
    newest = HistorySummary.objects.filter(mysis_id=place.mysis_id, status="active")
    row = newest.order_by("-through_id", "-id").first()
    summary = SummaryText.from_orm(row).model_dump(mode="json") if row else None
    return SummaryDocument(state, summary, f"{aged(state)}\n{summary}")


def _state(place: Place) -> str:
    """The state block as the next call of this Mysis would show it."""
    shown: Mapping[str, str] = {}
    if place.username is not None:
        calls = SentContext.objects.filter(mysis_id=place.mysis_id).order_by("-id")
        last = calls.values_list("username", "facts").first()
        shown = last[1] if last and last[0] == place.username else {}
    state = account_state(
        place.username, last_shown=shown, newest_only=True, fetched=place.fetched
    )
    return render(state, settings.ZOEA_STATE_BLOCK_BYTES).text


def aged(text: str) -> str:
    """A text with its ages rounded down to a power of two.

    Nothing new is told by an age that only grew a little. So a fleet that rests has
    the same ETag for longer and longer, and yet no copy tells an age of less than half.
    """
    return AGE.sub(_rounded, text)


def _rounded(match: re.Match[str]) -> str:
    size = int(match["number"]).bit_length()
    return f"2^{size} {match['unit']} {match['end']}"


# SECTION Answers that a client need not be sent twice: ETag, 304, and Accept.

MARKDOWN = "text/markdown"


def prefers_markdown(request: HttpRequest) -> bool:
    """Whether the Accept header likes Markdown better than JSON."""
    preferred = request.get_preferred_type(["application/json", MARKDOWN])
    return preferred == MARKDOWN


def answer(
    request: HttpRequest, version: Any, make: Callable[[], HttpResponse]
) -> HttpResponse:
    """What ``make`` makes, with an ETag of ``version``; 304 where that is known.

    ``version`` is anything whose repr changes whenever the answer tells something new.
    The ETag is a weak one, as two answers of one version need not be the same bytes.
    """
    etag = f'W/"{hashlib.sha256(repr(version).encode()).hexdigest()[:32]}"'
    known = get_conditional_response(request, etag=etag)
    response = known if isinstance(known, HttpResponse) else make()
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
    return response


# SECTION GET /myses/{id}/summary: what is known of the game and of the past, in one text.

summary_router = Router(tags=["memory"])

STATE = "## Current Game State\n\nShip: hull 85/100, fuel 40/100"
OLDER = "## Summary of Earlier History"
PAST = "Ada mined iron at Sol and sold it at a profit."
#: What the answer's type cannot say.
ETAG_AND_MARKDOWN = {
    "headers": {
        "ETag": {
            "description": "Give it back in If-None-Match: an unchanged answer is a "
            "304.",
            "schema": {"type": "string"},
        }
    },
    "content": {
        "text/markdown": {
            "schema": {"type": "string"},
            "example": f"{STATE}\n\n{OLDER}\n\n{PAST}\n",
        }
    },
}


class SummaryOut(Schema):
    """The state block as it would be sent now, and the newest summary."""

    state: str = Field(examples=[STATE])
    summary: SummaryText | None


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
    markdown = prefers_markdown(request)
    told = tell_summary(reference)
    make = _markdown if markdown else _document
    return answer(request, (markdown, told.mark), lambda: make(told))


def _markdown(told: SummaryDocument) -> HttpResponse:
    past = told.summary["text"] if told.summary else ""
    older = f"\n\n{OLDER}\n\n{past}" if told.summary else ""
    return HttpResponse(
        f"{told.state}{older}\n", content_type="text/markdown; charset=utf-8"
    )


def _document(told: SummaryDocument) -> HttpResponse:
    return JsonResponse({"state": told.state, "summary": told.summary})
