"""Views and ledgers as they are kept, and read again."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.assembly.hashes import hash_view
from memory.assembly.packing import (
    COLUMNS,
    pack_ledger,
    pack_sources,
    unpack_ledger,
    unpack_sources,
)
from memory.assembly.prepare import Subject, prepare_request
from memory.assembly.sent_view import render_sent
from memory.context.result_types import LedgerLine
from memory.context.types import Disposition
from memory.models import SentContext
from tests.factories import (
    make_call,
    make_memory,
    make_mysis,
    make_sent,
)

lines = st.builds(
    LedgerLine,
    id=st.integers(1, 2**60),
    disposition=st.sampled_from(get_args(Disposition)),
    by=st.one_of(st.none(), st.integers(1, 99), st.sampled_from(["mask", "budget"])),
    reason=st.sampled_from(["Sent as stored.", "No room was left for it.", "Old."]),
    tokens_in=st.integers(0, 10**9),
    tokens_out=st.integers(0, 10**9),
    handle=st.none(),
)


@given(st.lists(lines, max_size=30))
def test_what_is_kept_is_read_again(ledger: list[LedgerLine]):
    kept = json.loads(json.dumps(pack_ledger(ledger)))
    found = unpack_ledger(kept, 7)
    assert [[row[c] for c in COLUMNS] for row in found] == [
        [getattr(line, c) for c in COLUMNS] for line in ledger
    ]
    for row in found:
        whole = row["disposition"] == "kept"
        assert row["handle"] == (None if whole else f"ctx://7/{row['id']}")


def test_a_ledger_from_before_is_read_too():
    """Migrations and upgrades lose nothing: old calls show their ledgers."""
    found = unpack_ledger([[5, "masked", "mask", "Old.", 9, 3]], 7)
    verdicts = {"verdicts": [["masked", "mask", "Old."]], "lines": [[5, 0, 9, 3]]}
    assert unpack_ledger(verdicts, 7) == found
    assert unpack_ledger({"verdicts": [], "lines": []}, 7) == []
    assert found == [
        {
            "id": 5,
            "disposition": "masked",
            "by": "mask",
            "reason": "Old.",
            "tokens_in": 9,
            "tokens_out": 3,
            "handle": "ctx://7/5",
        }
    ]


ids = st.integers(1, 2**60)


@given(st.lists(st.none() | ids | st.lists(ids, min_size=1), max_size=30))
def test_sources_are_kept_as_steps(shown: list[Any]):
    kept = {"sources": json.loads(json.dumps(pack_sources(shown)))}
    assert [*unpack_sources(kept["sources"])] == shown
    assert [*unpack_sources(shown)] == shown


@pytest.mark.django_db
def test_a_view_from_before_is_rendered_as_it_was():
    """One with a list of ids and an entry for each message."""
    mysis = make_mysis()
    for number in range(40):
        call = make_call("get_ship", call_id=f"c{number}")
        make_memory(mysis, role="assistant", content="", tool_calls=[call])
        result = {"tool_call_id": f"c{number}", "content": "ship " * 800}
        make_memory(mysis, role="tool", **result)
    make_memory(mysis, content="Go on.")
    options = {"prune": "stub", "window": 90}
    prepared = prepare_request(
        Subject(
            mysis.pk, "Ada", "You are.", strategy="snapshot-window", options=options
        )
    )
    sent = make_sent(mysis, prepared)
    assert 40 < sent.view["messages"].count(None) < 60
    shown = render_sent(SentContext.objects.get())
    assert shown.intact
    assert shown.messages == prepared.assembly.messages
    old = {**sent.view, "sources": shown.sources, "messages": []}
    for source, message in zip(shown.sources, shown.messages, strict=True):
        entry = {"order": [*message], "set": {"content": message["content"]}}
        old["messages"].append(
            {"m": source, **entry} if source else {**entry, "set": message}
        )
    SentContext.objects.update(view=old)
    assert render_sent(SentContext.objects.get()) == shown


@pytest.mark.django_db
def test_a_joined_state_block_is_kept_apart_from_the_result_before_it():
    """Which may be as long as it likes: only what is new of the message is stored."""
    mysis = make_mysis()
    make_memory(mysis, content="Mine.")
    make_memory(mysis, content="And sell.", origin="broadcast")
    for _ in range(2):
        calls = [make_call("get_ship", call_id="call_1")]
        make_memory(mysis, role="assistant", content="", tool_calls=calls * 2)
        make_memory(mysis, role="tool", tool_call_id="call_1", content="ship " * 800)
        make_memory(mysis, role="tool", tool_call_id="call_1", content="hull " * 800)
    prepared = prepare_request(Subject(mysis.pk, "Ada", "You are.", strategy="full"))
    make_sent(mysis, prepared)
    sent = SentContext.objects.get()
    assert prepared.assembly.messages[-1]["content"].endswith(
        "hull \n\nNot logged in. Use register or login."
    )
    # The prompt, both orders as one text, the calls and results as they are, the end.
    assert [bool(entry) for entry in sent.view["messages"]] == [1, 1, *[0] * 5, 1]
    assert sent.view["messages"][-1] == {
        "add": {"content": "\n\nNot logged in. Use register or login."}
    }
    shown = render_sent(sent)
    assert shown.intact
    assert shown.messages == prepared.assembly.messages


@pytest.mark.django_db
def test_blocks_of_the_anthropic_dialect_are_no_longer_text_than_the_row():
    mysis = make_mysis()
    make_memory(mysis, content="[{")
    subject = Subject(mysis.pk, "Ada", "You are.", strategy="full", dialect="anthropic")
    prepared = prepare_request(subject)
    make_sent(mysis, prepared)
    shown = render_sent(SentContext.objects.get())
    assert shown.intact
    assert shown.messages == prepared.assembly.messages


@pytest.mark.django_db
def test_a_call_of_a_version_that_sent_the_providers_ids_keeps_its_hash():
    mysis = make_mysis()
    make_memory(mysis, content="Mine.")
    call = make_call("get_ship", call_id="call_1")
    make_memory(mysis, role="assistant", content="", tool_calls=[call])
    make_memory(mysis, role="tool", tool_call_id="call_1", content="{}")
    prepared = prepare_request(Subject(mysis.pk, "Ada", "You are.", strategy="full"))
    sent = make_sent(mysis, prepared)
    *begun, asked, answered = render_sent(sent).messages
    was = [
        *begun,
        asked | {"tool_calls": [call]},
        answered | {"tool_call_id": "call_1", "content": "{}"},
        {"role": "user", "content": "## Current Game State"},
    ]
    end = {"order": ["role", "content"], "set": was[-1]}
    sent.view = {
        "system": None,
        "sources": sent.view["sources"] + " -",
        "synthetic": [{"position": len(was) - 1, "kind": "state"}],
        "messages": [*sent.view["messages"][:-1], None, end],
    }
    sent.digest = hash_view(was)
    assert render_sent(sent).messages == was
    assert render_sent(sent).intact


def test_a_long_ledger_is_small():
    told = LedgerLine(1, "kept", None, "Sent as stored.", 90, 90, None)
    plain = [[getattr(told, c) for c in COLUMNS]] * 1000
    assert len(json.dumps(pack_ledger([told] * 1000))) * 3 < len(json.dumps(plain))
