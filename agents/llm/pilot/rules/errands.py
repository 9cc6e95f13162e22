"""Orders that are done once: reports, searches, notes."""

from __future__ import annotations

from agents.llm.pilot import speech
from agents.llm.pilot.answers import Answer, objects, text
from agents.llm.pilot.situation import Call, Decision, Situation


def errand(s: Situation) -> Decision | None:
    """Do what was asked for in this turn, and answer."""
    order = s.order
    if order is None or order.kind not in ("report", "search", "note"):
        return None
    if not _is_of_this_turn(s):
        return None
    if order.kind == "report":
        return _report(s)
    return (
        _search(s, order.target) if order.kind == "search" else _note(s, order.target)
    )


def _is_of_this_turn(s: Situation) -> bool:
    order, turn = s.order, s.transcript.calls_of_turn()
    return (
        order is not None
        and len(order.calls_since) == len(turn)
        and (order.fresh or bool(turn))
    )


def _report(s: Situation) -> Decision:
    asked = s.ask("A report is wanted.", "place", "docked", "hold", "fuel", "credits")
    return asked or Decision(text=speech.report(s), thought="I report what I know.")


def _search(s: Situation, words: str) -> Decision | None:
    tool = "zoea_search_messages"
    if tool not in s.tools:
        return Decision(text="I have no tool to search my memory with.")
    if not s.asked(tool):
        thought = f"I am asked about something that I cannot see: {words}."
        return Decision((Call(tool, {"query": words}),), thought=thought)
    found = next(c for c in s.transcript.calls_of_turn() if c.name == tool)
    return Decision(text=_found(words, found.answer))


def _found(words: str, answer: Answer) -> str:
    hits = objects(answer.data.get("matches"))
    if not hits:
        return f'About "{words}" I find nothing in my memory.'
    last = " ".join((text(hits[-1].get("content")) or "").split())
    return f'I find {len(hits)} messages about "{words}". The newest: {last[:200]}'


def _note(s: Situation, words: str) -> Decision | None:
    if "captains_log_add" not in s.tools or s.asked("captains_log_add"):
        return Decision(text=f"Noted: {words}")
    thought = "A note for the captain's log."
    return Decision((Call("captains_log_add", {"entry": words}),), thought=thought)
