"""Forms of the admin that answer while they are filled in."""

from __future__ import annotations

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect

from agents import actions
from agents.models import Budget, Mysis
from tests.agents.lab import test_prices

FORM = """<form><input type="submit" name="slow" value="Check" data-slow>
<input type="submit" value="Save"><p data-busy hidden>A while ...</p></form>"""


@pytest.mark.replaces_requests
def test_a_budget_asks_for_what_its_scope_needs_and_a_prompt_tells_its_price(
    page: Page,
) -> None:
    mysis = test_prices.make_captain()
    test_prices.fly(mysis, 4)
    page.goto("/admin/agents/budget/add/")
    targets = {"mysis": "mysis", "policy": "policy", "group": "label", "fleet": ""}
    for scope, wanted in targets.items():
        page.locator("#id_scope").select_option(scope)
        for field in ("mysis", "policy", "label"):
            shown = page.locator(f"#id_{field}").is_visible()
            assert shown == (field == wanted), (scope, field)
    # What was chosen for another scope goes with it.
    page.locator("#id_scope").select_option("mysis")
    page.locator("#id_mysis").select_option(str(mysis.pk))
    page.locator("#id_scope").select_option("fleet")
    page.locator("#id_name").fill("daily")
    page.locator("#id_tokens").fill("1000")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("daily")
    assert Budget.objects.get().target is None
    prompt = actions.get_default_prompt()
    Mysis.objects.update(prompt=prompt)
    page.goto(f"/admin/agents/prompt/{prompt.pk}/change/")
    price = page.locator(".zoea-price")
    expect(price).to_contain_text("From 4 calls of the last hour.")
    expect(price).not_to_contain_text("%")
    page.locator("#id_text").fill("Fly far. " * 2_000)
    expect(price).to_contain_text("(+")


def test_only_a_slow_button_says_that_it_takes_a_while(page: Page) -> None:
    page.set_content(FORM)
    page.add_script_tag(path=settings.BASE_DIR / "static/js/busy.js")
    page.evaluate("addEventListener('submit', event => event.preventDefault())")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("form")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("[data-busy]")).to_be_hidden()
    page.get_by_role("button", name="Check").click()
    expect(page.locator("form")).to_have_attribute("aria-busy", "true")
    expect(page.locator("[data-busy]")).to_be_visible()
