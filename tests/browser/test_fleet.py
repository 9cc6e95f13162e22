"""The fleet page in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, WebSocketRoute, expect

from agents import actions, events
from agents.events import Kind
from agents.models import Broadcast, Mysis, Visit
from memory.models import GameSnapshot, Memory
from tests.browser import scenes
from tests.browser.conftest import PHONE, WIDE, Complaints
from tests.factories import make_memory, make_mysis


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


def test_a_row_follows_what_happens(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    live(page)
    expect(row(page, mysis)).to_contain_text("running")
    make_memory(mysis, role="assistant", content="Mining iron at the belt.")
    events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data={})
    expect(row(page, mysis)).to_contain_text("Mining iron at the belt.")
    actions.stop_mysis(mysis=mysis, by="system")
    expect(row(page, mysis).locator(".state")).to_have_text("stopped")
    expect(page.locator("#count-stopped")).to_have_text("1")


def test_what_the_page_has_already_is_left_alone(page: Page):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    page.goto("/")
    page.evaluate("document.querySelectorAll('.cell').forEach(c => c.kept = true)")
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    kept = "id => document.querySelector(id).kept === true"
    assert page.evaluate(kept, f"#m{ada.pk}-who")
    make_memory(ada, role="assistant", content="Mining.")
    events.append(Kind.MEMORY_ADDED, mysis_id=ada.pk, data={})
    expect(row(page, ada)).to_contain_text("Mining.")
    assert page.evaluate(kept, f"#m{brahe.pk}-said")


def test_a_new_mysis_appears_and_a_deleted_one_goes(page: Page):
    make_mysis(name="Ada")
    live(page)
    new = actions.create_mysis(name="Brahe", by="system")
    expect(row(page, new)).to_contain_text("Brahe")
    expect(page.locator(".row")).to_have_count(2)
    actions.delete_mysis(mysis=new, by="system")
    expect(page.locator(".row")).to_have_count(1)


@pytest.fixture
def clocked(
    new_profile: Callable[..., BrowserContext], admin: User, complaints: Complaints
) -> Iterator[Page]:
    """A tab whose clock can be moved: a whole profile has one clock."""
    page = new_profile(admin).new_page()
    complaints.watch(page)
    yield page
    assert complaints.rest == []


def test_stop_and_start(clocked: Page):
    page = clocked
    mysis = make_mysis(name="Ada", state="running")
    live(page)
    page.get_by_role("button", name="Stop Ada").click()
    expect(page.locator("#notices")).to_contain_text("Ada is stopped.")
    expect(row(page, mysis).locator(".state")).to_have_text("stopped")
    page.get_by_role("button", name="Start Ada").click()
    expect(row(page, mysis).locator(".state")).to_have_text("running")
    mysis.refresh_from_db()
    assert mysis.state == Mysis.State.RUNNING
    # What happened is one click away on the next visit.
    Visit.objects.update(seen_at=timezone.now() - timedelta(hours=8))
    page.clock.install()
    page.goto("/")
    expect(page.get_by_role("link", name="Since your last visit")).to_be_visible()
    # The visit lasts while the page stays open.
    Visit.objects.update(seen_at=timezone.now() - timedelta(minutes=9))
    with page.expect_response("**/digest/last-visit/"):
        page.clock.fast_forward("06:00")
    assert timezone.now() - Visit.objects.get().seen_at < timedelta(minutes=5)
    page.get_by_role("link", name="Since your last visit").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What happened")
    expect(page.get_by_text("Stopped: 1 by ann")).to_be_visible()
    expect(page.get_by_role("link", name="Last visit")).to_have_attribute(
        "aria-current", "page"
    )


def test_the_keyboard_keeps_its_place_in_a_row_that_changes(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    live(page)
    page.locator(f"#m{mysis.pk}-name").focus()
    actions.stop_mysis(mysis=mysis, by="system")
    expect(row(page, mysis).locator(".state")).to_have_text("stopped")
    expect(page.locator(f"#m{mysis.pk}-name")).to_be_focused()


def test_a_broadcast_names_its_target_and_reaches_it(page: Page):
    for name in ("Ada", "Brahe"):
        make_mysis(name=name)
    make_mysis(name="Cassini", state="stopped")
    live(page)
    composer = page.locator("#composer")
    expect(composer).to_contain_text("Reaches 2 Myses")
    expect(composer.get_by_role("button")).to_have_text("Send to the fleet")
    box = page.get_by_role("textbox", name="Message", exact=True)
    box.fill("All home.")
    expect(page.locator("#composer-count")).to_contain_text("9 / ")
    box.press("Control+Enter")
    expect(composer).to_contain_text("Sent to 2 Myses.")
    expect(box).to_have_value("")
    expect(page.locator("#feed")).to_contain_text("broadcast to 2: All home.")
    assert Broadcast.objects.get().sender == "operator:ann"


def test_a_message_to_one_wakes_it(page: Page):
    mysis = make_mysis(name="Ada")
    make_mysis(name="Brahe")
    live(page)
    page.get_by_role("link", name="Message Ada").click()
    expect(page.locator("#composer button")).to_have_text("Send to Ada")
    page.locator("#id_text").fill("Sell the ore.")
    page.locator("#composer button").click()
    expect(page.locator("#composer")).to_contain_text("Sent to Ada.")
    expect(row(page, mysis).locator(".state")).to_have_text("running")
    assert Memory.objects.get(mysis=mysis).content == "Sell the ore."


def test_a_refusal_stands_where_one_types_and_the_text_stays(
    page: Page, complaints: Complaints
):
    # The browser logs every answer of 400 and above by itself.
    complaints.allowed += ("409 (Conflict)",)
    mysis = make_mysis(name="Ada", state="stopped")
    live(page, f"/?to={mysis.pk}")
    page.locator("#id_text").fill("Sell the ore.")
    page.locator("#composer button").click()
    expect(page.locator("#composer")).to_contain_text("Ada is stopped. Start it")
    expect(page.locator("#id_text")).to_have_value("Sell the ore.")


def test_filter_and_search_keep_the_page_live(page: Page):
    ada = make_mysis(name="Ada", state="running")
    make_mysis(name="Brahe")
    live(page)
    page.get_by_role("searchbox", name="Name").press_sequentially("ada")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Name")).to_be_focused()
    assert "q=ada" in page.url
    make_memory(ada, role="assistant", content="Still here.")
    events.append(Kind.MEMORY_ADDED, mysis_id=ada.pk, data={})
    expect(row(page, ada)).to_contain_text("Still here.")
    page.get_by_text("idle 1").click()
    expect(page.locator("#fleet-rows")).to_contain_text("No Mysis matches.")


def test_a_lost_connection_shows_and_comes_back(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    sockets: list[WebSocketRoute] = []

    def through(route: WebSocketRoute) -> None:
        route.connect_to_server()
        sockets.append(route)

    page.route_web_socket("**/ws/dashboard/**", through)
    live(page)
    sockets[-1].close(code=1012)
    expect(page.locator("#connection")).to_contain_text("connection is lost")
    actions.stop_mysis(mysis=mysis, by="system")
    expect(page.locator("#connection")).to_be_hidden()
    expect(row(page, mysis).locator(".state")).to_have_text("stopped")


def test_signed_out_says_so_and_stops_trying(page: Page):
    make_mysis(name="Ada")
    page.route_web_socket("**/ws/dashboard/**", lambda route: route.close(code=4401))
    page.goto("/")
    expect(page.locator("#connection")).to_contain_text("You are signed out")
    expect(page.locator("#connection a")).to_have_attribute(
        "href", "/sign-in/?next=%2F"
    )


def test_hostile_text_stays_text(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    live(page)
    text = f"{scenes.HOSTILE}<b hx-get='/events/' hx-trigger='load'>x</b>"
    make_memory(mysis, role="assistant", content=text)
    events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data={})
    events.append(Kind.ERROR, mysis_id=mysis.pk, data={"detail": text})
    expect(row(page, mysis)).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("#feed")).to_contain_text("<script>alert(1)</script>")
    assert page.locator("main script, main img, main b[hx-get]").count() == 0


def test_the_theme_is_chosen_and_remembered(page: Page):
    make_mysis(name="Ada")
    page.emulate_media(color_scheme="light")
    live(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    toggle = page.get_by_role("button", name="Theme")
    toggle.click()
    toggle.click()
    expect(toggle).to_have_accessible_name("Theme: dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark


def test_the_system_theme_is_followed(page: Page):
    page.emulate_media(color_scheme="light")
    page.goto("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_ages_tick_and_tell_the_exact_time(clocked: Page):
    page = clocked
    mysis = make_mysis(name="Ada", state="running")
    make_memory(mysis, role="assistant", content="Hello.")
    page.clock.install()
    live(page)
    age = row(page, mysis).locator(".cell-said time")
    page.clock.run_for(65_000)
    expect(age).to_have_text("1 min ago")
    assert ":" in (age.get_attribute("title") or "")


# Only style sheets go by the width, so a page is loaded once for all widths.
ALL_WIDTHS = (360, 390, 600, 768, 900, 1024, 1280, 1440, 1920)


def test_no_row_is_cut_off(page: Page):
    scenes.busy_fleet()
    live(page)
    rows = page.locator(".row, .row-heads, .cell, .feed-line, .panel")
    assert rows.count() > 50
    cut = """rows => rows.filter(row => row.scrollWidth > row.clientWidth)
        .map(row => row.outerHTML.slice(0, 300))"""
    for width in ALL_WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert rows.evaluate_all(cut) == [], width


def test_no_text_runs_into_the_next_column(page: Page):
    fleet = scenes.busy_fleet()
    fields = ["player.current_poi", "player.docked_at_base", "ship.fuel", "ship.hull"]
    found = GameSnapshot.objects.filter(tool_name="get_status")
    found.update(stale_reason="travel", stale_tick=scenes.TICK - 2, stale_fields=fields)
    live(page)
    expect(row(page, fleet["Ada"]).locator(".badge-partly")).to_be_visible()
    outside = """cells => cells.flatMap(cell => {
        const edge = cell.getBoundingClientRect().right + 0.5;
        const inside = Array.from(cell.querySelectorAll("*:not(.visually-hidden)"));
        return inside.filter(one => one.getBoundingClientRect().right > edge);
    }).map(one => one.outerHTML)"""
    for width in (PHONE["width"], 1024, WIDE["width"]):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.locator(".cell").evaluate_all(outside) == [], width


def test_the_events_page_has_no_box_that_scrolls_by_itself(page: Page):
    scenes.happenings(scenes.busy_fleet())
    page.set_viewport_size(PHONE)
    page.goto("/events/")
    inner = "feed => feed.scrollHeight > feed.clientHeight + 1"
    assert not page.locator(".feed").evaluate(inner)
    assert page.locator(".feed").evaluate("feed => feed.clientHeight") > 400
    # It grows at its top, and waits on demand: nothing is missing afterwards.
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    events.append(Kind.ERROR, data={"detail": "First news."})
    newest = page.locator(".feed-line").first
    expect(newest).to_contain_text("First news.")
    page.get_by_label("Pause").check()
    for number in (2, 3):
        events.append(Kind.ERROR, data={"detail": f"News no. {number}."})
    pill = page.locator("#feed-pill")
    expect(pill).to_have_text("2 new")
    expect(newest).to_contain_text("First news.")
    pill.click()
    expect(newest).to_contain_text("News no. 3.")
    expect(page.locator(".feed")).to_contain_text("News no. 2.")
    # What falls off its end is found among the older ones.
    older = page.get_by_role("link", name="Older events")
    expect(older).to_be_hidden()
    page.locator("#feed").evaluate("feed => { feed.dataset.keep = 2; }")
    events.append(Kind.ERROR, data={"detail": "News no. 4."})
    expect(page.locator(".feed")).not_to_contain_text("News no. 2.")
    older.click()
    expect(page.locator(".feed-line").first).to_contain_text("News no. 2.")


def test_nothing_runs_out_of_a_narrow_page(page: Page):
    fleet = scenes.busy_fleet()
    ada = fleet["Ada"]
    addresses = ["/", "/events/", "/search/?q=mine", "/prompts/", "/myses/new/"]
    addresses += ["/password/"]
    addresses += [f"/myses/{m.pk}/" for m in fleet.values()]
    addresses += [f"/myses/{ada.pk}/context/", f"/turns/{ada.turns.latest('pk').pk}/"]
    mind = "/admin/agents/mysis/"
    administered = ["/admin/", mind, f"{mind}{ada.pk}/change/"]
    wider = (
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    for address in (*addresses, *administered):
        page.goto(address)
        for width in (1024, 768, PHONE["width"]):
            if width > PHONE["width"] and address in administered:
                continue
            page.set_viewport_size({"width": width, "height": 844})
            assert not page.evaluate(wider), (address, width)


def test_composer_and_feed_are_in_reach_beside_fifty_rows(page: Page):
    Mysis.objects.bulk_create(Mysis(name=f"Explorer {n}") for n in range(50))
    page.set_viewport_size({"width": 1024, "height": 768})
    live(page)
    expect(page.locator(".row")).to_have_count(50)
    inside = """one => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight;
    }"""
    for part in ("#id_text", "#composer button", "#fleet-orders", "#feed"):
        assert page.locator(part).evaluate(inside), part
    # A row that gets the focus is not left behind the dock.
    name = page.locator(f"#m{Mysis.objects.get(name='Explorer 49').pk}-name")
    name.focus()
    dock = page.locator(".rail").evaluate("one => one.getBoundingClientRect().top")
    assert name.evaluate("one => one.getBoundingClientRect().bottom") <= dock


def test_the_top_bar_is_whole_on_the_smallest_phone(page: Page):
    page.set_viewport_size({"width": 320, "height": 640})
    live(page)
    # The longest word that it ever says.
    page.evaluate("document.getElementById('live-word').textContent = 'reconnecting'")
    cut = """parts => parts.map(one => one.getBoundingClientRect()).filter(
        one => one.top < 0 || one.left < 0 || one.right > innerWidth)"""
    assert page.locator(".bar svg, .bar button, .bar a").evaluate_all(cut) == []
    bar = page.locator(".bar").evaluate("one => one.getBoundingClientRect().height")
    assert bar < 60
    wide = "words => words.filter(one => one.offsetWidth > one.parentNode.offsetWidth)"
    assert page.locator(".nav a span").evaluate_all(wide) == []


def test_the_top_bar_is_one_line_on_a_tablet(page: Page):
    live(page)
    page.evaluate("document.getElementById('live-word').textContent = 'reconnecting'")
    parts = page.locator(".bar .brand, .bar .nav a, .bar-end > *")
    outside = (
        "parts => parts.filter(one => one.getBoundingClientRect().right > innerWidth)"
    )
    for width in (769, 780, 820, 961, 1089):
        page.set_viewport_size({"width": width, "height": 900})
        bar = page.locator(".bar").evaluate("one => one.getBoundingClientRect().height")
        assert bar < 60, width
        assert parts.evaluate_all(outside) == [], width


def test_every_stop_button_can_be_hit_with_a_thumb(page: Page):
    scenes.busy_fleet()
    page.set_viewport_size(PHONE)
    live(page)
    for button in page.locator(".act-stop").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["width"] >= 44


def test_the_whole_page_is_small(page: Page):
    scenes.busy_fleet()
    sizes: list[int] = []
    page.on(
        "requestfinished",
        lambda request: sizes.append(request.sizes()["responseBodySize"]),
    )
    live(page)
    assert 0 < sum(sizes) < 300_000


def test_an_empty_fleet_says_what_to_do(page: Page):
    live(page)
    page.get_by_role("link", name="Create the first Mysis").click()
    page.get_by_label("Name").fill("Ada")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Ada")).to_be_visible()
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    assert Mysis.objects.get().name == "Ada"


def test_a_viewer_sees_no_controls(page: Page, admin: User):
    User.objects.filter(pk=admin.pk).update(is_superuser=False, is_staff=False)
    make_mysis(name="Ada", state="running")
    live(page)
    expect(page.get_by_role("button", name="Stop Ada")).to_be_hidden()
    expect(page.locator("#composer")).to_be_hidden()
    # Nor do keys reach what is hidden.
    for key in ("j", "x", "s", "m"):
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="Ada", exact=True)).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("to the next row")
    expect(page.get_by_role("dialog")).not_to_contain_text("select the row")
    expect(page.locator("#notices .notice")).to_have_count(0)
    assert Mysis.objects.get().state == Mysis.State.RUNNING


def test_a_group_and_a_tag_narrow_the_fleet_and_are_written_to(page: Page):
    ada = make_mysis(name="Ada", group="miners")
    brahe = make_mysis(name="Brahe", group="miners", tags=["scout"])
    cyd = make_mysis(name="Cyd", tags=["scout"])
    live(page)
    page.get_by_role("radio", name="miners").check(force=True)
    expect(row(page, cyd)).to_have_count(0)
    expect(row(page, ada)).to_be_visible()
    page.locator("select[name=tag]").select_option("scout")
    expect(row(page, ada)).to_have_count(0)
    expect(row(page, brahe)).to_be_visible()
    page.locator("#id_to").select_option("tag:scout")
    page.locator("#id_text").fill("Look around.")
    page.locator("#composer button[type=submit]").click()
    expect(page.locator(".composer-answer")).to_contain_text("2 Myses")
    assert Broadcast.objects.get().tag == "scout"
