"""axe-core on every page, in both themes: nothing serious, nothing critical."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from agents import actions
from agents.models import Mysis
from tests.browser import scenes
from tests.browser.conftest import PHONE
from tests.browser.test_outlook import chart
from tests.factories import make_mysis

AXE = Path(sys.prefix) / "axe/node_modules/axe-core/axe.min.js"
RUN = """async rules => {
  const options = rules.length ? {runOnly: {type: "rule", values: rules}} : {};
  const found = await axe.run(document, options);
  return found.violations
    .filter(one => ["serious", "critical"].includes(one.impact))
    .map(one => one.id + ": " + one.nodes.map(node => node.html).slice(0, 3));
}"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The script, as the Makefile fetches it."""
    if not AXE.exists():
        missing = f"there is no {AXE}: make test fetches it with npm"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    return AXE.read_text()


def judge(page: Page, axe: str, address: str, *rules: str) -> list[str]:
    """What axe holds against a page."""
    page.goto(address)
    if page.locator("#live-status").count():
        expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    page.evaluate(axe)
    found: list[Any] = page.evaluate(RUN, list(rules))
    return [f"{address} {one}" for one in found]


def everything(fleet: dict[str, Mysis]) -> list[str]:
    """The addresses of all pages."""
    ada = fleet["Ada"]
    prompt = actions.default_prompt()
    here = f"/myses/{ada.pk}/"
    return [
        "/", "/map/", here, f"{here}context/",
        f"{here}context/?against=window&beside=4", f"{here}context/?view=raw",
        f"/turns/{ada.turns.latest('pk').pk}/", "/search/?q=mine", "/events/",
        "/prompts/", f"/prompts/{prompt.pk}/", "/policies/", "/accounts/", "/health/",
        "/welcome/", "/myses/new/",
    ]  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page(page: Page, axe: str, theme: Literal["light", "dark"]):
    fleet = scenes.busy_fleet()
    chart(40)
    page.emulate_media(color_scheme=theme)
    # What the colours do not change is judged once.
    rules = () if theme == "light" else ("color-contrast",)
    found = [one for at in everything(fleet) for one in judge(page, axe, at, *rules)]
    assert found == []


def test_a_phone_and_an_empty_fleet(page: Page, axe: str):
    found = judge(page, axe, "/")
    page.set_viewport_size(PHONE)
    make_mysis(name="Ada", state="errored", last_error="No such model.")
    found += judge(page, axe, "/")
    found += judge(page, axe, "/myses/Ada/")
    assert found == []
