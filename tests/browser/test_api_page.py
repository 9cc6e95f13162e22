"""The API's own page."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_the_api_page_works_under_the_content_policy(page: Page) -> None:
    page.goto("/api/v1/docs")
    expect(page.get_by_text("/api/v1/fleet").first).to_be_visible()
    page.get_by_text("/api/v1/fleet").first.click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_text('"redundant_get_rate"').first).to_be_visible()
