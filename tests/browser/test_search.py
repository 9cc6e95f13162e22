"""The way from hit to hit of a search, on the pages that hits are read on."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from agents import actions, events
from agents.actions import notes
from agents.models import Mysis
from memory.models import HistorySummary
from tests.browser.conftest import PHONE
from tests.factories import make_mysis

WHO = "operator:ann"
# So far down in a long text a hit is found.
FILLER = "Sell copper.\n" * 200


@pytest.fixture
def fleet(transactional_db: None) -> list[Mysis]:
    """Three Myses, and three hits for iron of each kind beside the log."""
    myses = [make_mysis(name=name) for name in ("Ada", "Brahe", "Curie")]
    prompt = actions.get_default_prompt()
    for number, mysis in enumerate(myses):
        actions.send_order(myses=[mysis], text=f"Sell the iron, {number}.", by=WHO)
        text = f"{FILLER}Mine iron {number}.\n{FILLER}"
        actions.save_prompt(prompt=prompt, text=text, by=WHO)
        pins = [f"{n}: never sell copper." for n in range(6)]
        actions.update_mysis(mysis=mysis, pins=[*pins, "Never sell iron."], by=WHO)
        for name in ("a", "b", "c"):
            notes.save_note(mysis=mysis, name=name, text="copper", by=WHO)
        notes.save_note(mysis=mysis, name="ore", text="iron", by=WHO)
        for generation in range(1, 12):
            HistorySummary.objects.create(
                mysis=mysis,
                first_id=generation,
                through_id=generation,
                generation=generation,
                status="active" if generation == 11 else "replaced",
                text=f"{FILLER}It sold iron." if generation == 4 else "It slept.",
            )
        events.append_error(mysis.pk, f"No iron here, {number}.")
        for _ in range(30):
            events.append_error(mysis.pk, "No copper here.")
    return myses


# Where a hit of each kind is read: what of the page is it.
PLACES = {
    "orders": ".order-whole",
    "prompts": "pre",
    "summaries": "pre",
    "pins": "li",
    "notes": ".note",
    "events": ".feed-line",
}


def walk(page: Page, kind: str, query: str = "iron") -> Iterator[None]:
    """Go from the newest hit of a kind to the one before it, and stop at each."""
    page.goto(f"/search/?{urlencode({'q': query, 'where': kind})}")
    page.locator(".hit").first.locator("a.sub").click()
    hit = page.locator(f"{PLACES[kind]}:target")
    for number in (1, 2):
        expect(page.locator(".hit-walk")).to_contain_text(f"{number} of 3")
        expect(page.locator(".hit-walk")).to_be_in_viewport()
        expect(hit.locator("mark").first).to_have_text("iron")
        expect(hit.locator("mark").first).to_be_in_viewport()
        expect(hit).to_have_css("outline-style", "solid")
        yield
        if number == 1:
            page.get_by_role("link", name="Next").click()


def test_hits_beside_the_log_are_walked_in_sight(
    page: Page, fleet: list[Mysis]
) -> None:
    for kind in PLACES:
        # Orders stand among the events too.
        for _ in walk(page, kind, "iron here" if kind == "events" else "iron"):
            expect(page.locator(".hit-walk")).to_be_in_viewport()
            # Only a long text, whose hit is far down in it, is scrolled to.
            if kind not in ("summaries", "prompts"):
                page.wait_for_function("scrollY === 0")
    page.get_by_role("link", name="Previous").click()
    expect(page.locator(".hit-walk")).to_contain_text("1 of 3")
    page.get_by_role("link", name="All results").click()
    expect(page.locator(".hit")).to_have_count(3)
    page.set_viewport_size(PHONE)
    for _ in walk(page, "pins"):
        assert page.evaluate("document.documentElement.scrollWidth") == 390
