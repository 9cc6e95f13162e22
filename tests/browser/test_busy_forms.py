"""A form that takes a while: who says so, and when."""

from __future__ import annotations

from django.conf import settings
from playwright.sync_api import BrowserContext, expect

FORM = """<form><input type="submit" name="slow" value="Check" data-slow>
<input type="submit" value="Save"><p data-busy hidden>A while ...</p></form>"""


def test_only_a_slow_button_says_that_it_takes_a_while(profile: BrowserContext):
    page = profile.new_page()
    page.set_content(FORM)
    page.add_script_tag(path=settings.BASE_DIR / "static/js/busy.js")
    page.evaluate("addEventListener('submit', event => event.preventDefault())")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("form")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("[data-busy]")).to_be_hidden()
    page.get_by_role("button", name="Check").click()
    expect(page.locator("form")).to_have_attribute("aria-busy", "true")
    expect(page.locator("[data-busy]")).to_be_visible()
