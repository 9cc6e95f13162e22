"""The jobs of an operator, each in at most three clicks from Fleet.

Nothing but ``Hand.click`` and keys that type leads on here, and no address is opened.
"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect
from pytest_django import Settings

from agents import actions
from agents.actions import orders
from agents.models import Mysis, Visit
from sandbox.game.testing import SandboxServer
from tests.agents.dashboard.test_yields import add_turns
from tests.browser.test_fleet import live
from tests.browser.test_journeys import take_turn
from tests.factories import make_mysis

MOST = 3
GRACE = "operator:grace"


class Hand:
    """Clicks, as a person who stands on Fleet; a click into a field counts too."""

    def __init__(self) -> None:
        self.clicks = 0

    def click(self, target: Locator) -> None:
        self.clicks += 1
        assert self.clicks <= MOST
        target.click()


@pytest.fixture
def hand() -> Hand:
    return Hand()


def give_order(page: Page, hand: Hand, text: str) -> Locator:
    """Write to the whole fleet, with two clicks; the line of the order."""
    hand.click(page.get_by_role("textbox", name="Message"))
    page.keyboard.type(text)
    hand.click(page.locator("#composer").get_by_role("button", name="Send"))
    line = page.locator("#fleet-orders .order").first
    expect(line).to_contain_text(text)
    return line


def test_an_order_is_given_and_seen_done(page: Page, hand: Hand):
    fleet = [make_mysis(name=name, state="running") for name in ("Ada", "Brahe")]
    live(page)
    line = give_order(page, hand, "Return to base.")
    expect(line).to_contain_text("2 sent, 0 shown, 0 done")
    for mysis in fleet:
        orders.report_order(mysis=mysis, number=None, status="done", note="Docked.")
    expect(line).to_contain_text("2 sent, 2 shown, 2 done")
    assert hand.clicks == 2


def test_who_obeyed_is_named(page: Page, hand: Hand):
    ada, brahe = (make_mysis(name=name, state="running") for name in ("Ada", "Brahe"))
    make_mysis(name="Cassini", state="running")
    live(page)
    actions.send_broadcast(text="Return to base.", by=GRACE)
    line = page.locator("#fleet-orders .order").first
    expect(line).to_contain_text("3 sent")
    orders.report_order(mysis=ada, number=None, status="done", note="Docked.")
    orders.report_order(mysis=brahe, number=None, status="not_done", note="No fuel.")
    hand.click(line.locator("summary"))
    names = page.locator("#fleet-orders .order-names")
    told = (r"queued\s+1\s+Cassini", r"^\s*done\s+1\s+Ada", r"not done\s+1\s+Brahe")
    expect(names.locator("p")).to_have_text([re.compile(line) for line in told])
    hand.click(names.get_by_role("link", name="Notes and each one's part"))
    expect(page.locator("tr", has_text="Brahe")).to_contain_text("No fuel.")
    assert hand.clicks == 2


def test_the_worst_earner_is_found(page: Page, hand: Hand):
    begin = timezone.now() - timedelta(minutes=30)
    for name, gain in (("Cassini", 5), ("Ada", 50), ("Brahe", -20)):
        add_turns(make_mysis(name=name, state="running"), begin, 20, gain)
    live(page)
    hand.click(page.get_by_role("link", name="Yield", exact=True))
    first = page.locator("#yield-lines tbody tr").first
    expect(first).to_contain_text("Ada")
    # The best first: a click turns the order round.
    hand.click(page.get_by_role("link", name="Credits an hour"))
    expect(first).to_contain_text("Brahe")
    expect(first).to_contain_text("-400")
    assert hand.clicks == 2


def test_why_it_did_that_is_told(page: Page, hand: Hand, settings: Settings):
    ada = actions.create_mysis(name="Ada", by="test")
    with SandboxServer() as game:
        settings.SPACEMOLT_MCP_URL = game.url
        actions.start_mysis(mysis=ada, by="test")
        take_turn(ada)
    live(page)
    hand.click(page.get_by_role("link", name="Ada", exact=True).first)
    said = page.locator("#log .line", has_text="register").first
    hand.click(said.get_by_role("link", name="call 1"))
    # All that the model had before it as it chose that.
    expect(page.locator(".part-head").first).to_contain_text("Payload")
    expect(page.locator("main")).to_contain_text("Not logged in.")
    assert hand.clicks == 2


@pytest.mark.replaces_requests
def test_a_model_is_changed(page: Page, hand: Hand):
    ada = make_mysis(name="Ada", state="running")
    live(page)
    hand.click(page.get_by_role("link", name="Ada", exact=True))
    hand.click(page.get_by_role("link", name="Edit the model"))
    editor = page.get_by_role("dialog", name="Model of Ada")
    expect(editor.get_by_label("Model")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("pilot:forgetful")
    hand.click(editor.get_by_role("button", name="Save"))
    expect(page.locator("#mysis-head")).to_contain_text("pilot:forgetful")
    ada.refresh_from_db()
    assert (ada.model, hand.clicks) == ("pilot:forgetful", 3)


def test_what_happened_overnight_is_told(page: Page, hand: Hand, admin: User):
    evening = timezone.now() - timedelta(hours=9)
    Visit.objects.create(user=admin, seen_at=evening)
    ada = make_mysis(name="Ada", state="running")
    add_turns(ada, timezone.now() - timedelta(hours=4), 20, 50)
    actions.send_broadcast(text="Return to base.", by=GRACE)
    orders.report_order(mysis=ada, number=None, status="done", note="Docked.")
    actions.stop_mysis(mysis=ada, by=GRACE)
    live(page)
    hand.click(page.get_by_role("link", name="Since your last visit"))
    told = page.locator("main")
    for words in (
        *("(9 h)", "+1,000 credits in 20 turns", "Stopped: 1 by grace"),
        "“Return to base.” to the fleet by grace: 1 sent, 1 shown, 1 done",
    ):
        expect(told).to_contain_text(words)
    assert hand.clicks == 1
    assert Mysis.objects.get().state == Mysis.State.STOPPED
