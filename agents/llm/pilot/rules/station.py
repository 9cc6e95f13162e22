"""What is done while docked: sell, refuel, repair, write the log, leave."""

from __future__ import annotations

from dataclasses import replace

from agents.llm.pilot.situation import Call, Decision, Situation

KEEP = ("fuel cell", "repair kit", "mining laser", "weapon")
REFUEL_BELOW = 0.7
REPAIR_BELOW = 0.6


def at_station(s: Situation) -> Decision | None:
    """Everything while docked, one action a tick."""
    asked = s.ask("What I can do depends on where I am.", "docked")
    if asked:
        return asked
    if s.beliefs.docked.value is not True:
        return None
    return sell(s) or maintain(s) or leave(s)


def sell(s: Situation) -> Decision | None:
    """Sell the next item of the hold; the exact number has to be known."""
    asked = s.ask("To sell I need to know exactly what I have.", "hold")
    if asked or not s.beliefs.hold.known:
        return asked
    for item, count in sorted((s.beliefs.hold.value or {}).items()):
        if count > 0 and not is_kept(item) and item not in s.beliefs.unsellable:
            thought = f"I am docked with {count} {item}: sell them."
            if done := s.act(thought, "sell", item_id=item, quantity=count):
                return done
    return None


def is_kept(item: str) -> bool:
    """Whether an item (id or name) is part of the ship's equipment."""
    words = item.replace("_", " ").casefold()
    return words.startswith(KEEP)


def maintain(s: Situation) -> Decision | None:
    """Fill the tank and mend the hull while there is money for it."""
    b = s.beliefs
    if b.credits.value == 0:
        return None
    if b.share(b.fuel, b.tank) < REFUEL_BELOW:
        thought = f"Fuel {b.fuel.value}/{b.tank} is low and I am docked."
        if done := s.act(thought, "refuel"):
            return with_log(s, done)
    if b.share(b.hull, b.frame) < REPAIR_BELOW:
        return s.act(f"The hull is down to {b.hull.value}/{b.frame}.", "repair")
    return None


def leave(s: Situation) -> Decision | None:
    """Undock, with a line in the log when something was sold."""
    done = s.act("Nothing more to do at this station: back to work.", "undock")
    return with_log(s, done) if done else None


def with_log(s: Situation, decision: Decision) -> Decision:
    """Count the money and add a line to the captain's log beside an action.

    Once per visit: what was sold for is in nobody's state before it is asked for.
    """
    sold = 0
    for call in s.transcript.calls():
        if call.name == "captains_log_add":
            sold = 0
        elif call.name == "sell" and not call.answer.is_error:
            sold += 1
    if not sold or "captains_log_add" not in s.tools:
        return decision
    where = s.beliefs.place.value or "the station"
    money = s.beliefs.credits
    now = f" {money.value:,} credits." if money.known else ""
    entry = f"Sold {sold} kinds of cargo at {where}.{now} Next: mine again."
    log = Call("captains_log_add", {"entry": entry})
    count = (Call("get_status", {}),) if _is_uncounted(s) else ()
    return replace(decision, calls=(log, *count, *decision.calls))


def _is_uncounted(s: Situation) -> bool:
    """Whether a state block would tell the credits, and does not for sure."""
    kept = s.block.logged_in is True
    return kept and not s.beliefs.credits.known and s.can_ask("get_status")
