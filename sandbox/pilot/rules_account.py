"""Rules about the account, orders, and the end of a turn."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

from sandbox.pilot import situation
from sandbox.pilot.reading import WAIT_CODES, Called
from sandbox.pilot.replay import ACTIONS
from sandbox.pilot.situation import Call, Decision, Situation

EMPIRES = ("solarian", "voidborn", "crimson", "nebula", "outerrim")
LONGEST_NAME = 24

_ACCOUNT = re.compile(r"Your game account:\s*(.+)")
_NO_ACCOUNT = re.compile(r"(?:none|nobody|not)\b", re.I)

# Own messages in one turn; a turn needs one to three.
MOST_STEPS = 7


def enter_game(s: Situation) -> Decision | None:
    """Register, or log in, when nobody is logged in."""
    if s.beliefs.logged_in is True:
        return None
    if s.beliefs.logged_in is None and not s.asked("get_status"):
        thought = "Nothing in view says whether I am logged in."
        return s.query(thought, "get_status")
    failed = [c for c in s.transcript.calls_of_turn() if c.answer.is_error]
    refusals = [c for c in failed if c.name in ("register", "login")]
    if len(refusals) >= 3:
        text = f"I cannot get into the game: {refusals[-1].answer.message}"
        return Decision(text=text, thought="Three refusals are enough for one turn.")
    return _enter(s, refusals[-1] if refusals else None)


def _enter(s: Situation, refused: Called | None) -> Decision | None:
    known = _named_in(refused) or _find_account_name(s)
    taken = sum(
        call.name == "register" and call.answer.code == "username_taken"
        for call in s.transcript.calls()
    )
    to_login = refused is not None and "login" in refused.answer.message.casefold()
    may_login = "login" in s.tools and (refused is None or refused.name == "register")
    if may_login and (known or to_login):
        name = known or make_username(s.name, 0)
        return _call(s, "login", "I have an account: log in.", username=name)
    if "register" not in s.tools:
        return None
    return _call(
        s,
        "register",
        "Nobody is logged in, so I register as a captain.",
        username=make_username(s.name, taken),
        empire=choose_empire(s.name),
    )


def _named_in(refused: Called | None) -> str:
    said = refused.answer.message if refused else ""
    found = re.search(r"""login\b.*?"username":\s*"([^"]+)""", said)
    return found[1] if found else ""


def _call(s: Situation, tool: str, thought: str, **arguments: Any) -> Decision:
    listed = s.tools[tool]
    wanted = {k: v for k, v in arguments.items() if not listed or k in listed}
    return Decision((Call(tool, wanted),), thought=thought)


def _find_account_name(s: Situation) -> str:
    found = _ACCOUNT.search(s.transcript.system)
    told = found[1].strip() if found else ""
    if told and not _NO_ACCOUNT.match(told):
        return told
    return s.beliefs.account


def make_username(name: str, taken: int) -> str:
    """A user name that the game accepts: 3 to 24 letters, digits and a few signs."""
    kept = re.sub(r"[^\w \-'.!]", "", name).strip() or "Captain"
    end = f"-{taken + 1}" if taken else ""
    base = kept[: LONGEST_NAME - len(end)].strip()
    return (base if len(base) >= 3 else f"Captain {base}") + end


def choose_empire(name: str) -> str:
    """One of the five empires, always the same for a name."""
    return EMPIRES[crc32(name.encode()) % len(EMPIRES)]


def listen_for_news(s: Situation) -> Decision | None:
    """While there is nothing to do, fetch notifications now and then."""
    recent = [c.name for c in s.transcript.calls()]
    if "get_notifications" not in s.tools or "get_notifications" in recent[-3:]:
        return None
    thought = "I have nothing to do; let me see whether anything has happened."
    return Decision((Call("get_notifications", {}),), thought=thought)


# --- The end of a turn.


def end_turn(s: Situation) -> Decision | None:
    """End the turn if this tick is used up, or the game is not ready."""
    calls = s.transcript.calls_of_turn()
    acted = [c for c in calls if c.name in ACTIONS and not c.answer.is_error]
    if acted:
        text = situation.describe_action(acted[-1])
        return Decision(text=text, thought="One action a tick: the rest has to wait.")
    waiting = [c for c in calls if c.answer.code in WAIT_CODES]
    if waiting:
        said = waiting[-1].answer.message or waiting[-1].answer.code
        thought = "The game is not ready for another action of mine."
        return Decision(text=f"I wait: {said}", thought=thought)
    return None


def give_up(s: Situation) -> Decision | None:
    """End the turn after too many steps without an action."""
    calls = s.transcript.calls_of_turn()
    if len({call.step for call in calls}) < MOST_STEPS:
        return None
    thought = "I have tried enough in this turn."
    return Decision(text=situation.describe_refusals(calls), thought=thought)


def wait_for_arrival(s: Situation) -> Decision | None:
    b = s.beliefs
    # Only a tick that was fetched in this turn is the present one.
    early = b.arrival and b.tick is not None and b.tick < b.arrival
    if early and s.asked("get_notifications"):
        text = f"Still under way. I wait for the arrival at tick {b.arrival}."
    elif b.on_the_way:
        text = f"Under way to {b.on_the_way}. I wait for the arrival."
    else:
        return None
    return Decision(text=text, thought="The ship is in transit.")
