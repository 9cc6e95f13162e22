"""Events of the game, asked for by the program at the start of a turn.

What they tell is merged into the cached state before the first call, so that the
model need not ask what became of its last action. They stand in the state block, and
are kept; see ``memory.digest``.
"""

from __future__ import annotations

import logging

from agents.context import fetches_events
from agents.models import Mysis
from agents.tools.chain import Toolbox
from agents.tools.types import GameUnreachableError

from .crossing import step
from .records import Begun, going_on

TOOL = "get_notifications"

logger = logging.getLogger(__name__)


async def fetch_events(begun: Begun, toolbox: Toolbox) -> None:
    """Ask once for what happened; a game that cannot answer now is no failure."""
    if toolbox.username is None or TOOL not in toolbox.policies:
        return
    if not await step(_is_wanted, begun):
        return
    try:
        result = await toolbox.call(TOOL, "{}")
    except GameUnreachableError:
        # The turn's own calls find out, and say so.
        return
    if result.is_error:
        logger.debug("The events of %s cannot be had: %s", begun.mysis_id, result.text)


def _is_wanted(begun: Begun) -> bool:
    mysis: Mysis | None = going_on(begun).first()
    if mysis is None:
        return False
    return fetches_events(mysis.policy.options if mysis.policy else {})
