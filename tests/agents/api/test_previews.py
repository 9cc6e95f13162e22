"""The REST routes to contexts: the next one, its variants, and past ones."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from agents.context_inputs import preview_context
from agents.models import Broadcast, ModelCall, Mysis
from memory.assembly.prepare import record_call
from memory.context import registry
from tests.factories import make_memory, make_mysis, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db


def test_the_preview_shows_the_next_call_and_writes_nothing(
    admin_program: Program,
) -> None:
    mysis = make_mysis(name="Ada")
    for n in range(30):
        make_memory(mysis, content=f"order {n}")
    before = [Mysis.objects.values().get(), mysis.memories.count()]
    shown = admin_program.get("/myses/Ada/context").json()
    assert shown["messages"][0]["role"] == "system"
    assert len(shown["messages"]) == len(shown["sources"])
    assert {"status", "ledger", "stats", "synthetic", "warnings", "hash"} <= set(shown)
    assert admin_program.get("/myses/Ada/context").json()["hash"] == shown["hash"]
    narrow = admin_program.get(
        '/myses/Ada/context?strategy=window&options={"window":3}'
    ).json()
    assert len(narrow["sources"][-1]) == 3 < len(shown["sources"][-1])
    small = admin_program.get("/myses/Ada/context?budget=9000").json()
    assert small["stats"]["budget"] == 9000
    assert [Mysis.objects.values().get(), mysis.memories.count()] == before
    assert not Broadcast.objects.exists()
    assert not ModelCall.objects.exists()


def test_the_statistics_of_compression_come_as_a_box_too(
    admin_program: Program,
) -> None:
    mysis = make_mysis(name="Ada")
    make_memory(mysis, content="Mine.")
    asked = "/myses/Ada/context?strategy=coalesced"
    assert "usage" not in admin_program.get(asked).json()
    shown = admin_program.get(f"{asked}&usage=true").json()
    assert shown["usage"]["compression"] == shown["stats"]["compression"]
    assert "single-user-coalesced" in shown["usage"]["box"]
    assert admin_program.get(f"{asked}&usage=maybe").status_code == 422


def test_a_past_call_is_shown_as_it_was_sent(admin_program: Program) -> None:
    mysis = make_mysis(name="Ada")
    make_memory(mysis, content="go to Sol")
    turn = make_turn(mysis)
    call = ModelCall.objects.create(turn=turn, number=1, model="pilot")
    prepared = preview_context(mysis)
    record_call(call_id=call.pk, prepared=prepared)
    make_memory(mysis, content="later")
    shown = admin_program.get(f"/turns/{turn.pk}/calls/1/context").json()
    assert {"messages", "sources", "ledger", "stats", "hash", "sent"} <= set(shown)
    assert shown["messages"] == prepared.assembly.messages
    assert shown["ledger"] == [asdict(line) for line in prepared.assembly.ledger]
    assert shown["ledger"]
    assert (shown["hash"], shown["intact"]) == (prepared.digest, True)


def test_there_is_no_context_of_a_call_that_was_never_made(
    admin_program: Program,
) -> None:
    turn = make_turn(make_mysis())
    ModelCall.objects.create(turn=turn, number=1, model="pilot")
    for path in (f"{turn.pk}/calls/1", f"{turn.pk}/calls/x", "x/calls/1",
                 f"{turn.pk}/calls/{10**15}", f"{10**30}/calls/1"):  # fmt: skip
        assert admin_program.get(f"/turns/{path}/context").status_code == 404


# --- GET /myses/{id}/context/diff: two strategies side by side.


@pytest.fixture
def ada() -> Mysis:
    ada = make_mysis(name="Ada")
    for turn in range(15):
        make_memory(ada, content=f"order {turn}")
        call = {
            "id": "c",
            "type": "function",
            "function": {"name": "get_ship", "arguments": "{}"},
        }
        make_memory(ada, role="assistant", content="", tool_calls=[call])
        make_memory(
            ada,
            role="tool",
            tool_call_id="c",
            tool_name="get_ship",
            content=f"hull {turn} " * 300,
        )
    return ada


def diff(viewer_program: Program, **query: Any) -> Any:
    asked = "&".join(f"{key}={value}" for key, value in query.items())
    return viewer_program.get(f"/myses/Ada/context/diff?{asked}")


@pytest.mark.parametrize("strategy", registry.list_names())
def test_either_side_is_the_preview_of_its_strategy(
    viewer_program: Program, ada: Mysis, strategy: str
) -> None:
    answer = diff(viewer_program, a=strategy, b="window", budget=20_000)
    assert answer.status_code == 200
    found = answer.json()
    for side, name in (("a", strategy), ("b", "window")):
        query = f"strategy={name}&budget=20000"
        alone = viewer_program.get(f"/myses/Ada/context?{query}").json()
        sent = {
            pair[side]["position"]: pair[side]["message"]
            for pair in found["messages"]
            if pair[side] and pair[side]["message"]
        }
        assert [sent[place] for place in sorted(sent)] == alone["messages"]
        assert found[side]["hash"] == alone["hash"]
        ledger = [
            pair[side]["disposition"]
            for pair in found["messages"]
            if pair["id"] and pair[side]
        ]
        assert ledger == [line["disposition"] for line in alone["ledger"]]


def test_what_differs_is_told_message_by_message(
    viewer_program: Program, ada: Mysis
) -> None:
    found = diff(viewer_program, a="window", b="full").json()
    pairs = {pair["id"]: pair for pair in found["messages"] if pair["id"]}
    ids = list(ada.memories.order_by("pk").values_list("pk", flat=True))
    assert list(pairs) == ids
    first, last = pairs[ids[0]], pairs[ids[-1]]
    assert (first["same"], first["a"]["disposition"]) == (False, "out_of_window")
    assert first["a"]["handle"] == f"ctx://{ada.pk}/{ids[0]}"
    assert first["a"]["message"] is None
    assert first["b"]["message"]["content"] == "order 0"
    assert last["same"] is True
    assert found["differing"] == sum(not p["same"] for p in found["messages"])
    prompt = found["messages"][0]
    assert (prompt["id"], prompt["kind"], prompt["same"]) == (None, "prompt", True)
    twice = diff(viewer_program, a="window", b="window").json()
    assert twice["differing"] == 0
