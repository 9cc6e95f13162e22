"""POST /myses/{id}/command: one game tool, run by hand."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from agents.manual import run_command
from memory.api.fields import Body, ErrorOut, MysisReference, Name, example
from memory.api.memories import MemoryOut
from memory.models import Memory

from . import lookup

router = Router(tags=["myses"])


class CommandIn(Body):
    """A tool of the game and its arguments; session and password are filled in."""

    model_config = example(tool="get_status", arguments={})

    tool: Name
    arguments: dict[str, Any] = Field(default_factory=dict)


@router.post("/myses/{reference}/command", response={200: MemoryOut, 503: ErrorOut})
def command(request: HttpRequest, reference: MysisReference, body: CommandIn) -> Memory:
    """Run it as the Mysis's account; the result as it stands in the log.

    An error of the game is a result with `is_error`. 409 while another command runs,
    or for login, logout and register in the middle of a turn; 503 where the game
    cannot be reached.
    """
    return run_command(
        mysis=lookup.mysis_of(reference),
        tool=body.tool,
        arguments=body.arguments,
        by=lookup.by(request),
    )
