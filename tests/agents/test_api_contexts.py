"""The REST routes to contexts: the next one, its variants, and past ones."""

from __future__ import annotations

import pytest

from agents.context_inputs import preview
from agents.models import Broadcast, ModelCall, Mysis
from memory.assembly.prepare import record_call
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
    assert len(narrow["messages"]) < len(shown["messages"])
    small = admin_program.get("/myses/Ada/context?budget=9000").json()
    assert small["stats"]["budget"] == 9000
    assert [Mysis.objects.values().get(), mysis.memories.count()] == before
    assert not Broadcast.objects.exists()
    assert not ModelCall.objects.exists()


@pytest.mark.parametrize(
    "query",
    [
        "strategy=nonsense",
        "options={",
        "options=[]",
        'options={"nonsense":1}',
        'options={"window":"x"}',
        "options=" + "[" * 10_000,
        "budget=0",
        "budget=x",
        "budget=-5",
        "budget=" + "9" * 30,
        "budget=" + "9" * 5000,
        "budget=true",
        'budget={"tokens":10,"reserve":10}',
        'budget={"tokens":10,"more":1}',
        "budget={}",
    ],
)
def test_a_bad_variant_is_422(admin_program: Program, query: str) -> None:
    make_memory(make_mysis(name="Ada"))
    refused = admin_program.get(f"/myses/Ada/context?{query}")
    assert refused.status_code == 422, refused.content
    assert set(refused.json()) == {"detail", "code"}


def test_a_past_call_is_shown_as_it_was_sent(admin_program: Program) -> None:
    mysis = make_mysis(name="Ada")
    make_memory(mysis, content="go to Sol")
    turn = make_turn(mysis)
    call = ModelCall.objects.create(turn=turn, number=1, model="pilot")
    prepared = preview(mysis)
    record_call(call_id=call.pk, prepared=prepared)
    make_memory(mysis, content="later")
    shown = admin_program.get(f"/turns/{turn.pk}/calls/1/context").json()
    assert {"messages", "sources", "ledger", "stats", "hash", "sent"} <= set(shown)
    assert shown["messages"] == prepared.assembly.messages
    assert (shown["hash"], shown["intact"]) == (prepared.digest, True)


def test_there_is_no_context_of_a_call_that_was_never_made(
    admin_program: Program,
) -> None:
    turn = make_turn(make_mysis())
    ModelCall.objects.create(turn=turn, number=1, model="pilot")
    for path in (f"{turn.pk}/calls/1", f"{turn.pk}/calls/x", "x/calls/1",
                 f"{turn.pk}/calls/{10**15}", f"{10**30}/calls/1"):  # fmt: skip
        assert admin_program.get(f"/turns/{path}/context").status_code == 404
