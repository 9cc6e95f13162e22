"""GET /accounts: game accounts, never with a password."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents.models import Account
from memory.api.pages import Page, Rows, Window, page_of

router = Router(tags=["accounts"])


class AccountOut(Schema):
    """A game account; ``assigned_to`` is the name of the Mysis that owns it."""

    id: int
    username: str = Field(examples=["VoidWanderer"])
    empire: str = Field(examples=["solarian"])
    player_id: str = Field(examples=["p_81"])
    assigned_to: str | None = Field(examples=["Ada"])
    created_at: datetime

    @staticmethod
    def resolve_assigned_to(row: Account) -> str | None:
        """Null for a free account."""
        return row.assigned_to.name if row.assigned_to else None


@router.get("/accounts", response=Page[AccountOut])
def list_accounts(request: HttpRequest, window: Query[Window]) -> Rows:
    """All game accounts."""
    return page_of(Account.objects.select_related("assigned_to"), window)
