"""/digest: what happened since a moment, as JSON or Markdown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from ninja import Query, Router, Schema
from pydantic import Field

from agents.dashboard.digest import describe_digest, parse_since, share_digest
from agents.dashboard.digest_text import write_markdown
from memory.problems import make_invalid

digest_router = Router(tags=["fleet"])

MARKDOWN = "text/markdown"
EXAMPLE = """## Fleet, 24 Nov 21:00 to 25 Nov 05:00 UTC (8 h)

**Earned**

- +12,400 credits in 1,240 turns, 3.2M tokens, $1.23
"""


class Earner(Schema):
    """One of the best or worst; ``credits_per_hour`` is null where unknown."""

    mysis: int = Field(examples=[1])
    name: str = Field(examples=["Ada"])
    credits: int = Field(examples=[5200])
    credits_per_hour: float | None = Field(examples=[650.0])


class Happening(Schema):
    """Equal events, counted: ``what`` is a state, a code or text, a rule, or fields.

    ``names`` are the first of the ``myses``; ``text`` is that of the newest error.
    """

    kind: str = Field(examples=["mysis.state"])
    what: str = Field(examples=["stopped"])
    by: str | None = Field(examples=["operator:grace"])
    count: int = Field(examples=[2])
    myses: int = Field(examples=[2])
    names: list[str] = Field(examples=[["Ada", "Brahe"]])
    text: str | None = Field(examples=[None])


class Change(Schema):
    """A version of a prompt or a policy; without a ``by`` nobody knows who."""

    name: str = Field(examples=["captain v3"])
    by: str = Field(examples=["operator:grace"])
    note: str = Field(examples=["shorter"])


class DigestOut(Schema):
    """What happened; ``credits`` is null where nothing told them, cost in US dollars.

    ``orders`` counts by state those that were given; ``idle`` counts who idles unasked
    now. ``happened`` has the kinds of events, and ``settings`` for changed Myses.
    """

    since: datetime
    until: datetime
    empty: bool = Field(examples=[False])
    credits: int | None = Field(examples=[12400])
    turns: int = Field(examples=[1240])
    tokens: int = Field(examples=[3200000])
    cost: float = Field(examples=[1.23])
    best: list[Earner]
    worst: list[Earner]
    happened: list[Happening]
    orders: dict[str, int] = Field(examples=[{"done": 2, "shown": 1}])
    prompts: list[Change]
    policies: list[Change]
    idle: int = Field(examples=[0])


class AskedDigest(Schema):
    """Since when, and how it is written."""

    since: Annotated[
        str,
        Field(
            max_length=40,
            description="The last minutes, hours or days, of 5m to 31d, or a moment.",
            examples=["8h"],
        ),
    ] = "24h"
    format: Annotated[
        Literal["json", "md"] | None,
        Field(description="Without it, what `Accept` asks for.", examples=["json"]),
    ] = None


@digest_router.get(
    "/digest",
    response=DigestOut,
    openapi_extra={
        "responses": {
            200: {
                "content": {
                    MARKDOWN: {"schema": {"type": "string"}, "example": EXAMPLE}
                }
            }
        }
    },
)
def read_digest(
    request: HttpRequest, response: HttpResponse, asked: Query[AskedDigest]
) -> Any:
    """What happened since a moment: credits, stops, errors, orders, changes, cost."""
    now = timezone.now()
    try:
        since = parse_since(asked.since, now)
    except ValueError as error:
        raise make_invalid("since", str(error)) from error
    digest = share_digest(since, now)
    wanted = request.get_preferred_type(["application/json", MARKDOWN])
    if asked.format == "md" or (asked.format is None and wanted == MARKDOWN):
        text = write_markdown(digest)
        response = HttpResponse(text, content_type=f"{MARKDOWN}; charset=utf-8")
        answer: Any = response
    else:
        answer = describe_digest(digest)
    patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
    return answer
