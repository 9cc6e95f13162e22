"""The captain that trusts nothing it cannot date, as the models did that Zoea was made for.

It asks for its whole state before each step and again to see what came of it, one tool at
a time, unless the state block tells it with its age. An answer that does not stand whole
in the view counts for nothing, so it is asked for again. It ends no turn by itself before
it has acted and looked: what stops it then is the limit of model calls in a turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from sandbox.pilot.reading import Block, read_block
from sandbox.pilot.replay import ACTIONS
from sandbox.pilot.situation import Call, Decision, Situation

#: What it calls its whole state.
WHOLE_STATE = ("get_status", "get_ship", "get_cargo", "get_system", "get_map")


def reread_state(s: Situation) -> Decision | None:
    """Ask for the first part of the state that neither block nor view tells."""
    if s.beliefs.logged_in is not True or s.beliefs.on_the_way:
        return None
    block = read_block(s.transcript.state)
    seen = set(_list_seen(s))
    for tool in WHOLE_STATE:
        if tool in s.tools and tool not in seen and not is_told(block, tool):
            thought = f"Nothing in view tells me how old {tool} is. I look again."
            return Decision((Call(tool, {}),), thought=thought)
    return None


def _list_seen(s: Situation) -> Iterator[str]:
    """The tools that were asked since the newest step and stand whole, or refused."""
    for call in reversed(s.transcript.calls_of_turn()):
        if call.name in ACTIONS and not call.answer.is_error:
            return
        if call.answer.data or call.answer.is_error:
            yield call.name


def is_told(block: Block, tool: str) -> bool:
    """Whether a state block tells what a tool would: with its age, and without a line
    anywhere that says to call this tool.
    """
    own = block.sections.get(tool, {}).values()
    dated = bool(own) and all(line.age is not None and not line.stale for line in own)
    every = (line for lines in block.sections.values() for line in lines.values())
    return dated and not any(line.changed and line.ask == tool for line in every)
