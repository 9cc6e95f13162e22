"""Several people at once: who only reads has no dead controls, and is refused by wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from agents import actions
from agents.actions import notes
from agents.models import Mysis, Order, SavedView
from memory.models import Memory
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
    refused = {link for link in links if page.request.get(link).status >= 400}
    assert refused == set()
    # The same pages have much to press for who may.
    operator = enter("ann", operator=True)
    for address in ("/", "/myses/Ada/", "/myses/Ada/notes/"):
        operator.goto(address)
        assert operator.evaluate(WRITING) != [], address


def post(page: Page, path: str, **form: str | float | bool) -> int:
    """What the server answers to a form that the page does not show."""
    token = page.locator("input[name=csrfmiddlewaretoken]").first.input_value()
    headers = {"X-CSRFToken": token, "HX-Request": "true", "Referer": page.url}
    return page.request.post(path, form=form, headers=headers).status


def test_a_viewer_is_refused_over_the_wire(
    enter: Callable[..., Page], ada: Mysis
) -> None:
    order = Order.objects.get()
    page = enter("eve")
    page.goto("/")
    writes: tuple[tuple[str, dict[str, str | float | bool]], ...] = (
        ("/send/", {"text": "Come home.", "to": str(ada.pk)}),
        ("/bulk/", {"act": "stop", "mysis": str(ada.pk)}),
        ("/idle/start/", {}),
        ("/idle/restart/", {}),
        (f"/orders/{order.pk}/change/", {"state": "done"}),
        ("/myses/Ada/stop/", {}),
        ("/myses/Ada/edit/model/", {"model": "pilot:other"}),
        ("/myses/Ada/edit/group/", {"group": "traders"}),
        ("/myses/Ada/edit/pins/", {"text": "Sell all."}),
        ("/myses/Ada/edit/budget/", {"tokens": "1"}),
        ("/myses/Ada/notes/save/", {"name": "ore", "text": "none"}),
        ("/myses/Ada/notes/forget/", {"name": "ore"}),
        ("/myses/Ada/command/", {"tool": "undock"}),
    )
    before = Memory.objects.count(), Mysis.objects.values().get(pk=ada.pk)
    answers = {path: post(page, path, **form) for path, form in writes}
    assert set(answers.values()) == {403}, answers
    for path in ("/myses/Ada/edit/model/", "/myses/Ada/command/"):
        hidden = page.request.get(path, headers={"HX-Request": "true"})
        assert hidden.status == 403, path
    assert (Memory.objects.count(), Mysis.objects.values().get(pk=ada.pk)) == before


def test_saved_views_are_each_ones_own(enter: Callable[..., Page], ada: Mysis) -> None:
    view = SavedView.objects.create(
        user=User.objects.create_user("ann", is_staff=True), name="Miners"
    )
    for name, operator in (("eve", False), ("bob", True)):
        page = enter(name, operator=operator)
        page.goto("/")
        assert page.request.get("/views/").status == 200
        assert post(page, "/views/save/", name="mine") == 200
        assert post(page, f"/views/{view.pk}/change/", act="rename", name="x") == 404
        own = SavedView.objects.get(user__username=name)
        path = f"/views/{own.pk}/change/"
        assert post(page, path, act="rename", name="ours") == 200
        own.refresh_from_db()
        assert own.name == "ours"
    view.refresh_from_db()
    assert view.name == "Miners"


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
