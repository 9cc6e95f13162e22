"""/tool-policies: what tools count as, where that was set by hand (A1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions
from agents.models import ToolPolicy
from memory.api.parameters import Body, Page, Rows, Window, build_example, build_page
from memory.context.types import Policy
from memory.problems import make_missing

tool_policies_router = Router(tags=["tools"])

ToolName = Annotated[
    str,
    Field(
        description="Its name, or tool/action for an action of a grouped tool.",
        examples=["trade_credits"],
    ),
]


class ToolPolicyOut(Schema):
    """What a tool counts as in the whole fleet, set by hand.

    It stands above what the game says of the tool and what its name suggests.
    """

    tool: str = Field(examples=["trade_credits"])
    policy: Policy = Field(examples=["secret"])
    updated_at: datetime


class ToolPolicyIn(Body):
    """What it shall count as.

    secret: arguments and results are hidden everywhere; print: its results are output
    in a coalesced context; snapshot, query, mutation, drain: what kind of call it is.
    """

    model_config = build_example(policy="secret")

    policy: Policy


@tool_policies_router.get("/tool-policies", response=Page[ToolPolicyOut])
def list_tool_policies(request: HttpRequest, window: Query[Window]) -> Rows:
    """All that were set by hand, oldest first; other tools go by what is known of them."""
    return build_page(ToolPolicy.objects.all(), window)


@tool_policies_router.put("/tool-policies/{path:tool}", response=ToolPolicyOut)
def set_tool_policy(
    request: HttpRequest, tool: ToolName, body: ToolPolicyIn
) -> ToolPolicy:
    """Set it; it counts from the next call on. The tool need not be there yet."""
    return actions.save_tool_policy(tool=tool, policy=body.policy)


@tool_policies_router.delete("/tool-policies/{path:tool}", response={204: None})
def delete_tool_policy(request: HttpRequest, tool: ToolName) -> Status[None]:
    """Take it back: the tool goes by what is known of it again."""
    if not actions.delete_tool_policy(tool=tool.replace("\x00", "")):
        raise make_missing(f"Nothing is set for a tool {tool[:100]!r}.")
    return Status(204, None)
