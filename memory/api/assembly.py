"""POST /context/assemble: the core on a history from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from ninja import Body, Router

from memory.context.assemble import assemble
from memory.context.documents import parse_request, result_document
from memory.gamestate.document import read_state
from memory.gamestate.render import render
from memory.problems import Problem

router = Router(tags=["context"])


class StateBlock:
    """The state block of a document, rendered within a number of bytes."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._state = read_state(document)
        self.tick_skew = render(self._state).tick_skew

    def __call__(self, max_bytes: int) -> str:
        """The block as text."""
        return render(self._state, max_bytes).text


@router.post("/context/assemble", response=dict[str, Any])
def assemble_document(
    request: HttpRequest, body: Body[dict[str, Any]]
) -> dict[str, Any]:
    """Assemble a history that the body brings; stores and calls nothing."""
    try:
        return result_document(assemble(parse_request(body, StateBlock)))
    except ValueError as error:
        raise Problem(422, "invalid", str(error)) from error
