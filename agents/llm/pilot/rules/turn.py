"""When a turn is over."""

from __future__ import annotations

from agents.llm.pilot import speech
from agents.llm.pilot.answers import WAIT
from agents.llm.pilot.replay import ACTIONS
from agents.llm.pilot.situation import Decision, Situation

MOST_STEPS = 7
"""Own messages in one turn; a turn needs one to three."""


def over(s: Situation) -> Decision | None:
    """End the turn when this tick is used, or when going on would not help."""
    calls = s.transcript.calls_of_turn()
    acted = [c for c in calls if c.name in ACTIONS and not c.answer.is_error]
    if acted:
        thought = "One action a tick: the rest has to wait."
        return Decision(text=speech.after(acted[-1], s.beliefs), thought=thought)
    waiting = [c for c in calls if c.answer.code in WAIT]
    if waiting:
        said = waiting[-1].answer.message or waiting[-1].answer.code
        thought = "The game is not ready for another action of mine."
        return Decision(text=f"I wait: {said}", thought=thought)
    if len({call.step for call in calls}) >= MOST_STEPS:
        thought = "I have tried enough in this turn."
        return Decision(text=speech.stuck(calls), thought=thought)
    return None


def under_way(s: Situation) -> Decision | None:
    """Nothing can be done in flight."""
    b = s.beliefs
    # Only a tick that was told in this turn is the present one.
    early = b.arrival and b.tick is not None and b.tick < b.arrival
    if early and s.asked("get_notifications"):
        text = f"Still under way. I wait for the arrival at tick {b.arrival}."
    elif b.on_the_way:
        text = f"Under way to {b.on_the_way}. I wait for the arrival."
    else:
        return None
    return Decision(text=text, thought="The ship is in transit.")
