"""GET /myses/{id}/memories: the log of one Mysis."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from memory.hiding import secret_tools, shown
from memory.models import Memory, Origin, Role
from memory.owners import owner_of

from .fields import After, MysisReference
from .pages import Page, Rows, Window, page_of

router = Router(tags=["memory"])

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_nearby", "arguments": "{}"},
}


class MemoryOut(Schema):
    """One stored message; ``turn`` is the id of the turn it belongs to."""

    id: int = Field(examples=[1234])
    turn: int | None = Field(None, validation_alias="turn_id", examples=[17])
    role: str = Field(examples=["assistant"])
    origin: str = Field(examples=["agent"])
    sender: str | None = Field(examples=[None])
    content: str = Field(examples=["Scanning."])
    reasoning: str = Field(examples=["I do not know yet what is here."])
    tool_calls: list[Any] = Field(examples=[[CALL]])
    tool_call_id: str | None = Field(examples=[None])
    tool_name: str | None = Field(examples=[None])
    is_error: bool
    tick: int | None = Field(examples=[1042])
    created_at: datetime

    @staticmethod
    def resolve_sender(row: Memory) -> str | None:
        """Null where nobody is named."""
        return row.sender or None

    @staticmethod
    def resolve_tool_call_id(row: Memory) -> str | None:
        """Null for anything but a result."""
        return row.tool_call_id or None

    @staticmethod
    def resolve_tool_name(row: Memory) -> str | None:
        """Null for anything but a result."""
        return row.tool_name or None


class MemoryFilter(Window):
    """What of the log is wanted."""

    after: Annotated[After | None, Field(description="A memory id.")] = None
    role: Role | None = Field(None, examples=["assistant"])
    origin: Origin | None = Field(None, examples=["agent"])


@router.get("/myses/{reference}/memories", response=Page[MemoryOut])
def list_memories(
    request: HttpRequest, reference: MysisReference, wanted: Query[MemoryFilter]
) -> Rows:
    """The stored messages of a Mysis, oldest first."""
    rows = Memory.objects.filter(mysis_id=owner_of(reference).pk)
    if wanted.role:
        rows = rows.filter(role=wanted.role)
    if wanted.origin:
        rows = rows.filter(origin=wanted.origin)
    page = page_of(rows, wanted, after=wanted.after)
    secret = secret_tools()
    page["items"] = [shown(row, secret) for row in page["items"]]
    return page
