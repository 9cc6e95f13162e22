"""What model calls are held against; ``tests/zoea/test_up.py`` runs the fleet."""

from __future__ import annotations

from bench import fleet


def test_a_call_is_held_against_all_that_was_stored_by_then():
    history = [(3, 100), (5, 250), (9, 400)]
    system = {"role": "system", "content": "Obey."}
    call = {
        "messages": [system, {"role": "user", "content": "ä"}],
        "sources": [None, [3, 5]],
    }
    user = len('{"role":"user","content":"ä"}'.encode())
    prompt = fleet.count_bytes(system)
    assert fleet.compare_call(call, history) == (prompt + user, prompt + 250)


def test_a_call_that_shows_nothing_stored_has_no_history():
    call = {"messages": [], "sources": [None]}
    assert fleet.compare_call(call, [(3, 100)]) == (0, 0)


def test_a_stored_message_is_weighed_as_it_would_be_sent():
    memory = {
        "id": 1,
        "role": "tool",
        "content": "ok",
        "reasoning": "not sent",
        "tool_calls": [],
        "tool_call_id": "call_1",
    }
    sent = {"role": "tool", "content": "ok", "tool_call_id": "call_1"}
    assert fleet.wire_message(memory) == sent
