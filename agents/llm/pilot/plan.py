"""The pilot's rules in their order: the first that has something to say wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from agents.llm.pilot import speech
from agents.llm.pilot.block import read_block
from agents.llm.pilot.orders import current_order, heard_now, parse
from agents.llm.pilot.overlay import lay_over
from agents.llm.pilot.replay import ACTIONS, Replay
from agents.llm.pilot.rules.account import account
from agents.llm.pilot.rules.duty import duty, listen
from agents.llm.pilot.rules.errands import errand
from agents.llm.pilot.rules.flight import in_space
from agents.llm.pilot.rules.station import at_station
from agents.llm.pilot.rules.turn import over, under_way
from agents.llm.pilot.situation import Call, Decision, Situation
from agents.llm.pilot.transcript import Transcript

Rule = Callable[[Situation], Decision | None]

RULES: tuple[Rule, ...] = (
    over,
    account,
    errand,
    under_way,
    duty,
    at_station,
    in_space,
    listen,
)

EVENTS_ARE_FETCHED = "Events are fetched for you"
"""What the state block says where the program fetches events itself."""

MINES_WITHOUT_NEWS = 3
"""Mining is dull: news are fetched beside every third swing only."""


def decide(
    name: str, transcript: Transcript, tools: Mapping[str, frozenset[str]]
) -> Decision:
    """The next message of captain ``name``."""
    beliefs = Replay().run(transcript)
    lay_over(beliefs, read_block(transcript.state))
    s = Situation(name, beliefs, transcript, tools, current_order(transcript))
    found = (decision for rule in RULES if (decision := rule(s)) is not None)
    decision = next(found, None) or Decision(
        text=speech.stuck(transcript.calls_of_turn()),
        thought="I see nothing useful to do in this tick.",
    )
    return _answering(s, _with_news(s, decision))


def _with_news(s: Situation, decision: Decision) -> Decision:
    """Fetch notifications beside an action when an outcome is still unheard of."""
    tool = "get_notifications"
    if not decision.acts or tool not in s.tools or s.asked(tool):
        return decision
    if EVENTS_ARE_FETCHED in s.transcript.state:
        return decision
    if not _is_news_due(s, tool):
        return decision
    return replace(decision, calls=(Call(tool, {}), *decision.calls))


def _is_news_due(s: Situation, tool: str) -> bool:
    """Whether the last look is out of view, or something has been done since."""
    names = [c.name for c in s.transcript.calls() if not c.answer.is_error]
    if tool not in names:
        return bool(names) or s.beliefs.logged_in is True
    last = len(names) - 1 - names[::-1].index(tool)
    since = [name for name in names[last + 1 :] if name in ACTIONS]
    dull = all(name == "mine" for name in since)
    return len(since) >= MINES_WITHOUT_NEWS if dull else bool(since)


def _answering(s: Situation, decision: Decision) -> Decision:
    """Say at once that an order, or a word, was heard."""
    heard = heard_now(s.transcript)
    if not heard:
        return decision
    found = parse(heard)
    said = speech.acknowledge(*found) if found else "I hear you."
    return replace(decision, text=f"{said} {decision.text}".strip())
