"""axe-core on every page, in both themes: nothing serious, nothing critical."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from playwright.sync_api import Page, Route, expect

from agents import actions, events
from agents.events import Kind
from agents.models import Mysis, Prompt, SavedView
from memory.models import ContextPolicy
from tests.browser import scenes
from tests.browser.conftest import PHONE, Complaints
from tests.browser.test_map_and_lanes import chart
from tests.factories import make_mysis
from tests.required import require

AXE = Path(sys.prefix) / "axe/node_modules/axe-core/axe.min.js"
RUN = """async rules => {
  const options = rules.length ? {runOnly: {type: "rule", values: rules}} : {};
  // What is well, and where a node stands, nobody reads: to find it takes long.
  options.resultTypes = ["violations"];
  options.selectors = false;
  // It would copy sheets that import others into the page, which the policy forbids.
  options.preload = false;
  const found = await axe.run(document, options);
  return found.violations
    .filter(one => ["serious", "critical"].includes(one.impact))
    .map(one => one.id + ": " + one.nodes.map(node => node.html).slice(0, 3));
}"""

# The admin's links take a moment from one colour to another.
SETTLE = """() => document.getAnimations()
  .filter(one => one instanceof CSSTransition).forEach(one => one.finish())"""


# What is laid out in another way on a phone.
NARROW = (
    "myses/Ada/context/", "events/", "health/", "search/?q=belt", "lanes/",
    "compare/?a=Ada&b=Brahe", "yield/", "digest/?since=1h", "orders/",
)  # fmt: skip


@pytest.fixture(scope="module")
def axe() -> str:
    """The script, as the Makefile fetches it."""
    require(AXE.exists(), f"there is no {AXE}: make test fetches it with npm")
    return AXE.read_text()


def judge(page: Page, axe: str, address: str, *rules: str) -> list[str]:
    """What axe holds against a page."""
    page.goto(address)
    if page.locator("#live-status").count():
        expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    page.evaluate(axe)
    return judge_again(page, *rules)


def judge_again(page: Page, *rules: str) -> list[str]:
    """What axe holds against a page as it is now; it has judged it before."""
    found: list[str] = page.evaluate(RUN, list(rules))
    return [f"{page.url} {one}" for one in found]


def judge_in_the_dark(page: Page) -> list[str]:
    """The same in the other theme: the colours are all that it changes."""
    page.emulate_media(color_scheme="dark")
    page.evaluate(SETTLE)
    found = judge_again(page, "color-contrast")
    page.emulate_media(color_scheme="light")
    return [f"dark: {one}" for one in found]


def everything(fleet: dict[str, Mysis]) -> list[str]:
    """The addresses of all pages."""
    ada = fleet["Ada"]
    prompt = actions.get_default_prompt()
    order, _ = actions.send_order(myses=[ada], text="Return to base.", by="operator:x")
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="operator:x")
    Mysis.objects.filter(pk=ada.pk).update(turn_count=ada.turn_count + 20)
    here = f"/myses/{ada.pk}/"
    return [
        "/", "/map/", "/yield/", "/lanes/", "/lanes/?view=table", "/analytics/?by=model",
        f"/compare/?a={ada.pk}&b={fleet['Brahe'].pk}", here, f"{here}context/",
        f"{here}context/?against=window&beside=4", f"{here}context/?view=raw",
        f"/turns/{ada.turns.latest('pk').pk}/", "/search/?q=mine", "/events/",
        "/prompts/", f"/prompts/{prompt.pk}/", "/policies/", "/accounts/", "/health/",
        "/digest/?since=1h", "/alerts/", "/alerts/targets/new/", "/welcome/", "/password/",
        "/myses/new/", f"{here}notes/", "/orders/",
        order.get_absolute_url(), f"{here}edit/model/", f"{here}edit/pins/", "/views/",
        f"{here}edit/pins/{pin.pk}/",
        f"{here}context/?found={pin.pk}&found-q=attack&found-where=pins#pin-{pin.pk}",
    ]  # fmt: skip


def of_a_call(mysis: Mysis) -> list[str]:
    """A past call, and the same with something tried on it."""
    call = mysis.sent_contexts.latest("pk").call
    address = f"/turns/{call.turn_id}/calls/{call.number}/context/"
    return [address, f"{address}?strategy=window&window=4"]


def administered(mysis: Mysis, prompt: Prompt) -> list[str]:
    """Of the admin: its index, each kind of list and of form, and its own views."""
    policy = ContextPolicy.objects.create(name="wide", strategy="full")
    mind, kept = "/admin/agents", "/admin/memory"
    version = actions.save_prompt(
        prompt=prompt, text=f"{scenes.CJK}\n{scenes.RTL}", by="ann"
    )
    return [
        f"{mind}/mysis/", f"{mind}/prompt/{prompt.pk}/diff/{version.number}/",
        f"{kept}/contextpolicy/{policy.pk}/change/", f"{kept}/memory/search/?q=belt",
        "/admin/", f"{kept}/memory/?q=belt", f"{mind}/pin/", f"{kept}/gamesnapshot/",
        f"{mind}/mysis/{mysis.pk}/preview/", f"{mind}/prompt/{prompt.pk}/change/",
        f"{mind}/provider/add/", "/admin/zoea/apitoken/add/",
    ]  # fmt: skip


def ask_to_delete(page: Page, view: SavedView) -> None:
    """Go, as without a script, to the page that asks whether to delete a view."""
    page.goto("/views/")
    page.evaluate(
        """path => {
          const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
          const form = Object.assign(
            document.createElement("form"), {method: "post", action: path});
          for (const [name, value] of [["csrfmiddlewaretoken", token], ["act", "delete"]])
            form.append(Object.assign(
              document.createElement("input"), {type: "hidden", name, value}));
          document.body.append(form);
          form.submit();
        }""",
        f"/views/{view.pk}/change/",
    )
    expect(page.locator("main")).to_contain_text("Delete the view Mine?")


def test_every_page(page: Page, axe: str):
    fleet = scenes.busy_fleet()
    chart(40)
    found = []
    for address in everything(fleet):
        found += judge(page, axe, address)
        found += judge_in_the_dark(page)
    for address in of_a_call(fleet["Ada"]):
        found += judge(page, axe, address)
    view = SavedView.objects.create(user=User.objects.get(), name="Mine")
    ask_to_delete(page, view)
    page.evaluate(axe)
    found += judge_again(page)
    found += judge_in_the_dark(page)
    assert found == []


def test_the_admin(page: Page, axe: str):
    ada = make_mysis(name="Ada", prompt=actions.get_default_prompt())
    scenes.add_account(ada, stale=True)
    scenes.add_conversation(ada)
    pages = administered(ada, actions.get_default_prompt())
    found = []
    for at in pages[:4]:
        # They have every part that the others are made of.
        found += judge(page, axe, at)
        found += judge_in_the_dark(page)
    found += [one for at in pages[4:] for one in judge(page, axe, at)]
    assert found == []


def test_a_phone_and_an_empty_fleet(page: Page, axe: str):
    found = judge(page, axe, "/")
    for key, shown in (("Control+k", "#palette .option"), ("?", "#keys-on")):
        page.keyboard.press(key)
        expect(page.locator(shown).first).to_be_visible()
        found += judge_again(page)
        page.keyboard.press("Escape")
        # While one dialog is open no key opens another.
        expect(page.locator("dialog[open]")).to_have_count(0)
    page.set_viewport_size(PHONE)
    ada = make_mysis(name="Ada", state="errored", last_error="No such model.")
    make_mysis(name="Brahe")
    scenes.add_conversation(ada)
    events.append(Kind.ERROR, mysis_id=ada.pk, data={"detail": "No such model."})
    for at in ("/", "/myses/Ada/", *(f"/{one}" for one in NARROW)):
        found += judge(page, axe, at)
    assert found == []


def test_the_way_in_and_what_refuses(page: Page, axe: str, complaints: Complaints):
    complaints.allowed += ("403", "404")

    def failed(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        route.fulfill(body=render_to_string(name, {"seconds": 3}))

    page.route("**/failed/*", failed)
    pages = ["/nowhere/", "/admin/login/", "/failed/429.html", "/failed/500.html"]
    found = []
    for at in pages:
        found += judge(page, axe, at)
        found += judge_in_the_dark(page)
    page.context.clear_cookies()
    found += judge(page, axe, "/sign-in/?next=/events/")
    found += judge_in_the_dark(page)
    assert found == []
