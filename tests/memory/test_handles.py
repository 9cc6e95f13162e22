"""Handles: what they bring back, whole and in parts (I21)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.models import Mysis
from agents.tools.own_tool_answers import Scope, answer_search_reasoning
from agents.tools.own_tool_answers import answer_recall as recall_tool
from memory import handles as memory_handles
from memory.assembly.prepare import Subject, prepare_request
from memory.context import registry
from memory.context.types import Budget
from memory.handles import LARGEST_PART, RecallError, cut_part, parse_handle
from memory.models import Memory
from tests.factories import make_call, make_memory, make_mysis


@given(st.text(max_size=200), st.integers(1, 50))
def test_parts_put_together_are_the_text(text: str, limit: int) -> None:
    pieces, at = [], 0
    while True:
        found = cut_part(text, at, limit)
        assert len(found.text) <= limit
        assert (found.offset, found.total) == (at, len(text))
        pieces.append(found.text)
        if found.next is None:
            break
        at = found.next
    assert "".join(pieces) == text


def test_a_part_is_never_larger_than_the_limit() -> None:
    text = "x" * (LARGEST_PART + 1)
    assert len(cut_part(text, 0, 10**9).text) == LARGEST_PART
    assert cut_part(text, LARGEST_PART).text == "x"
    assert cut_part(text, 10**9).text == ""
    assert cut_part(text, -5, 0).text == "x"


@pytest.mark.parametrize(
    ("handle", "owner", "number"),
    [
        ("ctx://7/12", "7", 12),
        (" ctx://self/1 ", "self", 1),
        ("ctx://Ibn al-Haytham/3", "Ibn al-Haytham", 3),
    ],
)
def test_handles_name_their_owner_and_message(
    handle: str, owner: str, number: int
) -> None:
    assert parse_handle(handle) == (owner, number)


@pytest.mark.parametrize(
    "handle",
    ["", "12", "ctx://", "ctx://7", "ctx:///12", "ctx://7/x", "ctx://7/-1",
     "ctx://7/١٢", "state://get_ship", "ctx://7/" + "9" * 30, "ctx://" + "a" * 9000],
)  # fmt: skip
def test_what_is_no_message_handle_is_refused_with_the_form(handle: str) -> None:
    with pytest.raises(RecallError, match="ctx://7/1234"):
        parse_handle(handle)


def _history(mysis: Mysis) -> None:
    """Orders, plain answers, and calls with long results in odd characters."""
    for turn in range(30):
        make_memory(mysis, content=f'order {turn}: "go" {{鉄}} | a:b\n')
        call = make_call("get_map", f'{{"at": "{turn}"}}', call_id="call_1")
        make_memory(mysis, role="assistant", content="Looking.", tool_calls=[call])
        make_memory(
            mysis,
            role="tool",
            tool_call_id="call_1",
            tool_name="get_map",
            content=f"<b>{turn}</b> " + "é\u200d🚀 " * 900,
        )
        make_memory(mysis, role="assistant", content=f"Seen {turn}.", reasoning="hm")


@pytest.mark.django_db
@pytest.mark.parametrize("strategy", registry.list_names())
def test_everything_a_view_leaves_out_comes_back_letter_for_letter(
    strategy: str,
) -> None:
    """I21: every line of the ledger with a handle, under every strategy."""
    ada = make_mysis()
    _history(ada)
    subject = Subject(
        ada.pk, ada.name, "You fly.", strategy=strategy, budget=Budget(30_000, 2_000)
    )
    ledger = prepare_request(subject).assembly.ledger
    handles = [line.handle for line in ledger if line.handle]
    assert handles
    for handle in handles:
        owner, message_id = parse_handle(handle)
        assert owner == str(ada.pk)
        row = Memory.objects.get(pk=message_id)
        text = memory_handles.read_message(ada.pk, message_id)
        if row.tool_calls:
            assert text.startswith("Looking.\n")
            assert row.tool_calls[0]["function"]["arguments"] in text
        elif row.reasoning:
            assert text == f"{row.content}\n[reasoning: {row.reasoning}]"
        else:
            assert text == row.content


@pytest.mark.django_db
def test_a_message_of_another_mysis_is_as_unknown_as_none() -> None:
    """I27."""
    ada, bob = make_mysis(), make_mysis()
    secret = make_memory(bob, content="Bob's plan")
    with pytest.raises(RecallError) as foreign:
        memory_handles.read_message(ada.pk, secret.pk)
    with pytest.raises(RecallError) as unknown:
        memory_handles.read_message(ada.pk, 10**18)
    assert str(foreign.value).replace(str(secret.pk), str(10**18)) == str(unknown.value)


@pytest.mark.django_db
def test_calls_of_secret_tools_stay_hidden() -> None:
    """A11."""
    ada = make_mysis()
    call = make_call("set_pin", '{"pin": "4711"}')
    asked = make_memory(ada, role="assistant", content="", tool_calls=[call])
    got = make_memory(ada, role="tool", tool_name="set_pin", content="4711 is set")
    assert "4711" in memory_handles.read_message(ada.pk, asked.pk)
    for row in (asked, got):
        text = memory_handles.read_message(ada.pk, row.pk, secret={"set_pin"})
        assert "4711" not in text
        assert "[hidden]" in text


@pytest.mark.django_db
def test_a_long_thought_that_a_search_cut_comes_back() -> None:
    ada = make_mysis()
    thought = "iron " + "why " * 1000 + "so."
    make_memory(ada, role="assistant", content="Go.", reasoning=thought)
    reach = Scope("x", ada.pk)
    (hit,) = answer_search_reasoning({"query": "iron"}, reach).value["matches"]
    handle = hit["reasoning"].rpartition("see ")[2].rstrip(")")
    assert handle.startswith("ctx://")
    assert (
        recall_tool({"handle": handle}, reach)
        .value["content"]
        .endswith(f"[reasoning: {thought}]")
    )
