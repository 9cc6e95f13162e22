"""I27: whatever a Mysis asks for, in whatever way, another's history stays its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agents import actions
from agents.actions.notes import save_note
from agents.context_inputs import preview_context
from agents.db import run_in_db
from agents.models import Broadcast, Mysis, Order, OrderRecipient
from agents.tools.chain import open_toolbox
from agents.tools.own_tools import FOR_MYSES
from memory.context import registry
from memory.gamestate.extract import read_result
from memory.models import HistorySummary, Memory
from memory.snapshots import writes
from tests.agents.game.faulty import FaultyServer
from tests.factories import make_account, make_memory

SECRET = "xyzzy"


def _of_bob(bob: Mysis) -> Memory:
    """Everything a Mysis may have, each with the word that must not come out."""
    order = make_memory(bob, content=f"{SECRET} order")
    given = Order.objects.create(text=SECRET, sender="operator:ann")
    OrderRecipient.objects.create(order=given, mysis=bob, memory=order, note=SECRET)
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "get_ship", "arguments": json.dumps({"at": SECRET})},
    }
    make_memory(
        bob, role="assistant", content=SECRET, reasoning=SECRET, tool_calls=[call]
    )
    make_memory(bob, role="tool", tool_call_id="c", content=SECRET)
    sent = Broadcast.objects.create(
        text=f"{SECRET} to Bob", sender="operator:ann", group="bobs"
    )
    sent.from_mysis = True
    sent.save()
    make_memory(bob, origin="broadcast", broadcast=sent, content=sent.text)
    HistorySummary.objects.create(
        mysis=bob,
        first_id=order.pk,
        through_id=order.pk,
        generation=1,
        text=SECRET,
        history_hash="x",
    )
    bob.account = make_account(username="BobPilot", assigned_to=bob)
    save_note(mysis=bob, name="base", text=SECRET, by="mysis:Bob")
    bob.last_error = bob.activity = SECRET
    bob.save()
    actions.update_mysis(mysis=bob, by="test", pins=[SECRET])
    text = json.dumps({"player": {"username": "BobPilot", "note": SECRET}})
    writes.capture_snapshot(
        username="BobPilot",
        tool="get_status",
        args={},
        text=text,
        result=read_result(text),
    )
    return order


def _questions(bob: Mysis, order: Memory) -> Iterator[tuple[str, dict[str, Any]]]:
    owners = [bob.pk, str(bob.pk), "Bob", "bob", f" {bob.pk}", "self", "1", "", None]
    for name in ("zoea_search_messages", "zoea_search_reasoning"):
        for owner in owners:
            for mode in ("fts", "exact"):
                yield name, {"query": SECRET, "mysis_id": owner, "mode": mode}
        yield name, {"query": f"{SECRET} or mysis:{bob.pk}"}
        yield name, {"query": f"' || mysis:{bob.pk} | '{SECRET}", "mode": "fts"}
    for mode in ("fts", "exact"):
        yield "zoea_search_broadcasts", {"query": SECRET, "mode": mode}
    for row in bob.memories.all():
        for owner in (*owners, f"{bob.pk}/", "ctx:", "../Bob"):
            yield "zoea_recall", {"handle": f"ctx://{owner}/{row.pk}"}
    for number in (*Broadcast.objects.values_list("pk", flat=True), 0, 2**63, "x"):
        yield "zoea_recall", {"handle": f"broadcast://{number}"}
    for handle in ("get_status", "get_status#raw", "BobPilot/get_status", "*", "%"):
        yield "zoea_recall", {"handle": f"state://{handle}"}
    yield "zoea_recall", {"handle": "state://get_status", "mysis_id": bob.pk}
    for owner in owners:
        yield "zoea_recall", {"handle": f"note://{owner}/base"}
    yield "zoea_forget", {"name": "base"}
    yield "zoea_note", {"name": "mine", "text": "x"}
    yield "zoea_search_messages", {"query": "base"}
    for given in Order.objects.values_list("pk", flat=True):
        for status in ("done", "working"):
            yield "zoea_report_order", {"order": given, "status": status}
    for number in (None, 0, 2**63, "x"):
        yield "zoea_report_order", {"order": number, "status": "done"}
    yield "zoea_swarm_status", {}
    yield "zoea_list_myses", {}
    assert order.mysis_id == bob.pk


async def test_no_tool_tells_what_is_anothers(
    faulty: FaultyServer, mysis: Mysis, other: Mysis
) -> None:
    mysis.messaging = True
    await mysis.asave()
    order = await run_in_db(_of_bob, other)
    await run_in_db(make_memory, mysis, content="Ada's own")
    box = await open_toolbox(mysis.pk)
    asked = set()
    for name, arguments in await run_in_db(lambda: list(_questions(other, order))):
        asked.add(name)
        answer = await box.call(name, json.dumps(arguments))
        assert SECRET not in answer.text, (name, arguments)
    assert asked == set(FOR_MYSES) - {"zoea_send_message", "zoea_broadcast"}


def test_no_view_shows_what_is_anothers(mysis: Mysis, other: Mysis) -> None:
    _of_bob(other)
    make_memory(mysis, content="Ada's own")
    for strategy in registry.list_names():
        shown = preview_context(Mysis.objects.get(pk=mysis.pk), strategy=strategy)
        text = json.dumps([shown.assembly.messages, shown.assembly.system])
        assert "Ada's own" in text, strategy
        assert SECRET not in text, strategy
        theirs = preview_context(Mysis.objects.get(pk=other.pk), strategy=strategy)
        assert SECRET in json.dumps(theirs.assembly.messages)
