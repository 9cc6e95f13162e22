"""The feed in a real browser: it waits for its reader, and shows what is chosen."""

from __future__ import annotations

from playwright.sync_api import Page, Route, expect

from agents import events
from agents.events import Kind
from agents.models import Event, Mysis
from tests.browser import scenes
from tests.browser.conftest import PHONE
from tests.browser.test_fleet import live
from tests.factories import make_mysis


def act(mysis: Mysis, tool: str) -> None:
    """Something for the feed."""
    data = {"tool": tool, "arguments": {}, "ok": True, "ms": 3}
    events.append(Kind.TOOL_CALLED, mysis_id=mysis.pk, data=data)


def test_a_paused_feed_counts_and_catches_up(page: Page):
    ada = make_mysis(name="Ada", state="running")
    live(page)
    act(ada, "mine")
    feed = page.locator("#feed")
    expect(feed).to_contain_text("mine()")
    page.get_by_label("Pause").check()
    act(ada, "sell")
    act(ada, "refuel")
    pill = page.locator("#feed-pill")
    expect(pill).to_have_text("2 new")
    expect(feed).not_to_contain_text("sell()")
    pill.click()
    expect(feed).to_contain_text("sell()")
    expect(pill).to_be_hidden()
    act(ada, "dock")
    expect(feed).to_contain_text("dock()")
    # What comes while the newest are on their way is not lost with the old list.
    page.get_by_label("Pause").check()
    act(ada, "jump")
    expect(pill).to_have_text("1 new")
    answer = page.request.get("/feed/").text()
    asked: list[Route] = []
    page.route("**/feed/", lambda route: asked.append(route))
    pill.click()
    expect(pill).to_be_hidden()
    act(ada, "scan")
    newest = str(Event.objects.latest("pk").pk)
    expect(feed).to_have_attribute("data-newest", newest)
    asked[0].fulfill(body=answer, content_type="text/html")
    expect(feed).to_contain_text("jump()")
    expect(feed.locator(".feed-line").first).to_contain_text("scan()")
    expect(feed.get_by_text("dock()")).to_have_count(1)


def test_the_chips_choose_what_the_feed_shows(page: Page):
    ada = make_mysis(name="Ada", state="running")
    live(page)
    stale = {"tool": "get_ship", "reason": "jump"}
    events.append(Kind.SNAPSHOT_STALE, mysis_id=ada.pk, data=stale)
    sold = {"tool": "sell", "ok": True, "memory": 5, "turn": 1, "call": 1}
    sold["outcome"] = "sold 20 Iron Ore, +100 cr"
    events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data=sold)
    feed = page.locator("#feed")
    line = feed.locator(".feed-line")
    # What became stale stands under its own chip.
    expect(line).to_have_count(1)
    expect(line).to_contain_text("sold 20 Iron Ore, +100 cr")
    expect(line.locator(".feed-link")).to_have_attribute("href", "/myses/Ada/?at=5")
    page.locator("label:has(#feed-stale)").click()
    expect(feed.locator(".feed-snapshotstale")).to_be_visible()
    events.append(Kind.ERROR, mysis_id=ada.pk, data={"detail": "It broke."})
    page.get_by_role("radio", name="Errors").check(force=True)
    expect(feed.get_by_text("It broke.")).to_be_visible()
    expect(feed.get_by_text("sold 20")).to_be_hidden()
    # Though the page waits for another answer.
    held: list[Route] = []
    page.route("**/slow/", lambda route: held.append(route))
    with page.expect_request("**/slow/"):
        page.evaluate("() => { htmx.ajax('GET', '/slow/', '#notices'); }")
    page.get_by_role("radio", name="Actions").check(force=True)
    expect(feed.get_by_text("It broke.")).to_be_hidden()
    expect(feed.get_by_text("sold 20")).to_be_visible()
    held[0].fulfill(body="")


def test_the_events_page_has_no_box_that_scrolls_by_itself(page: Page):
    scenes.happenings(scenes.busy_fleet())
    page.set_viewport_size(PHONE)
    page.goto("/events/")
    inner = "feed => feed.scrollHeight > feed.clientHeight + 1"
    assert not page.locator(".feed").evaluate(inner)
    assert page.locator(".feed").evaluate("feed => feed.clientHeight") > 400
    # It grows at its top, and waits on demand: nothing is missing afterwards.
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    events.append(Kind.ERROR, data={"detail": "First news."})
    newest = page.locator(".feed-line").first
    expect(newest).to_contain_text("First news.")
    page.get_by_label("Pause").check()
    for number in (2, 3):
        events.append(Kind.ERROR, data={"detail": f"News no. {number}."})
    pill = page.locator("#feed-pill")
    expect(pill).to_have_text("2 new")
    expect(newest).to_contain_text("First news.")
    pill.click()
    expect(newest).to_contain_text("News no. 3.")
    expect(page.locator(".feed")).to_contain_text("News no. 2.")
    # What falls off its end is found among the older ones.
    older = page.get_by_role("link", name="Older events")
    expect(older).to_be_hidden()
    page.locator("#feed").evaluate("feed => { feed.dataset.keep = 2; }")
    events.append(Kind.ERROR, data={"detail": "News no. 4."})
    expect(page.locator(".feed")).not_to_contain_text("News no. 2.")
    older.click()
    expect(page.locator(".feed-line").first).to_contain_text("News no. 2.")
