"""Getting an account and logging in."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

from agents.llm.pilot.situation import Call, Decision, Situation
from agents.llm.pilot.transcript import Called

EMPIRES = ("solarian", "voidborn", "crimson", "nebula", "outerrim")
LONGEST_NAME = 24

_ACCOUNT = re.compile(r"Your game account:\s*(.+)")
_NONE = re.compile(r"(?:none|nobody|not)\b", re.I)


def account(s: Situation) -> Decision | None:
    """Register, or log in, when nobody is logged in."""
    if s.beliefs.logged_in is True:
        return None
    if s.beliefs.logged_in is None and not s.asked("get_status"):
        return _look(s)
    failed = [c for c in s.transcript.calls_of_turn() if c.answer.is_error]
    refusals = [c for c in failed if c.name in ("register", "login")]
    if len(refusals) >= 3:
        return Decision(
            text=f"I cannot get into the game: {refusals[-1].answer.message}",
            thought="Three refusals are enough for one turn.",
        )
    return _enter(s, refusals[-1] if refusals else None)


def _look(s: Situation) -> Decision | None:
    if "get_status" not in s.tools:
        return None
    thought = "Nothing in view says whether I am logged in."
    return Decision((Call("get_status", {}),), thought=thought)


def _enter(s: Situation, refused: Called | None) -> Decision | None:
    known = _named_in(refused) or account_name(s)
    taken = sum(_is_taken(call) for call in s.transcript.calls())
    to_login = refused is not None and "login" in refused.answer.message.casefold()
    may_login = "login" in s.tools and (refused is None or refused.name == "register")
    if may_login and (known or to_login):
        name = known or username(s.name, 0)
        return _call(s, "login", "I have an account: log in.", username=name)
    if "register" not in s.tools:
        return None
    return _call(
        s,
        "register",
        "Nobody is logged in, so I register as a captain.",
        username=username(s.name, taken),
        empire=empire_of(s.name),
    )


def _named_in(refused: Called | None) -> str:
    """The account that a refusal tells to log in to."""
    said = refused.answer.message if refused else ""
    found = re.search(r"""login\b.*?"username":\s*"([^"]+)""", said)
    return found[1] if found else ""


def _is_taken(call: Called) -> bool:
    return call.name == "register" and call.answer.code == "username_taken"


def _call(s: Situation, tool: str, thought: str, **arguments: Any) -> Decision:
    listed = s.tools[tool]
    wanted = {k: v for k, v in arguments.items() if not listed or k in listed}
    return Decision((Call(tool, wanted),), thought=thought)


def account_name(s: Situation) -> str:
    """The account that the prompt or the view names, empty where there is none."""
    found = _ACCOUNT.search(s.transcript.system)
    told = found[1].strip() if found else ""
    if told and not _NONE.match(told):
        return told
    return s.beliefs.account


def username(name: str, taken: int) -> str:
    """A name that the game takes: 3 to 24 letters, digits and a few signs."""
    kept = re.sub(r"[^\w \-'.!]", "", name).strip() or "Captain"
    end = f"-{taken + 1}" if taken else ""
    base = kept[: LONGEST_NAME - len(end)].strip()
    return (base if len(base) >= 3 else f"Captain {base}") + end


def empire_of(name: str) -> str:
    """One of the five, always the same for a name."""
    return EMPIRES[crc32(name.encode()) % len(EMPIRES)]
