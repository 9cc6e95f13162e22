"""GET /myses/{id}/summary: what is known of the game and of the past, in one text."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Router, Schema

from . import telling
from .conditional import answer, prefers_markdown
from .summaries import SummaryText
from .telling import Told

router = Router(tags=["memory"])


class SummaryOut(Schema):
    """The state block as it would be sent now, and the newest summary."""

    state: str
    summary: SummaryText | None


@router.get(
    "/myses/{reference}/summary",
    response={200: SummaryOut, 304: None},
    openapi_extra={
        "responses": {
            200: {
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/SummaryOut"}
                    },
                    "text/markdown": {"schema": {"type": "string"}},
                }
            }
        }
    },
)
def read_summary(request: HttpRequest, reference: str) -> HttpResponse:
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
    older = f"\n\n## Summary of Earlier History\n\n{past}" if told.summary else ""
    return HttpResponse(
        f"{told.state}{older}\n", content_type="text/markdown; charset=utf-8"
    )


def _document(told: Told) -> HttpResponse:
    return JsonResponse({"state": told.state, "summary": told.summary})
