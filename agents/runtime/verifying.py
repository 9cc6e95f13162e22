"""What became of actions that a dead worker left, read before the model goes on."""

from __future__ import annotations

from django.db import transaction

from agents.tools.chain import Toolbox
from agents.tools.crossing import cross
from agents.tools.types import GameUnreachableError
from memory.context.tokens import estimate
from memory.gamestate.parse import clean_text
from memory.models import Memory

from .records import INTERRUPTED, Begun, current


async def verify(begun: Begun, toolbox: Toolbox) -> None:
    """Read what tells, and put it to the results; no answer now is no failure.

    Then the calls stay unknown, and the chain holds the same ones back.
    """
    for unknown in toolbox.unknown:
        if unknown.memory_id is None or unknown not in toolbox.unknown:
            continue
        try:
            words = await toolbox.look_into(unknown)
        except GameUnreachableError:
            return
        if words:
            await cross(_tell, begun, unknown.memory_id, words)


@transaction.atomic
def _tell(begun: Begun, memory_id: int, words: str) -> None:
    mysis = current(begun)
    row = Memory.objects.filter(pk=memory_id, mysis=mysis, pending=False).first()
    if row is None or row.content != INTERRUPTED:
        # It was told before, and the model has seen it.
        return
    row.content = clean_text(f"{row.content} {words}")
    row.tokens = estimate(row.content)
    row.save(update_fields=["content", "tokens"])
