"""Several people at once: who only reads has no dead controls, and is refused by wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.urls import resolve
from playwright.sync_api import BrowserContext, Page, expect

from agents import actions
from agents.actions import notes
from agents.models import Mysis
from tests.browser.conftest import Complaints
from tests.browser.test_fleet import live
from tests.factories import make_memory, make_mysis, make_turn

WHO = "operator:ann"
# What writes, and is in sight: a viewer has none of it.
WRITING = """() => [...document.querySelectorAll(
  'main [hx-post], main [formaction], main form[method=post] button, main .edit,'
  + 'main [type=checkbox][name=mysis]')]
  .filter(e => e.checkVisibility()).map(e => e.outerHTML.slice(0, 120))"""
# Where the links in sight lead.
LINKS = """() => [...new Set([...document.querySelectorAll('main a[href]')]
  .filter(e => e.checkVisibility()).map(e => e.href.split('#')[0]))]"""
PAGES = (
    "/", "/lanes/", "/lanes/?view=table", "/compare/?a=Ada&b=Brahe", "/yield/", "/analytics/",
    "/digest/", "/search/?q=iron", "/search/?q=iron&where=orders", "/myses/Ada/",
    "/myses/Ada/notes/", "/orders/",
)  # fmt: skip


@pytest.fixture
def enter(
    new_profile: Callable[..., BrowserContext],
    transactional_db: None,
    complaints: Complaints,
) -> Iterator[Callable[..., Page]]:
    """A tab of somebody with a role, in a browser of their own."""

    def make(name: str, *, operator: bool = False, admin: bool = False) -> Page:
        user = User.objects.create_user(name)
        user.is_staff, user.is_superuser = operator or admin, admin
        user.save()
        page = new_profile(user).new_page()
        complaints.watch(page)
        return page

    yield make
    assert complaints.rest == []


@pytest.fixture
def ada(transactional_db: None) -> Mysis:
    """One of two Myses, of which everything about iron can be read."""
    ada = make_mysis(name="Ada", state="running", group="miners")
    make_mysis(name="Brahe", state="idle")
    make_memory(ada, role="assistant", content="iron", turn=make_turn(ada))
    actions.send_order(myses=[ada], text="Sell the iron.", by=WHO)
    actions.update_mysis(mysis=ada, pins=["Never sell iron."], by=WHO)
    notes.save_note(mysis=ada, name="ore", text="iron", by=WHO)
    return ada


def test_a_viewer_reads_all_and_has_nothing_dead(
    enter: Callable[..., Page], ada: Mysis
) -> None:
    page = enter("eve")
    links: set[str] = set()
    for address in PAGES:
        page.goto(address)
        expect(page.locator("body")).to_have_attribute("data-role", "viewer")
        assert page.evaluate(WRITING) == [], address
        links |= set(page.evaluate(LINKS))
    assert not [link for link in links if "/admin/" in link]
    # One of each kind: the same view answers the others.
    paths = {resolve(urlsplit(link).path).view_name: link for link in links}
    assert len(paths) > 15
    refused = {link for link in paths.values() if page.request.get(link).status >= 400}
    assert refused == set()
    # Nor do keys reach what is hidden.
    live(page)
    for key in ("j", "x", "s", "m"):
        page.keyboard.press(key)
    expect(page.locator(f"#m{ada.pk}-name")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("to the next row")
    expect(page.get_by_role("dialog")).not_to_contain_text("select the row")
    expect(page.locator("#notices .notice")).to_have_count(0)
    ada.refresh_from_db()
    assert ada.state == Mysis.State.RUNNING
    # The same pages have much to press for who may.
    operator = enter("ann", operator=True)
    for address in ("/", "/myses/Ada/", "/myses/Ada/notes/"):
        operator.goto(address)
        assert operator.evaluate(WRITING) != [], address


@pytest.mark.replaces_requests
def test_what_one_changes_the_others_see(enter: Callable[..., Page], ada: Mysis):
    viewer = enter("eve")
    live(viewer, "/myses/Ada/")
    admin = enter("ann", admin=True)
    live(admin, "/myses/Ada/")
    expect(viewer.get_by_role("link", name="Edit the model")).to_be_hidden()
    admin.get_by_role("link", name="Edit the model").click()
    admin.get_by_label("Model", exact=True).fill("pilot:mine")
    admin.get_by_role("button", name="Save").click()
    expect(viewer.locator("#mysis-head")).to_contain_text("pilot:mine")
    # What was drawn anew for the viewer has no more to press than before.
    assert viewer.evaluate(WRITING) == []
    # A search and its hits can be handed on.
    admin.goto(f"/search/?q=iron&where=pins&mysis={ada.pk}")
    admin.locator(".hit a.sub").click()
    expect(admin.locator(".hit-walk")).to_contain_text("1 of 1")
    viewer.goto(admin.url)
    expect(viewer.locator(".hit-walk")).to_contain_text("1 of 1")
    expect(viewer.locator("li:target mark")).to_have_text("iron")
    assert viewer.evaluate(WRITING) == []
