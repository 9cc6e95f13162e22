"""GET /myses/{id}/summary: what is known of the game and of the past, in one text."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Router, Schema
from pydantic import Field

from . import telling
from .conditional import answer, prefers_markdown
from .fields import MysisReference
from .summaries import SummaryText
from .telling import Told

router = Router(tags=["memory"])

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


@router.get(
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
    told = telling.told(reference)
    make = _markdown if markdown else _document
    return answer(request, (markdown, told.mark), lambda: make(told))


def _markdown(told: Told) -> HttpResponse:
    past = told.summary["text"] if told.summary else ""
    older = f"\n\n{OLDER}\n\n{past}" if told.summary else ""
    return HttpResponse(
        f"{told.state}{older}\n", content_type="text/markdown; charset=utf-8"
    )


def _document(told: Told) -> HttpResponse:
    return JsonResponse({"state": told.state, "summary": told.summary})
