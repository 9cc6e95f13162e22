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

from agents import actions
from agents.actions import orders
from agents.models import Visit
from tests.agents.dashboard.test_yields import add_turns
from tests.browser.test_fleet import live
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


def test_an_order_is_given_seen_done_and_who_obeyed_is_named(page: Page):
    hand = Hand()
    ada, _, cyd = (make_mysis(name=n, state="running") for n in ("Ada", "Bo", "Cyd"))
    make_mysis(name="Xeno", state="stopped")
    live(page)
    expect(page.locator("#fleet-orders")).to_contain_text("No orders yet.")
    hand.click(page.get_by_role("textbox", name="Message"))
    page.keyboard.type("All hands: return to base.")
    hand.click(page.locator("#composer").get_by_role("button", name="Send"))
    line = page.locator("#fleet-orders .order")
    expect(line).to_contain_text("All hands: return to base.")
    expect(line).to_contain_text("3 sent, 0 shown, 0 done")
    expect(page.locator("#feed")).to_contain_text("All hands: return to base.")
    hand = Hand()
    hand.click(line.locator("summary"))
    names = page.locator("#fleet-orders .order-names")
    expect(names).to_contain_text("queued 3")
    orders.report_order(mysis=ada, number=None, status="done", note="Docked.")
    orders.report_order(mysis=cyd, number=None, status="not_done", note="No fuel.")
    expect(line).to_contain_text("3 sent, 2 shown, 1 done")
    # The names stay open, and are read anew.
    told = (r"queued\s+1\s+Bo", r"^\s*done\s+1\s+Ada", r"not done\s+1\s+Cyd")
    expect(names.locator("p")).to_have_text([re.compile(one) for one in told])
    expect(page.locator("#feed")).to_contain_text("order done")
    names.get_by_role("button", name="Not done: order").click()
    expect(line).to_contain_text("1 done, 2 not done")
    hand.click(names.get_by_role("link", name="Notes and each one's part"))
    expect(page.locator("tr", has_text="Cyd")).to_contain_text("No fuel.")
    # Its page is live too, and has a tick and a note for each.
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    expect(page.locator("#order-status")).to_contain_text("Docked.")
    part = page.locator("tr", has_text="Bo")
    expect(part).to_contain_text("never shown to it")
    page.fill("#order-note", "I saw it fly.")
    part.get_by_role("button").click()
    expect(part).to_contain_text("queued")
    expect(part).to_contain_text("I saw it fly.")
    expect(page.locator("#order-note")).to_have_value("")
    page.fill("#order-note", "Look again.")
    page.get_by_role("button", name="Keep the note only").click()
    expect(part).to_contain_text("Look again.")
    expect(part).to_contain_text("queued")


@pytest.mark.replaces_requests
def test_the_night_is_told_the_worst_earner_found_and_its_model_changed(
    page: Page, admin: User
):
    evening = timezone.now() - timedelta(hours=9)
    Visit.objects.create(user=admin, seen_at=evening)
    now = timezone.now()
    ada, brahe, cassini = (
        make_mysis(name=name, state="running") for name in ("Ada", "Brahe", "Cassini")
    )
    add_turns(cassini, now - timedelta(hours=4), 20, 50)
    for mysis, gain in ((cassini, 5), (ada, 50), (brahe, -20)):
        add_turns(mysis, now - timedelta(minutes=30), 20, gain)
    actions.send_broadcast(text="Return to base.", by=GRACE)
    orders.report_order(mysis=ada, number=None, status="done", note="Docked.")
    actions.stop_mysis(mysis=ada, by=GRACE)
    live(page)
    hand = Hand()
    hand.click(page.get_by_role("link", name="Since your last visit"))
    told = page.locator("main")
    for words in (
        *("(9 h)", "+1,700 credits in 80 turns", "Stopped: 1 by grace"),
        "“Return to base.” to the fleet by grace: 3 sent, 1 shown, 1 done",
    ):
        expect(told).to_contain_text(words)
    live(page)
    hand = Hand()
    hand.click(page.get_by_role("link", name="Yield", exact=True))
    first = page.locator("#yield-lines tbody tr").first
    expect(first).to_contain_text("Ada")
    # The best first: a click turns the order round.
    hand.click(page.get_by_role("link", name="Credits an hour"))
    expect(first).to_contain_text("Brahe")
    expect(first).to_contain_text("-400")
    live(page)
    hand = Hand()
    hand.click(page.get_by_role("link", name="Brahe", exact=True))
    hand.click(page.get_by_role("link", name="Edit the model"))
    editor = page.get_by_role("dialog", name="Model of Brahe")
    expect(editor.get_by_label("Model")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("pilot:forgetful")
    hand.click(editor.get_by_role("button", name="Save"))
    expect(page.locator("#mysis-head")).to_contain_text("pilot:forgetful")
    brahe.refresh_from_db()
    assert brahe.model == "pilot:forgetful"
