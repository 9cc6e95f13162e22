"""A Mysis goes on from an earlier message, and a rewind is read, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from agents import actions
from agents.context_inputs import preview_context
from agents.models import ModelCall, Mysis, Rewind, RewindStep
from memory.assembly import prepare
from memory.models import Branch, Memory
from tests.browser.conftest import PHONE, WIDE
from tests.browser.scenes import HOSTILE, add_account, add_conversation
from tests.browser.test_fleet import live
from tests.factories import make_memory, make_mysis, make_turn


@pytest.fixture
def ada(transactional_db: None) -> Mysis:
    """At rest, with a conversation behind it."""
    mysis = make_mysis(name="Ada", state="stopped")
    add_account(mysis)
    add_conversation(mysis, exchanges=3)
    return mysis


STICKING_OUT = """
() => [...document.querySelectorAll('main *')]
  .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth
    && document.documentElement.scrollWidth > document.documentElement.clientWidth)
  .map(one => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`)
"""


def sticks_out(page: Page) -> list[str]:
    """What makes the page wider than its window, on a screen or on a phone."""
    found: list[str] = []
    for size in (PHONE, WIDE):
        page.set_viewport_size(size)
        found += page.evaluate(STICKING_OUT)
    return found


def test_it_goes_on_from_a_message_and_back(page: Page, ada: Mysis):
    asked = Memory.objects.filter(mysis=ada, role="assistant").earliest("pk")
    page.goto("/myses/Ada/")
    line = page.locator(f"#line-{asked.pk}")
    line.hover()
    line.get_by_role("link", name="Go on from here").click()
    expect(page.locator("main")).to_contain_text("a call and its results stay together")
    assert sticks_out(page) == []
    page.get_by_label("Correction").fill("Sell the ore first.")
    page.get_by_label("Start it at once").uncheck()
    page.get_by_role("button", name="Take back 4 messages").click()
    branch = Branch.objects.get()
    expect(page.locator(".line-taken")).to_have_count(4)
    correction = page.locator(f"#line-{branch.correction_id}")
    expect(correction).to_contain_text("Sell the ore first.")
    assert sticks_out(page) == []
    correction.get_by_role("link", name="correction").click()
    expect(page.locator("main")).to_contain_text("4 messages are taken back")
    assert sticks_out(page) == []
    page.get_by_role("button", name="Undo the branch").click()
    page.get_by_role("button", name="Undo the branch").click()
    expect(page.locator("#notices, .notice").first).to_contain_text("is undone")
    live(page, "/myses/Ada/")
    expect(page.locator("#log .line-taken")).to_have_count(1)
    # Whoever looks on sees it too.
    first = Memory.objects.filter(mysis=ada).earliest("pk")
    branch = actions.take_branch(mysis=ada, asked=first.pk, text="No.", by="ann")
    expect(page.locator("#log .line-taken")).to_have_count(7)
    actions.undo_branch(branch=branch, by="ann")
    expect(page.locator("#log .line-taken")).to_have_count(2)


def test_a_rewind_is_started_and_read_as_it_grows(page: Page, ada: Mysis):
    turn = make_turn(ada, outcome="done")
    call = ModelCall.objects.create(
        turn=turn, number=1, model=ada.model, output_tokens=9, finish_reason="stop"
    )
    prepare.record_call(call_id=call.pk, prepared=preview_context(ada))
    make_memory(ada, role="assistant", content="I mine on.", turn=turn)
    page.goto(f"/turns/{turn.pk}/calls/1/context/")
    page.get_by_role("link", name="Rewind from here").click()
    expect(page.locator("main")).to_contain_text("The first call:")
    assert sticks_out(page) == []
    page.get_by_label("Order").fill("Sell the ore first.")
    page.get_by_role("button", name="Rewind", exact=True).click()
    expect(page.locator("#rewind-live [role=status]")).to_contain_text(
        "waits for a worker"
    )
    row = Rewind.objects.get()
    step = {
        "reasoning": "The hold is nearly full, and the market is close.",
        "input_tokens": 21_000, "output_tokens": 300, "cached_tokens": 18_500,
        "cost": "0.0012", "latency_ms": 5200,
    }  # fmt: skip
    travel = {"name": "travel", "arguments": '{"target_system": "sol", "speed": 2}'}
    sell = {"name": "sell", "arguments": '{"item_id": "ore_iron", "quantity": 40}'}
    same = {"turn_id": turn.pk, "turn_number": turn.number, "call_number": 1}
    RewindStep.objects.create(
        rewind=row, place=1, **same,
        recorded={**step, "text": "Off to Sol.", "calls": [travel]},
        made={**step, "text": HOSTILE, "calls": [travel]},
    )  # fmt: skip
    Rewind.objects.update(state="running", done=1, total=3, input_tokens=21_000)
    expect(page.locator("#step-1")).to_contain_text("same calls")
    expect(page.locator("#step-1")).to_contain_text(HOSTILE)
    RewindStep.objects.create(
        rewind=row, place=2, **same, differs="Call 1 is sell; recorded was travel.",
        recorded={**step, "text": "", "calls": [travel]},
        made={**step, "text": "First I sell what I have.", "calls": [sell]},
    )  # fmt: skip
    Rewind.objects.update(state="done", end="differs", done=2)
    expect(page.locator("#rewind-live [role=status]")).to_contain_text(
        "differs at step 2"
    )
    expect(page.locator("#step-2 .rewind-why")).to_contain_text("Call 1 is sell")
    assert sticks_out(page) == []
    page.get_by_role("button", name="Discard this rewind").click()
    expect(page.locator(".notice").first).to_contain_text("is discarded")
    assert not Rewind.objects.exists()
