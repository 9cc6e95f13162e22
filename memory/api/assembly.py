"""POST /context/assemble: the core on a history from outside."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Body, Router

from memory.context.assemble import assemble
from memory.context.documents import parse_request, result_document
from memory.gamestate.state_block import StateBlock
from memory.problems import Problem

router = Router(tags=["context"])


@router.post("/context/assemble", response=dict[str, Any])
def assemble_document(
    request: HttpRequest, body: Body[dict[str, Any]]
) -> dict[str, Any]:
    """Assemble a history that the body brings; stores and calls nothing."""
    try:
        return result_document(assemble(parse_request(body, StateBlock)))
    except ValueError as error:
        raise Problem(422, "invalid", str(error)) from error
