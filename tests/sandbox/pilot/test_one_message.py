"""The pilot reads a view that is one message: what it heard, called and was answered."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from memory.context.assemble import assemble
from memory.context.offered_tools import offer_tools
from memory.context.types import CRITICAL_REMINDERS, NUDGES, AssemblyRequest
from sandbox.pilot.one_message import OneMessage, is_one_message, read_one_message
from sandbox.pilot.reading import (
    STATE_TITLE,
    Called,
    Heard,
    Said,
    read_catalogue,
)
from tests.context.histories import Log
from tests.context.tools import list_described

TOOLS = {
    name: {"parameters": {"properties": {key: {"type": "string"} for key in keys}}}
    for name, keys in {"travel": ["target_poi"], "sell": ["item_id", "count"]}.items()
}
NUDGE = f"{NUDGES[0]}\n\n{CRITICAL_REMINDERS}"
STATE = f"{STATE_TITLE}\n\n**Account:** Ada\n- Fuel: 60/100"


def told(log: Log, **more: Any) -> str:
    given_more: dict[str, Any] = {"open_orders": (), **more}
    request = AssemblyRequest(
        log.done(),
        strategy="coalesced",
        tools=TOOLS,
        turns_left=3,
        show_results=True,
        nudge=NUDGE,
        render_state=lambda size: STATE,
        **given_more,
    )
    return str(assemble(request).messages[-1]["content"])


def read(log: Log, **more: Any) -> OneMessage:
    return read_one_message(told(log, **more))


def names(found: OneMessage) -> list[str]:
    """Calls by name, what was heard as it is, and ends of turns as dots."""
    words = []
    for entry in found.entries:
        if isinstance(entry, Called):
            words.append(f"{entry.name}()")
        else:
            words.append(entry.text if isinstance(entry, Heard) else ".")
    return words


def test_calls_and_orders_stand_in_their_order() -> None:
    log = Log()
    log.user("Mine iron.")
    log.turn("get_cargo", '{"used": 1}')
    log.turn("mine", '{\n "status": "queued"\n}')
    log.says("Mining.")
    log.user("Sell it.")
    log.calls(("a", "sell", json.dumps({"item_id": "ore", "count": 5})))
    log.result("a", '{"quantity_sold": 5}')
    found = read(log, open_orders=(7,))
    expected = ["Mine iron.", "get_cargo()", "mine()", ".", "Sell it.", "sell()"]
    assert names(found) == expected
    sold = found.entries[-1]
    assert isinstance(sold, Called)
    assert sold.arguments == {"item_id": "ore", "count": 5}
    assert sold.answer.data == {"quantity_sold": 5}
    assert found.state == STATE


def test_an_order_without_a_call_since_is_heard_last() -> None:
    log = Log()
    log.user("Mine iron.")
    assert names(read(log, open_orders=(1,))) == ["Mine iron."]
    log.says("Aye.")
    assert names(read(log)) == ["Mine iron.", ".", NUDGES[0]]


def test_a_refusal_is_an_answer_of_its_call() -> None:
    log = Log()
    log.user("Mine iron.")
    log.calls(("a", "travel", '{"target_poi": "belt"}'))
    log.result("a", "Error: no_fuel: Refuel.", is_error=True)
    last = read(log, open_orders=(1,)).entries[-1]
    assert isinstance(last, Called)
    assert (last.answer.code, last.arguments) == ("no_fuel", {"target_poi": "belt"})


def test_arguments_have_the_names_of_the_list_on_demand() -> None:
    """The tools of the game stand in the system message alone."""
    log = Log()
    log.user("Sell it.")
    log.calls(("a", "sell", json.dumps({"item_id": "ore", "quantity": 5})))
    log.result("a", '{"quantity_sold": 5}')
    offered = offer_tools(list_described(), "on_demand", None)
    text = told(log, offered=offered, open_orders=(1,))
    listed = read_catalogue(f"Rules.\n\n{offered.catalogue}")
    last = read_one_message(text, listed).entries[-1]
    assert isinstance(last, Called)
    assert last.arguments == {"item_id": "ore", "quantity": 5}


def test_standing_orders_are_heard_and_other_texts_are_no_history() -> None:
    found = read(Log(), mission="never attack miners")
    assert names(found) == ["never attack miners", NUDGES[0]]
    assert not is_one_message("Mine iron.")
    assert not is_one_message(f"Go on.\n\n{STATE}")


@given(st.lists(st.sampled_from(["call", "end", "order", "error"]), max_size=12))
@example(["call", *["order", "end"] * 5, "order"])
@example(["call", "end", *["order"] * 9])
def test_what_the_log_has_is_read_again(steps: list[str]) -> None:
    """Each good call that is told, in its order, with its own answer."""
    log = Log()
    log.user("Begin.")
    made, orders = [], [1]
    for number, step in enumerate(steps):
        if step == "call":
            log.turn("mine", json.dumps({"n": number}))
            made.append(number)
        elif step == "end":
            log.says(f"Said {number}.")
        elif step == "error":
            log.turn("dock", "Error: no_base: There is none.", is_error=True)
        else:
            log.user(f"Order {number}.")
            orders.append(len(log.done()))
    found = read(log, open_orders=tuple(orders))
    calls = [e for e in found.entries if isinstance(e, Called) and e.name == "mine"]
    assert [call.answer.data["n"] for call in calls] == made
    heard = [e.text for e in found.entries if isinstance(e, Heard)]
    assert heard[0] == "Begin."
    assert sum(text.startswith("Order") for text in heard) == len(orders) - 1
    assert (
        any(isinstance(e, Said) for e in found.entries)
        or "end" not in steps
        or not made
    )
