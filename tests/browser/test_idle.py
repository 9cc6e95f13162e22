"""Who stands still, on the front page of a real browser, and the feed beside it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from agents import events
from agents.events import Kind
from agents.models import Mysis
from tests.agents.test_idle import order, rest
from tests.browser.conftest import Complaints
from tests.browser.test_fleet import live
from tests.factories import make_mysis


def test_those_who_idle_are_messaged_all_at_once(
    page: Page, complaints: Complaints
) -> None:
    idle = [rest(name) for name in ("Ada", "Brahe", "Cassini")]
    make_mysis(name="Drake", state="errored", last_error="No.", last_error_code="model")
    make_mysis(name="Emil", state="errored", last_error="No.", last_error_code="model")
    order(*idle, text="All hands: return to base")
    live(page)
    line = page.locator(".idles")
    expect(line).to_contain_text("3 of 5 idle for 2 min")
    line.get_by_role("link", name="Message them").click()
    expect(page.locator("#id_to option:checked")).to_have_text("3 Myses")
    page.locator("#id_text").fill("Go on with mining.")
    page.locator("#composer").get_by_role("button").last.click()
    expect(page.locator(".idles")).to_have_count(0)
    assert Mysis.objects.filter(state="running").count() == 3


def test_the_feed_tells_outcomes_and_keeps_staleness_under_its_chip(page: Page) -> None:
    ada = make_mysis(name="Ada", state="running")
    live(page)
    stale = {"tool": "get_ship", "reason": "jump"}
    events.append(Kind.SNAPSHOT_STALE, mysis_id=ada.pk, data=stale)
    sold = {"tool": "sell", "ok": True, "memory": 5, "turn": 1, "call": 1}
    sold["outcome"] = "sold 20 Iron Ore, +100 cr"
    events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data=sold)
    line = page.locator("#feed .feed-line")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("sold 20 Iron Ore, +100 cr")
    expect(line.locator(".feed-link")).to_have_attribute("href", "/myses/Ada/?at=5")
    page.locator("label:has(#feed-stale)").click()
    expect(page.locator("#feed .feed-snapshotstale")).to_be_visible()
