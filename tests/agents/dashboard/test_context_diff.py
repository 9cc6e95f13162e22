"""The context inspector: what differs from the last call, and from a strategy."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from django.test import Client

from agents import context_inputs
from agents.dashboard import context_diff
from agents.models import ModelCall, Mysis, ToolCatalogue
from memory.assembly import prepare
from memory.assembly.sent_view import render_messages
from memory.models import HistorySummary, SentContext
from tests.browser import scenes
from tests.factories import make_memory, make_mysis, make_turn


def call(mysis: Mysis) -> SentContext:
    """A model call, with what it was sent."""
    turn = make_turn(mysis, outcome="done")
    made = ModelCall.objects.create(turn=turn, number=1, model=mysis.model)
    return prepare.record_call(
        call_id=made.pk, prepared=context_inputs.preview_context(mysis)
    )


def test_what_the_next_call_adds_is_told_apart_from_what_it_keeps(db: None):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis, exchanges=2)
    earlier = call(mysis)
    make_memory(mysis, role="assistant", content="I mine on.")
    make_memory(mysis, content="Sell it.", sender="operator:ann")
    assembly = context_inputs.preview_context(mysis).assembly
    found = context_diff.compare_requests(
        render_messages(earlier), (assembly.messages, assembly.system)
    )
    assert found.prefix >= 3
    assert 0 < found.shared < found.size
    assert 0 < found.percent < 100
    added = [step.excerpt for step in found.steps if step.kind == "added"]
    assert any("I mine on." in text for text in added)
    assert any("Sell it." in text for text in added)


def test_a_request_like_the_last_one_is_all_prefix(db: None):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis)
    earlier = call(mysis)
    messages = list(earlier.view["messages"])
    old, system = render_messages(earlier)
    found = context_diff.compare_requests(render_messages(earlier), (old, system))
    assert (found.percent, found.steps) == (100, ())
    assert found.prefix == len(messages) + (system is not None)


def test_a_changed_message_shows_its_lines(db: None):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis)
    earlier = call(mysis)
    old, system = render_messages(earlier)
    new = [*old[:-1], {**old[-1], "content": "another end"}]
    [step] = context_diff.compare_requests((old, system), (new, system)).steps
    assert step.kind == "changed"
    assert ("added", "another end") in [(x.kind, x.text) for x in step.lines]


def test_two_strategies_side_by_side_fold_what_is_the_same(db: None):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis, exchanges=20)
    wide = context_inputs.preview_context(mysis, strategy="full")
    narrow = context_inputs.preview_context(
        mysis, strategy="window", options={"window": 6}
    )
    found = context_diff.compare_strategies(wide, narrow)
    assert found.a.messages > found.b.messages
    assert (found.a.tokens or 0) > (found.b.tokens or 0)
    differing = sum(len(run.rows) for run in found.runs if not run.same)
    assert found.differing == differing > 0
    assert context_diff.compare_strategies(wide, wide).differing == 0
    # What only one sends, and the other leaves out for one reason, is one line.
    [left] = [run for run in found.runs if run.fate == "out_of_window"]
    assert (left.kind, left.folded) == ("A", True)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("a\nb", "a\nb", []),
        ("a\nb", "a\nc", ["same", "removed", "added"]),
        ("", "a", ["added"]),
        ("a\n", "a", ["fold"]),
        ("\n".join("abcdefghij"), "\n".join("abcdefghiX"), ["fold", "same", "same"]),
    ],
)
def test_lines_that_differ(before: str, after: str, kinds: list[str]):
    found = [line.kind for line in context_diff.compare_texts(before, after)]
    assert found[: len(kinds)] == kinds
    assert bool(found) == bool(kinds)


def test_a_huge_text_is_not_laid_side_by_side():
    [line] = context_diff.compare_texts("x\n" * 2000, "y\n" * 2000)
    assert line.kind == "fold"
    assert "2,000 lines" in line.text


def test_the_ledger_leads_to_the_payload_and_to_what_supersedes(admin: Client):
    mysis = make_mysis(name="Ada")
    results = []
    for number in range(2):
        made = {"id": f"c{number}", "function": {"name": "get_ship", "arguments": "{}"}}
        make_memory(mysis, content="Look.")
        make_memory(mysis, role="assistant", content="", tool_calls=[made])
        results.append(make_memory(mysis, role="tool", tool_call_id=made["id"]))
    query = {"strategy": "snapshot-window", "window": "40"}
    answer = admin.get("/myses/Ada/context/", query)
    page = answer.content.decode()
    shown = answer.context["shown"]
    ledger = {entry.id: entry for entry in shown.ledger}
    old, new = (ledger[row.pk] for row in results)
    assert (old.newer, old.by, old.place) == (True, new.id, None)
    assert f'by <a class="num" href="/myses/Ada/?at={new.id}#line-{new.id}">' in page
    assert new.id in shown.blocks[new.place].ids
    assert f'href="#block-{new.place}"' in page


def test_every_view_of_the_next_context_opens(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.add_account(mysis)
    scenes.add_conversation(mysis, exchanges=15)
    call(mysis)
    make_memory(mysis, role="assistant", content="<b>new</b>")
    page = admin.get("/myses/Ada/context/").content.decode()
    assert "New from here" in page
    for view in ("changes", "compare", "raw", "messages", "nonsense"):
        page = admin.get(f"/myses/Ada/context/?view={view}").content.decode()
        assert "<b>new</b>" not in page
    page = admin.get("/myses/Ada/context/?against=window&beside=4").content.decode()
    assert "the same under both" in page
    assert "tiered beside window" in page


def test_the_file_is_what_its_hash_says_next_and_past(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis)
    make_memory(mysis, content='Ünïcode "quoted" \U0001f680')
    address = "/myses/Ada/context/"
    sent = call(mysis)
    past = f"/turns/{sent.call.turn_id}/calls/1/context/"
    for page in (address, past):
        digest = admin.get(page).context["shown"].document["hash"]
        file = admin.get(page, {"format": "json"}).content
        assert hashlib.sha256(file).hexdigest() == digest
        assert digest in admin.get(page, {"view": "raw"}).content.decode()


def test_the_tools_can_be_read_with_what_each_costs(admin: Client, settings: Any):
    make_mysis(name="Ada")
    none = admin.get("/myses/Ada/context/?view=tools").content.decode()
    assert "None are known" in none
    spec: dict[str, Any] = {
        "name": "mine",
        "description": "Mine <ore>.",
        "policy": "mutation",
    }
    spec |= {"parameters": {"type": "object", "properties": {}}, "read_only": False}
    url = settings.SPACEMOLT_MCP_URL
    ToolCatalogue.objects.create(url=url, tools=[spec])
    page = admin.get("/myses/Ada/context/?view=tools")
    text = page.content.decode()
    assert "Mine &lt;ore&gt;." in text
    assert "&quot;type&quot;: &quot;object&quot;" in text
    assert 0 < page.context["tools"].after < 100


def test_a_past_call_is_compared_with_the_one_before_it(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis)
    first = call(mysis)
    make_memory(mysis, role="assistant", content="In between.")
    second = call(mysis)
    address = f"/turns/{second.call.turn_id}/calls/1/context/"
    answer = admin.get(address)
    assert answer.context["earlier"] == first
    assert f'href="/turns/{first.call.turn_id}/calls/1/context/">←' in (
        answer.content.decode()
    )
    assert "In between." in admin.get(f"{address}?view=changes").content.decode()
    address = f"/turns/{first.call.turn_id}/calls/1/context/?view=changes"
    assert "No call before this one." in admin.get(address).content.decode()


def test_compactions_stand_with_what_they_replaced(admin: Client):
    mysis = make_mysis(name="Ada")
    rows = scenes.add_conversation(mysis)
    HistorySummary.objects.create(
        mysis=mysis,
        first_id=rows[0].pk,
        through_id=rows[3].pk,
        generation=1,
        text="We <i>mined</i>.",
        tokens_before=5_200,
        tokens_after=310,
        history_hash="0" * 64,
    )
    page = admin.get("/myses/Ada/context/").content.decode()
    for part in ("5,200", "310", "We &lt;i&gt;mined&lt;/i&gt;."):
        assert part in page
