"""The lab in a browser: sliders, the last hour, a replay, its result, and what to choose."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from agents.lab import replay_job
from agents.models import Mysis, Replay
from bench.pages.browser import WIDE
from memory.models import ContextPolicy
from tests.agents.views.test_what_if import make_call
from tests.browser import scenes
from tests.browser.conftest import PHONE, Complaints
from tests.browser.test_accessibility import RUN
from tests.browser.test_accessibility import axe as axe
from tests.browser.test_fleet import clocked as clocked
from tests.browser.test_fleet import live, say
from tests.factories import make_mysis


@pytest.fixture
def ada(transactional_db: None) -> Mysis:
    made = make_mysis(name="Ada")
    scenes.add_account(made)
    for _ in range(3):
        scenes.add_conversation(made, exchanges=4)
        make_call(made)
    ContextPolicy.objects.create(
        name="narrow", strategy="window", options={"window": 4}
    )
    return made


def find_faults(page: Page, axe: str) -> list[str]:
    """What axe holds against the page on both screens and in both themes, and its width."""
    page.evaluate(axe)
    found = list(page.evaluate(RUN, []))
    page.emulate_media(color_scheme="dark")
    found += page.evaluate(RUN, ["color-contrast"])
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    found += page.evaluate(RUN, [])
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("wider than the window")
    page.set_viewport_size(WIDE)
    return found


@pytest.mark.replaces_requests
def test_sliders_answer_at_once_and_the_last_hour_follows(
    page: Page, complaints: Complaints, ada: Mysis, axe: str
):
    complaints.allowed += ("status of 422",)
    page.goto("/myses/Ada/context/")
    # It stays where the page is not loaded again.
    page.evaluate("window.stays = true")
    slider = page.get_by_label("Window, messages, slider")
    # By itself it has all messages.
    expect(slider).to_have_value("100")
    page.get_by_label("Strategy").select_option("full")
    expect(slider).to_be_disabled()
    page.get_by_label("Strategy").select_option("window")
    expect(slider).to_be_enabled()
    expect(slider).to_have_value("20")
    slider.focus()
    slider.press("Home")
    for _ in range(3):
        slider.press("ArrowRight")
    expect(page.get_by_label("Window, messages", exact=True)).to_have_value("4")
    expect(page.locator(".disp-counts")).to_contain_text("out of window")
    expect(page.locator("#tried-tag")).to_have_text("what if, not its policy")
    expect(slider).to_be_focused()
    expect(page.locator("#hour tbody tr")).to_have_count(3)
    expect(page.locator(".hour-sums")).to_contain_text("Tokens as tried")
    newest = page.locator("#hour tbody a").first
    expect(newest).to_have_attribute("href", re.compile("window=4&"))
    assert "window=4" in page.url
    page.get_by_label("Strategy").select_option("tiered")
    low = page.get_by_label("Lower mark, slider")
    low.focus()
    low.press("End")
    expect(page.locator("#said-lo")).to_contain_text("must not be above options.hi")
    assert page.evaluate("window.stays")
    assert find_faults(page, axe) == []
    # A mark of nothing is a mark.
    ada.policy = ContextPolicy.objects.create(
        name="low", strategy="tiered", options={"lo": 0.0, "hi": 0.5}
    )
    ada.save()
    page.goto("/myses/Ada/context/")
    expect(page.get_by_label("Lower mark, slider")).to_have_value("0")


def test_a_replay_from_the_form_to_the_policy_in_use(
    page: Page, complaints: Complaints, ada: Mysis, axe: str
):
    complaints.allowed += ("status of 422",)
    page.goto("/policies/")
    page.get_by_role("link", name="Lab").click()
    expect(page.get_by_text("No replay yet.")).to_be_visible()
    page.get_by_label("Calls of").select_option("Ada")
    page.get_by_role("button", name="Start the replay").click()
    expect(page.locator(".field-error")).to_contain_text("give 1 to 8")
    page.get_by_label("narrow").check()
    page.get_by_role("button", name="Start the replay").click()
    expect(page.locator("#replay-progress")).to_contain_text("It waits for a worker.")
    assert find_faults(page, axe) == []
    replay = Replay.objects.get()
    assert replay.job_id is not None
    replay_job.run_replay(replay.pk, replay.job_id)
    # By itself, once a second.
    expect(page.locator("#replay-progress")).to_contain_text("3 calls")
    expect(page.locator("#replay-rows tr")).to_have_count(3)
    expect(page.locator(".line-chart path").first).to_be_attached()
    assert find_faults(page, axe) == []
    page.get_by_role("button", name="Use narrow for Ada").click()
    expect(page.locator("#notices")).to_contain_text("Ada has narrow now")
    ada.refresh_from_db()
    assert ada.policy is not None
    page.get_by_role("button", name="Take it back: the fleet's default").click()
    expect(page.locator("#notices")).to_contain_text("Ada has the fleet's default now")
    ada.refresh_from_db()
    assert ada.policy is None
    page.locator("#replay-rows tr").last.get_by_role("link").last.click()
    expect(page.locator(".pair-sums")).to_contain_text("narrow")
    assert find_faults(page, axe) == []
    page.goto("/myses/Ada/context/")
    expect(page.locator(".advice-line")).to_contain_text("narrow")


def test_what_was_tried_by_its_address_is_not_drawn_anew(clocked: Page, ada: Mysis):
    page = clocked
    page.clock.install()
    live(page, "/myses/Ada/context/?strategy=window&window=4")
    expect(page.locator("#hour tbody tr")).to_have_count(3)
    page.evaluate("document.getElementById('context-view').dataset.rest = 0")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    say(ada, "One thing more.")
    expect(page.locator("#context-outdated")).to_have_text("Outdated")
    # It looks every half a second whether it may be drawn anew.
    page.clock.run_for(1_000)
    assert asked == []
