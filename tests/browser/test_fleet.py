"""The fleet page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from playwright.sync_api import (
    BrowserContext,
    Locator,
    Page,
    Request,
    WebSocketRoute,
    expect,
)

from agents import actions, events
from agents.dashboard.fleet import FIRST
from agents.events import Kind
from agents.models import Broadcast, Mysis, Visit
from memory.models import GameSnapshot, Memory
from tests.browser import scenes
from tests.browser.conftest import PHONE, WIDE, Complaints
from tests.factories import make_memory, make_mysis, make_turn


def live(page: Page, address: str = "/") -> None:
    """Open a page and wait for its socket's first frame."""
    page.goto(address)
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    page.wait_for_function(
        "document.querySelector('#live-word').textContent === 'live'"
    )


def row(page: Page, mysis: Mysis):
    """A Mysis's row."""
    return page.locator(f"#m{mysis.pk}")


def say(mysis: Mysis, text: str, **values: object) -> Memory:
    """A new line of its log, with its event."""
    with transaction.atomic():
        values = {"role": "assistant", "content": text, **values}
        row = make_memory(mysis, **values)
        events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data={"memory_id": row.pk})
    return row


def test_rows_follow_what_happens_and_leave_alone_what_is_read(page: Page):
    ada = make_mysis(name="Ada", state="running")
    brahe = make_mysis(name="Brahe")
    page.goto("/")
    page.evaluate("document.querySelectorAll('.cell').forEach(c => c.kept = true)")
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    # What the page has already is not drawn anew.
    kept = "id => document.querySelector(id).kept === true"
    assert page.evaluate(kept, f"#m{ada.pk}-who")
    expect(row(page, ada)).to_contain_text("running")
    make_memory(ada, role="assistant", content="Mining iron at the belt.")
    events.append(Kind.MEMORY_ADDED, mysis_id=ada.pk, data={})
    expect(row(page, ada)).to_contain_text("Mining iron at the belt.")
    assert page.evaluate(kept, f"#m{brahe.pk}-said")
    # Hostile text stays text.
    text = f"{scenes.HOSTILE}<b hx-get='/events/' hx-trigger='load'>x</b>"
    make_memory(ada, role="assistant", content=text)
    events.append(Kind.MEMORY_ADDED, mysis_id=ada.pk, data={})
    events.append(Kind.ERROR, mysis_id=ada.pk, data={"detail": text})
    expect(row(page, ada)).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("#feed")).to_contain_text("<script>alert(1)</script>")
    assert page.locator("main script, main img, main b[hx-get]").count() == 0
    # The keyboard keeps its place in a row that changes.
    page.locator(f"#m{ada.pk}-name").focus()
    actions.stop_mysis(mysis=ada, by="system")
    expect(row(page, ada).locator(".state")).to_have_text("stopped")
    expect(page.locator("#count-stopped")).to_have_text("1")
    expect(page.locator(f"#m{ada.pk}-name")).to_be_focused()
    new = actions.create_mysis(name="Cassini", by="system")
    expect(row(page, new)).to_contain_text("Cassini")
    expect(page.locator(".row")).to_have_count(3)
    actions.delete_mysis(mysis=new, by="system")
    expect(page.locator(".row")).to_have_count(2)


@pytest.fixture
def clocked(
    new_profile: Callable[..., BrowserContext], admin: User, complaints: Complaints
) -> Iterator[Page]:
    """A tab whose clock can be moved: a whole profile has one clock."""
    page = new_profile(admin).new_page()
    complaints.watch(page)
    yield page
    assert complaints.rest == []


def test_a_visit_lasts_and_what_happened_since_is_a_click_away(clocked: Page):
    page = clocked
    mysis = make_mysis(name="Ada", state="running")
    make_memory(mysis, role="assistant", content="Hello.")
    live(page)
    page.get_by_role("button", name="Stop Ada").click()
    expect(page.locator("#notices")).to_contain_text("Ada is stopped.")
    expect(row(page, mysis).locator(".state")).to_have_text("stopped")
    page.get_by_role("button", name="Start Ada").click()
    expect(row(page, mysis).locator(".state")).to_have_text("running")
    mysis.refresh_from_db()
    assert mysis.state == Mysis.State.RUNNING
    Visit.objects.update(seen_at=timezone.now() - timedelta(hours=8))
    # The server's clock would come by the socket, and count.
    page.route_web_socket("**/ws/**", lambda socket: None)
    page.clock.install()
    page.goto("/")
    expect(page.get_by_role("link", name="Since your last visit")).to_be_visible()
    # The visit lasts while the page stays open.
    Visit.objects.update(seen_at=timezone.now() - timedelta(minutes=9))
    with page.expect_response("**/digest/last-visit/"):
        page.clock.fast_forward("06:00")
    assert timezone.now() - Visit.objects.get().seen_at < timedelta(minutes=5)
    # Ages tick, and tell the exact time.
    age = row(page, mysis).locator(".cell-said time")
    expect(age).to_have_text(re.compile(r"^\d+ min ago$"))
    assert ":" in (age.get_attribute("title") or "")
    page.get_by_role("link", name="Since your last visit").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What happened")
    expect(page.get_by_text("Stopped: 1 by ann")).to_be_visible()
    expect(page.get_by_role("link", name="Last visit")).to_have_attribute(
        "aria-current", "page"
    )


def send(page: Page, text: str) -> Locator:
    """Write to whom the composer names; where its answer stands."""
    page.locator("#id_text").fill(text)
    page.locator("#composer button[type=submit]").click()
    return page.locator("#composer")


def test_a_message_names_whom_it_is_for_and_reaches_them(
    page: Page, complaints: Complaints
):
    # The browser logs every answer of 400 and above by itself.
    complaints.allowed += ("409 (Conflict)",)
    ada = make_mysis(name="Ada", group="miners")
    make_mysis(name="Brahe", group="miners", tags=["scout"])
    cassini = make_mysis(name="Cassini", state="stopped", tags=["scout"])
    live(page)
    composer = page.locator("#composer")
    page.get_by_role("link", name="Message Ada").click()
    expect(page.locator("#composer button")).to_have_text("Send to Ada")
    expect(send(page, "Sell the ore.")).to_contain_text("Sent to Ada.")
    expect(row(page, ada).locator(".state")).to_have_text("running")
    assert Memory.objects.get(mysis=ada).content == "Sell the ore."
    expect(composer).to_contain_text("Reaches 2 Myses")
    expect(page.locator("#composer [type=submit]")).to_have_text("Send to the fleet")
    box = page.get_by_role("textbox", name="Message", exact=True)
    box.fill("All home.")
    expect(page.locator("#composer-count")).to_contain_text("9 / ")
    box.press("Control+Enter")
    expect(composer).to_contain_text("Sent to 2 Myses.")
    expect(box).to_have_value("")
    expect(page.locator("#feed")).to_contain_text("broadcast to 2: All home.")
    assert Broadcast.objects.get().sender == "operator:ann"
    # A refusal stands where one types, and the text stays.
    live(page, f"/?to={cassini.pk}")
    expect(send(page, "Sell it.")).to_contain_text("Cassini is stopped. Start it")
    expect(page.locator("#id_text")).to_have_value("Sell it.")
    page.locator("#id_to").select_option("tag:scout")
    expect(send(page, "Look around.")).to_contain_text("Sent to 1 Mysis.")
    assert Broadcast.objects.latest("pk").tag == "scout"


def test_what_is_filtered_stays_live(page: Page):
    ada = make_mysis(name="Ada", state="running", group="miners")
    brahe = make_mysis(name="Brahe", group="miners", tags=["scout"])
    cyd = make_mysis(name="Cyd", tags=["scout"])
    live(page)
    page.get_by_role("radio", name="miners").check(force=True)
    expect(row(page, cyd)).to_have_count(0)
    expect(row(page, ada)).to_be_visible()
    page.locator("select[name=tag]").select_option("scout")
    expect(row(page, ada)).to_have_count(0)
    expect(row(page, brahe)).to_be_visible()
    live(page)
    page.get_by_role("searchbox", name="Name").press_sequentially("ada")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Name")).to_be_focused()
    assert "q=ada" in page.url
    make_memory(ada, role="assistant", content="Still here.")
    events.append(Kind.MEMORY_ADDED, mysis_id=ada.pk, data={})
    expect(row(page, ada)).to_contain_text("Still here.")
    page.get_by_text("idle 2").click()
    expect(page.locator("#fleet-rows")).to_contain_text("No Mysis matches.")


def cut_off_sockets(page: Page) -> list[WebSocketRoute]:
    """The sockets that a page opens from now on, to be cut."""
    opened: list[WebSocketRoute] = []

    def through(route: WebSocketRoute) -> None:
        route.connect_to_server()
        opened.append(route)

    page.route_web_socket("**/ws/dashboard/**", through)
    return opened


def test_a_lost_connection_shows_and_what_was_missed_comes_once(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    banner = page.locator("#connection")
    sockets = cut_off_sockets(page)
    live(page)
    sockets[-1].close(code=1012)
    expect(banner).to_contain_text("connection is lost")
    actions.stop_mysis(mysis=mysis, by="system")
    expect(banner).to_be_hidden()
    expect(row(page, mysis).locator(".state")).to_have_text("stopped")
    live(page, "/myses/Ada/")
    say(mysis, "before")
    expect(page.locator("#log")).to_contain_text("before")
    sockets[-1].close(code=1012)
    expect(banner).to_be_visible()
    say(mysis, "meanwhile")
    expect(banner).to_be_hidden()
    expect(page.get_by_text("meanwhile")).to_have_count(1)
    expect(page.get_by_text("before")).to_have_count(1)
    say(mysis, "afterwards")
    expect(page.get_by_text("afterwards")).to_have_count(1)
    # What will not come back says so, and the page stops trying.
    page.route_web_socket("**/ws/**", lambda socket: socket.close(code=4401))
    page.goto("/")
    expect(banner).to_contain_text("You are signed out")
    expect(banner.locator("a")).to_have_attribute("href", "/sign-in/?next=%2F")
    turn = make_turn(mysis)
    page.route_web_socket("**/ws/**", lambda socket: socket.close(code=4404))
    page.goto(f"/turns/{turn.pk}/")
    expect(banner).to_contain_text("This turn is no longer kept.")
    page.goto("/myses/Ada/")
    expect(banner).to_contain_text("This Mysis was deleted.")


# Only style sheets go by the width, so a page is loaded once for all widths.
ALL_WIDTHS = (360, 390, 600, 768, 900, 1024, 1280, 1440, 1920)
CUT_OFF = """rows => rows.filter(row => row.scrollWidth > row.clientWidth)
    .map(row => row.outerHTML.slice(0, 300))"""
RUN_OVER = """cells => cells.flatMap(cell => {
    const edge = cell.getBoundingClientRect().right + 0.5;
    const inside = Array.from(cell.querySelectorAll("*:not(.visually-hidden)"));
    return inside.filter(one => one.getBoundingClientRect().right > edge);
}).map(one => one.outerHTML)"""
SMALLER_THAN_A_THUMB = """buttons => buttons.filter(one => {
    const box = one.getBoundingClientRect();
    return box.width < 44 || box.height < 44;
}).map(one => one.outerHTML)"""
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def test_a_busy_fleet_is_small_and_all_pages_fit_into_every_width(page: Page):
    fleet = scenes.busy_fleet()
    fields = ["player.current_poi", "player.docked_at_base", "ship.fuel", "ship.hull"]
    found = GameSnapshot.objects.filter(tool_name="get_status")
    found.update(stale_reason="travel", stale_tick=scenes.TICK - 2, stale_fields=fields)
    page.context.new_cdp_session(page).send("Network.clearBrowserCache")
    finished: list[Request] = []
    page.on("requestfinished", lambda request: finished.append(request))
    live(page)
    sizes = [request.sizes()["responseBodySize"] for request in finished]
    assert len(sizes) > 10
    assert 50_000 < sum(sizes) < 300_000
    expect(row(page, fleet["Ada"]).locator(".badge-partly")).to_be_visible()
    rows = page.locator(".row, .row-heads, .cell, .feed-line, .panel")
    assert rows.count() > 50
    for width in ALL_WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert rows.evaluate_all(CUT_OFF) == [], width
        if width in (PHONE["width"], 1024, WIDE["width"]):
            assert page.locator(".cell").evaluate_all(RUN_OVER) == [], width
    page.set_viewport_size(PHONE)
    assert page.locator(".act-stop").count() > 3
    assert page.locator(".act-stop").evaluate_all(SMALLER_THAN_A_THUMB) == []
    # Nor does anything run out of the other pages.
    ada = fleet["Ada"]
    addresses = ["/", "/events/", "/search/?q=mine", "/prompts/", "/myses/new/"]
    addresses += ["/password/"]
    addresses += [f"/myses/{m.pk}/" for m in fleet.values()]
    addresses += [f"/myses/{ada.pk}/context/", f"/turns/{ada.turns.latest('pk').pk}/"]
    mind = "/admin/agents/mysis/"
    administered = ["/admin/", mind, f"{mind}{ada.pk}/change/"]
    for address in (*addresses, *administered):
        page.goto(address)
        for width in (1024, 768, PHONE["width"]):
            if width > PHONE["width"] and address in administered:
                continue
            page.set_viewport_size({"width": width, "height": 844})
            assert not page.evaluate(WIDER), (address, width)


def test_composer_and_feed_are_in_reach_and_answers_in_sight_beside_many_rows(
    page: Page,
):
    Mysis.objects.bulk_create(
        Mysis(name=f"M{number:03}", group="miners") for number in range(FIRST + 2)
    )
    make_mysis(name="Zoe")
    page.set_viewport_size({"width": 1024, "height": 768})
    live(page, "/?group=miners")
    inside = """one => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight;
    }"""
    for part in ("#id_text", "#composer button", "#fleet-orders", "#feed"):
        assert page.locator(part).evaluate(inside), part
    # A row that gets the focus is not left behind the dock.
    name = page.locator(f"#m{Mysis.objects.get(name='M059').pk}-name")
    name.focus()
    dock = page.locator(".rail").evaluate("one => one.getBoundingClientRect().top")
    assert name.evaluate("one => one.getBoundingClientRect().bottom") <= dock
    page.set_viewport_size(WIDE)
    page.get_by_role("checkbox", name="Select M000").check()
    page.get_by_label("All that match").check()
    expect(page.locator("#bulk-count")).to_have_text(f"All {FIRST + 2} that match")
    page.locator("#bulk").get_by_role("button", name="Message").click()
    expect(page.locator("#composer button")).to_have_text(
        f"Send to all {FIRST + 2} that match"
    )
    page.keyboard.type("Home.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#composer")).to_contain_text(f"Sent to {FIRST + 2} Myses.")
    # Answers stand on the screen at the bottom of the list as well.
    page.get_by_role("button", name="Stop M059").click()
    expect(page.locator("#notices .notice")).to_contain_text("M059 is stopped.")
    expect(page.locator("#notices .notice")).to_be_in_viewport()
    page.locator("#notices [data-close-notice]").click()
    expect(page.locator("#notices .notice")).to_have_count(0)


def test_an_empty_fleet_has_a_whole_top_bar_and_a_theme_and_says_what_to_do(
    page: Page,
):
    page.set_viewport_size({"width": 320, "height": 640})
    live(page)
    # The longest word that it ever says.
    page.evaluate("document.getElementById('live-word').textContent = 'reconnecting'")
    cut = """parts => parts.map(one => one.getBoundingClientRect()).filter(
        one => one.top < 0 || one.left < 0 || one.right > innerWidth)"""
    assert page.locator(".bar svg, .bar button, .bar a").evaluate_all(cut) == []
    wide = "words => words.filter(one => one.offsetWidth > one.parentNode.offsetWidth)"
    assert page.locator(".nav a span").evaluate_all(wide) == []
    height = "one => one.getBoundingClientRect().height"
    assert page.locator(".bar").evaluate(height) < 60
    parts = page.locator(".bar .brand, .bar .nav a, .bar-end > *")
    outside = (
        "parts => parts.filter(one => one.getBoundingClientRect().right > innerWidth)"
    )
    for width in (769, 780, 820, 961, 1089):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.locator(".bar").evaluate(height) < 60, width
        assert parts.evaluate_all(outside) == [], width
    # The theme is the system's, or is chosen and remembered.
    page.set_viewport_size(WIDE)
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) != light
    page.emulate_media(color_scheme="light")
    toggle = page.get_by_role("button", name="Theme")
    toggle.click()
    toggle.click()
    expect(toggle).to_have_accessible_name("Theme: dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_role("link", name="Create the first Mysis").click()
    page.get_by_label("Name").fill("Ada")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Ada")).to_be_visible()
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    assert Mysis.objects.get().name == "Ada"
