"""The ``state`` of a document as the function that renders its block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.gamestate.document import read_state
from memory.gamestate.render import render


class StateBlock:
    """The state block of a document, rendered within a number of bytes.

    ``tick_skew`` tells how many snapshots came from the future (A21). Raises
    ValueError where the document is not of the form.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._state = read_state(document)
        self.tick_skew = render(self._state).tick_skew

    def __call__(self, max_bytes: int) -> str:
        """The block as text."""
        return render(self._state, max_bytes).text
