"""GET /myses/{id}/state and /summary: what is known of the game, and said so."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from memory import state as snapshots
from memory.gamestate.render import render
from memory.gamestate.rows import StateRow, rows
from memory.gamestate.types import AccountState, Snapshot
from memory.models import GameSnapshot, HistorySummary
from memory.owners import Owner, owner_of

from .conditional import answer, prefers_markdown
from .pages import Page, Rows, Window, page_of
from .summaries import SummaryText

router = Router(tags=["memory"])

VERSIONED = (
    "tool_name",
    "args_key",
    "captured_at",
    "stale_reason",
    "stale_tick",
    "stale_fields",
    "field_ticks",
)


class StateRowOut(Schema):
    """One snapshot: how old, how far to believe it, and why not further."""

    tool: str
    args: dict[str, Any]
    confidence: str
    age_ticks: int | None
    age_seconds: float
    reason: str | None
    tick: int | None
    captured_at: datetime
    fields: dict[str, str]
    content: Annotated[
        Any, Field(description="Under full=1: as the game sent it, events merged in.")
    ] = None


class StateOut(Schema):
    """The snapshots of the account that a Mysis flies."""

    items: list[StateRowOut]
    next: str | None = None


class StateFilter(Schema):
    """What of the state is wanted."""

    full: bool = Field(False, description="1: with the contents.")


class SummaryOut(Schema):
    """The state block as it would be sent now, and the newest summary."""

    state: str
    summary: SummaryText | None


@router.get("/myses/{reference}/state", response=StateOut, exclude_unset=True)
def read_state(
    request: HttpRequest, reference: str, wanted: Query[StateFilter]
) -> dict[str, Any]:
    """The account's snapshots; none where the Mysis has no account."""
    owner = owner_of(reference)
    if owner.account is None:
        return {"items": [], "next": None}
    state = snapshots.account_state(owner.account.username)
    table = zip(rows(state), state.snapshots, strict=True)
    return {
        "items": [_line(row, snapshot, wanted.full) for row, snapshot in table],
        "next": None,
    }


def _line(row: StateRow, snapshot: Snapshot, full: bool) -> dict[str, Any]:
    values = asdict(row)
    values["age_seconds"] = round(row.age_seconds, 3)
    if full:
        values["content"] = snapshot.current
    return values


class SnapshotFilter(Window, StateFilter):
    """Whose snapshots are wanted."""

    username: str


@router.get("/snapshots", response=Page[StateRowOut], exclude_unset=True)
def list_snapshots(request: HttpRequest, wanted: Query[SnapshotFilter]) -> Rows:
    """The snapshots of a game account, also those from before a logout."""
    username = wanted.username.replace("\x00", "")
    found = page_of(GameSnapshot.objects.filter(username=username), wanted)
    state = AccountState(
        username=username,
        snapshots=tuple(_tombstoned(row) for row in found["items"]),
        current_tick=snapshots.tick_of(username),
        now=timezone.now(),
        seconds_per_tick=settings.ZOEA_SECONDS_PER_TICK,
        thresholds=settings.ZOEA_STATE_AGES,
    )
    table = zip(rows(state), state.snapshots, strict=True)
    lines = [_line(row, snapshot, wanted.full) for row, snapshot in table]
    return Rows(items=lines, next=found["next"])


def _tombstoned(row: GameSnapshot) -> Snapshot:
    snapshot = snapshots.snapshot_of(row)
    if row.logged_out_at is None:
        return snapshot
    return replace(snapshot, logged_out=True)


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
    """The state block and the newest history summary, as JSON or Markdown."""
    owner = owner_of(reference)
    markdown = prefers_markdown(request)
    newest = (
        HistorySummary.objects.filter(mysis_id=owner.pk, status="active")
        .order_by("-through_id", "-id")
        .first()
    )
    version = (markdown, newest and newest.pk, state_version(owner))
    return answer(request, version, lambda: _summary(owner, newest, markdown))


def state_block(owner: Owner) -> str:
    """The state block of a Mysis's account as it reads at this moment."""
    username = owner.account.username if owner.account else None
    return render(snapshots.account_state(username)).text


def state_version(owner: Owner) -> tuple[object, ...]:
    """Changes whenever the state block does: with a snapshot, or with a tick.

    Where no tick was ever seen, a tick's length of wall time stands for one.
    """
    if owner.account is None:
        return ()
    username = owner.account.username
    tick = snapshots.tick_of(username)
    if tick is None:
        tick = -int(timezone.now().timestamp() // settings.ZOEA_SECONDS_PER_TICK)
    found = GameSnapshot.objects.filter(username=username, logged_out_at=None)
    return (username, tick, *found.order_by("pk").values_list(*VERSIONED))


def _summary(
    owner: Owner, newest: HistorySummary | None, markdown: bool
) -> HttpResponse:
    state = state_block(owner)
    if markdown:
        older = f"\n\n## Summary of Earlier History\n\n{newest.text}" if newest else ""
        return HttpResponse(
            f"{state}{older}\n", content_type="text/markdown; charset=utf-8"
        )
    summary = SummaryText.from_orm(newest).model_dump(mode="json") if newest else None
    return JsonResponse({"state": state, "summary": summary})
