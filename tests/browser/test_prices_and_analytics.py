"""What a setting would cost, and what came of prompts: in a real browser."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from agents.models import Mysis, Prompt, PromptVersion
from memory.models import ContextPolicy
from tests.agents.lab import test_analytics, test_prices
from tests.browser.conftest import PHONE, WIDE
from tests.factories import make_mysis

SPILLS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture
def ada(page: Page) -> Mysis:
    """One with four calls of a priced model in the last hour."""
    mysis = test_prices.make_captain()
    test_prices.fly(mysis, 4)
    return mysis


@pytest.mark.replaces_requests
def test_a_policy_is_priced_as_it_is_chosen(page: Page, ada: Mysis) -> None:
    ContextPolicy.objects.create(
        name="lean", strategy="window", options={"window": 3}, budget_tokens=32_000
    )
    page.goto("/myses/Ada/")
    page.click("#edit-policy-link")
    price = page.locator("#edit-price")
    expect(price).to_contain_text("From 4 calls of the last hour.")
    expect(price).not_to_contain_text("%")
    page.get_by_label("Policy", exact=True).select_option("lean")
    expect(price).to_contain_text("%)")
    expect(price).to_contain_text("With this")
    page.set_viewport_size(PHONE)
    assert not page.evaluate(SPILLS)
    # Enter saves; it does not ask for the price.
    page.get_by_label("Policy", exact=True).press("Enter")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("saved")
    ada.refresh_from_db()
    assert ada.policy is not None
    page.click("#edit-model-link")
    expect(price).to_contain_text("From 4 calls of the last hour.")
    page.get_by_label("Model", exact=True).fill("openai:gpt-5")
    expect(price).to_contain_text("What its cache would save is not known.")


def test_two_versions_of_a_prompt_are_compared_by_outcome(page: Page) -> None:
    now = timezone.now()
    prompt = Prompt.objects.create(name="captain")
    for number, tools in ((1, 900), (2, 400), (3, 500)):
        version = PromptVersion.objects.create(
            prompt=prompt, number=number, text="Fly."
        )
        for name in ("Ada", "Brahe"):
            mysis = Mysis.objects.filter(name=name).first() or make_mysis(name=name)
            for place in range(6 if number < 3 else 2):
                turn = test_analytics.fly(
                    mysis,
                    now - timedelta(minutes=50 - 15 * number - place),
                    [{"system": 120, "tools": 300, "tool": tools, "state": 90}] * 2,
                    prompt_version=version,
                    model="openai:gpt-5-nano",
                )
                test_analytics.read(turn, "get_ship", "a", args={})
                handle = f"ctx://{mysis.pk}/{place}"
                test_analytics.read(turn, "zoea_recall", "x", args={"handle": handle})
    page.set_viewport_size(WIDE)
    page.goto("/analytics/?since=1h")
    page.get_by_role("link", name="Prompt version").click()
    compared = page.get_by_role("region", name="Two lines compared")
    expect(compared).to_contain_text("captain v1")
    expect(compared).to_contain_text("captain v2")
    page.get_by_label("Second").select_option("captain v3")
    page.get_by_role("button", name="Compare").click()
    expect(compared).to_contain_text("captain v3")
    lines = page.get_by_role("region", name="Analytics, line by line")
    lines.get_by_role("link", name="Tokens a call").press("Enter")
    expect(lines.locator("tbody tr").first).to_contain_text("captain v1")
    expect(compared).to_contain_text("captain v3")
    lines.get_by_role("link", name="Tokens a call").click()
    expect(lines.locator("tbody tr").first).to_contain_text("captain v2")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "analytics-prompt-1h.csv"
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        assert not page.evaluate(SPILLS)
