"""GET /audit and /audit/export: who did what, from where and by which token; for admins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema
from ninja.responses import NinjaJSONEncoder
from pydantic import Field

from agents.api.lanes import Moment
from agents.lab.table import write_lines
from agents.streamed import StreamedAnswer
from memory import audit
from memory.api.parameters import Page, Rows, TextOrNull, Window, build_page
from memory.models import AuditEntry
from memory.redaction import hide_secret_texts

audit_router = Router(tags=["audit"])

COLUMNS = (
    *("id", "at", "who", "token", "address"),
    *("action", "object", "before", "after"),
)
KINDS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
# What the OpenAPI document says of the files.
FILES = {
    "description": "The file, streamed.",
    "content": {
        "text/csv": {
            "schema": {"title": "AuditTable", "type": "string"},
            "example": ",".join(COLUMNS),
        },
        "application/x-ndjson": {
            "schema": {"title": "AuditLines", "type": "string"},
            "example": '{"id": 41, "who": "operator:grace", "action": "mysis.start"}',
        },
    },
}
# Rows that are read at once.
BATCH = 500

Who = Annotated[
    str,
    Field(max_length=200, description="How it begins.", examples=["operator:grace"]),
]
What = Annotated[
    str,
    Field(
        max_length=300,
        description="How the action or the object begins.",
        examples=["prompt"],
    ),
]


class AuditEntryOut(Schema):
    """One act. ``before`` and ``after`` hold what it changed, secrets never.

    ``token`` is the name of the API token, null for a person. A long text is cut, with
    its length and its SHA-256.
    """

    id: int = Field(examples=[41])
    at: datetime
    who: str = Field(examples=["operator:grace"])
    token: TextOrNull = Field(examples=[None])
    address: TextOrNull = Field(examples=["192.0.2.7"])
    action: str = Field(examples=["provider.update"])
    object: TextOrNull = Field(examples=["provider:local"])
    before: dict[str, Any] = Field(examples=[{"window": None, "key": "stored"}])
    after: dict[str, Any] = Field(examples=[{"window": 32768, "key": "changed"}])


class _Wanted(Schema):
    """Which entries are wanted."""

    who: Who = ""
    what: What = ""
    since: Annotated[
        Moment | None, Field(description="From this moment on; UTC without a zone.")
    ] = None

    def select(self) -> QuerySet[AuditEntry]:
        """The entries, by id."""
        rows = audit.select_entries(
            self.who.replace("\x00", ""), self.what.replace("\x00", "")
        )
        if self.since is not None:
            rows = rows.filter(at__gte=self.since)
        return rows.order_by("pk")


class AuditFilter(_Wanted, Window):
    """Which entries are wanted, and which page of them."""


class ExportFilter(_Wanted):
    """Which entries are wanted, and as what."""

    format: Literal["csv", "jsonl"] = "jsonl"


@audit_router.get("/audit", response=Page[AuditEntryOut])
def list_audit(request: HttpRequest, wanted: Query[AuditFilter]) -> Rows:
    """What people and programs did, oldest first. For admins."""
    return build_page(wanted.select(), wanted)


@audit_router.get("/audit/export", openapi_extra={"responses": {200: FILES}})
def export_audit(request: HttpRequest, wanted: Query[ExportFilter]) -> StreamedAnswer:
    """The same as a file, all of it: CSV, or one JSON object a line. For admins."""
    told = wanted.model_dump(mode="json", exclude_defaults=True)
    if request.method == "GET":
        audit.record("audit.download", after=told)
    # Those that are there now: one that comes meanwhile would have no end.
    newest = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first()
    rows = wanted.select().filter(pk__lte=newest or 0)
    write = _write_csv if wanted.format == "csv" else _write_lines
    return StreamedAnswer(write(rows), KINDS[wanted.format], f"audit.{wanted.format}")


def _write_lines(rows: QuerySet[AuditEntry]) -> Iterator[str]:
    for batch in _read_batches(rows):
        yield "".join(f"{_write_line(row)}\n" for row in batch)


def _write_line(row: AuditEntry) -> str:
    """An entry as the list has it."""
    told = hide_secret_texts(AuditEntryOut.from_orm(row).model_dump())
    return json.dumps(told, cls=NinjaJSONEncoder, ensure_ascii=False)


def _write_csv(rows: QuerySet[AuditEntry]) -> Iterator[str]:
    yield write_lines([COLUMNS])
    for batch in _read_batches(rows):
        yield write_lines([_write_cell(row, name) for name in COLUMNS] for row in batch)


def _read_batches(rows: QuerySet[AuditEntry]) -> Iterator[list[AuditEntry]]:
    """The rows in batches, each read by itself: nothing is held while a client reads."""
    last = 0
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        yield batch
        last = batch[-1].pk


def _write_cell(row: AuditEntry, name: str) -> str:
    value = hide_secret_texts(getattr(row, name))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return value.isoformat() if isinstance(value, datetime) else str(value)
