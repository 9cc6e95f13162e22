"""Beliefs from the calls and answers in view, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agents.llm.pilot import events, figures
from agents.llm.pilot.answers import LOGGED_OUT, Answer, text, whole
from agents.llm.pilot.beliefs import LIMITS, Beliefs
from agents.llm.pilot.transcript import Called, Transcript

ACTIONS = frozenset(
    {
        "travel",
        "jump",
        "dock",
        "undock",
        "mine",
        "sell",
        "buy",
        "refuel",
        "repair",
        "attack",
    }
)
"""What takes a tick."""

OWN = ("zoea_", "captains_log_", "register", "login", "logout")


class Replay:
    """Goes through the calls once; ``ages`` counts accepted actions per fact."""

    def __init__(self) -> None:
        self.beliefs = Beliefs()
        self.ages: dict[str, int] = {}
        self.seen: dict[str, int | None] = {}

    def run(self, transcript: Transcript) -> Beliefs:
        """The beliefs after everything in view."""
        for index, entry in enumerate(transcript.entries):
            if index == transcript.turn_start:
                # Who was under way in an earlier turn may have arrived since.
                self.beliefs.on_the_way = ""
            if isinstance(entry, Called):
                self._take(entry, now=index >= transcript.turn_start)
        self._forget_the_old()
        return self.beliefs

    def _take(self, call: Called, *, now: bool) -> None:
        answer = call.answer
        if answer.is_error:
            self._refused(call, now)
        elif call.name in ACTIONS:
            self._act(call)
        else:
            self._told(call)

    # -- queries -----------------------------------------------------------

    def _told(self, call: Called) -> None:
        beliefs, data = self.beliefs, call.answer.data
        if call.name in ("register", "login"):
            beliefs.logged_in = True
            beliefs.account = text(call.arguments.get("username")) or beliefs.account
        elif call.name == "logout":
            beliefs.logged_in = False
        elif not call.name.startswith(OWN):
            beliefs.logged_in = True
        if call.name == "get_notifications":
            events.take(beliefs, data)
        elif reader := figures.READERS.get(call.name):
            for fact in reader(beliefs, data):
                self._fresh(fact)
        elif call.name == "zoea_recall":
            figures.recalled(beliefs, call.arguments, data)

    def _fresh(self, fact: str) -> None:
        self.ages[fact] = 0
        self.seen[fact] = self.beliefs.tick

    # -- actions -----------------------------------------------------------

    def _act(self, call: Called) -> None:
        self.beliefs.logged_in = True
        self.beliefs.on_the_way = ""
        for fact in self.ages:
            self.ages[fact] += 1
        effect = _EFFECTS[call.name]
        for fact in effect(self.beliefs, call.arguments, call.answer):
            self._fresh(fact)

    def _refused(self, call: Called, now: bool) -> None:
        code = call.answer.code
        if code in LOGGED_OUT:
            self.beliefs.logged_in = False
            return
        if call.name.startswith(OWN):
            return
        facts = self.beliefs.facts().values()
        before = [(fact.value, fact.known) for fact in facts]
        events.refuse(self.beliefs, code, call.name, call.arguments)
        for fact, was in zip(facts, before, strict=True):
            fact.firm = now and (fact.firm or (fact.value, fact.known) != was)

    def _forget_the_old(self) -> None:
        """Doubt what is older than its limit, by ticks or by own actions."""
        for name, fact in self.beliefs.facts().items():
            then, now = self.seen.get(name), self.beliefs.tick
            ticks = now - then if then is not None and now is not None else 0
            if max(ticks, self.ages.get(name, 0)) > LIMITS[name]:
                fact.doubt()


# -- what an accepted action leads to --------------------------------------

Effect = Callable[[Beliefs, Mapping[str, Any], Answer], tuple[str, ...]]


def _travel(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    if answer.unsure:
        b.place.doubt()
        return ()
    target = text(arguments.get("target_poi")) or ""
    if b.fuel.value is not None:
        b.fuel.value -= whole(answer.data.get("fuel_cost")) or 1
    _arriving(b, answer)
    _moved(b, target)
    return ("place",)


def _jump(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    if answer.unsure:
        b.place.doubt()
        b.system.doubt()
        return ()
    if b.system.value:
        b.came_from = b.system.value
    if b.fuel.value is not None:
        b.fuel.value -= whole(answer.data.get("fuel_cost")) or 2
    _arriving(b, answer)
    _moved(b, "")
    b.place.value = text(answer.data.get("poi_id"))
    b.place.known = b.place.value is not None
    b.place.ask = "get_notifications"
    b.system.learn(text(arguments.get("target_system")) or "")
    return ("place", "system")


def _arriving(b: Beliefs, answer: Answer) -> None:
    b.arrival = whole(answer.data.get("arrival_tick"))
    b.docked.learn(False)


def _moved(b: Beliefs, place: str) -> None:
    b.barren = b.no_base = b.digging = False
    b.on_the_way = ""
    b.place.learn(place)


def _dock(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    return _set_dock(b, True, answer)


def _undock(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    return _set_dock(b, False, answer)


def _set_dock(b: Beliefs, docked: bool, answer: Answer) -> tuple[str, ...]:
    if answer.unsure:
        b.docked.doubt()
        return ()
    b.docked.learn(docked)
    return ("docked",)


def _mine(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    b.hold.doubt()
    b.barren = b.full = False
    b.digging = True
    b.docked.learn(False)
    return ("docked",)


def _sell(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    b.full = False
    b.credits.doubt()
    sold = whole(answer.data.get("quantity_sold"))
    item = text(arguments.get("item_id")) or ""
    if answer.unsure:
        b.hold.doubt()
    elif sold == 0:
        b.unsellable.add(item)
    elif b.hold.value is not None:
        _take_out(b, item, sold or whole(arguments.get("quantity")) or 0)
    return ()


def _take_out(b: Beliefs, item: str, count: int) -> None:
    hold = b.hold.value or {}
    left = hold.get(item, 0) - count
    b.hold.value = {k: v for k, v in hold.items() if k != item}
    if left > 0:
        b.hold.value[item] = left
    if b.used is not None:
        b.used = max(0, b.used - count)


def _buy(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    b.hold.doubt()
    b.credits.doubt()
    return ()


def _refuel(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    b.credits.doubt()
    level = whole(answer.data.get("fuel_now")) or b.tank
    if level is None or answer.unsure:
        b.fuel.doubt()
        return ()
    b.fuel.learn(level)
    return ("fuel",)


def _repair(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    b.credits.doubt()
    if b.frame is None or answer.unsure:
        b.hull.doubt()
        return ()
    b.hull.learn(b.frame)
    return ("hull",)


def _attack(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    for fact in b.facts().values():
        fact.doubt()
    return ()


_EFFECTS: Mapping[str, Effect] = {
    "travel": _travel,
    "jump": _jump,
    "dock": _dock,
    "undock": _undock,
    "mine": _mine,
    "sell": _sell,
    "buy": _buy,
    "refuel": _refuel,
    "repair": _repair,
    "attack": _attack,
}
