"""The map and the lanes in a real browser."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from agents.models import Mysis, Turn
from memory.models import GameSnapshot
from tests.browser import scenes
from tests.browser.test_fleet import cut_off_sockets
from tests.factories import make_memory, make_mysis, make_turn


def chart(count: int) -> None:
    """A map of so many systems in a row; Sol is the first."""
    systems = [
        {
            "system_id": "sol" if n == 0 else f"s{n}",
            "name": "Sol" if n == 0 else f"Star {n}",
            "position": {"x": n * 11 % 97, "y": n * 7 % 83},
            "connections": ["sol", f"s{n + 1}"],
            "visited": n % 3 == 0,
        }
        for n in range(count)
    ]
    GameSnapshot.objects.create(
        username="Cartographer",
        tool_name="get_map",
        content=json.dumps({"systems": systems}),
        captured_at=timezone.now(),
    )


def ship() -> Mysis:
    """A Mysis whose ship is in Sol."""
    mysis = make_mysis(name="Ada", state="running")
    scenes.add_account(mysis)
    return mysis


def numbers(box: str | None) -> list[float]:
    """The four of a view box."""
    return [float(one) for one in (box or "").split()]


def pinch(page: Page, apart: int) -> None:
    """Two fingers on the map that part to so many times their distance.

    With 1 there is one finger only, which moves.
    """
    page.locator("#map").evaluate(
        """(map, apart) => {
            const box = map.getBoundingClientRect();
            const middle = [box.x + box.width / 2, box.y + box.height / 2];
            const tell = (name, finger, far) => map.dispatchEvent(
                new PointerEvent(name, {
                    pointerId: 10 + finger, pointerType: "touch", bubbles: true,
                    clientX: middle[0] + (finger ? far : -far), clientY: middle[1],
                }));
            const fingers = apart === 1 ? [0] : [0, 1];
            for (const finger of fingers) tell("pointerdown", finger, 40);
            for (const finger of fingers) tell("pointermove", finger, 40 * apart + 9 * (apart === 1));
            for (const finger of fingers) tell("pointerup", finger, 40 * apart);
        }""",
        apart,
    )


def test_the_map_shows_ships_and_comes_closer(page: Page):
    call = {"tool_name": "jump", "args": {"target_system": "s1"}}
    make_memory(ship(), role="tool", **call)
    chart(60)
    sockets = cut_off_sockets(page)
    page.goto("/")
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator("#map circle")).to_have_count(60)
    expect(page.locator(".ships text")).to_have_text("Ada")
    map_ = page.locator("#map")
    whole = map_.get_attribute("viewBox")
    page.get_by_role("button", name="Closer").click()
    assert map_.get_attribute("viewBox") != whole
    expect(page.locator(".trail .ago-1")).to_have_count(1)
    page.get_by_text("The map in words").click()
    expect(page.get_by_role("row", name="Ada")).to_contain_text("Star 1, Sol")
    # Fewer names have room on a narrow screen, until it comes closer.
    map_.focus()
    page.keyboard.press("0")
    near = page.locator("#map .names.near text")
    expect(near).to_have_count(60)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(near).not_to_have_count(60)
    for _ in range(8):
        page.keyboard.press("+")
    expect(near).to_have_count(60)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.keyboard.press("0")
    expect(map_).to_have_attribute("viewBox", whole or "")
    page.get_by_role("button", name="Sol").click()
    assert map_.get_attribute("viewBox") != whole
    # Two fingers that part bring it closer about where they are held; one does nothing.
    map_.focus()
    page.keyboard.press("0")
    pinch(page, apart=1)
    expect(map_).to_have_attribute("viewBox", whole or "")
    pinch(page, apart=2)
    before, after = (numbers(box) for box in (whole, map_.get_attribute("viewBox")))
    assert after[2] == pytest.approx(before[2] / 2)
    assert before[0] < after[0] < before[0] + before[2] / 2
    # Ships come by the socket, and a map that was brought closer stays so.
    closer = map_.get_attribute("viewBox")
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    page.locator("#map-ships").evaluate(
        "ships => { ships.replaceChildren(); delete ships.dataset.v; }"
    )
    sockets[-1].close(code=1012)
    expect(page.locator("#connection")).to_contain_text("connection is lost")
    expect(page.locator(".ships text")).to_have_text("Ada")
    expect(page.locator("#connection")).to_be_hidden()
    expect(page.locator(".map-over")).to_have_attribute("viewBox", closer or "")
    page.locator(".map-list").get_by_role("link", name="Ada").click()
    expect(page.get_by_role("heading", name="Ada")).to_be_visible()


def test_lanes_lead_to_the_message_and_two_are_compared(page: Page):
    ada, brahe = (make_mysis(name=name, state="running") for name in ("Ada", "Brahe"))
    now = timezone.now()
    for mysis in (ada, brahe):
        turn = make_turn(mysis)
        began = now - timedelta(minutes=30)
        Turn.objects.filter(pk=turn.pk).update(started_at=began)
        said = make_memory(mysis, role="assistant", content="I dig.", turn=turn)
        said.created_at = began
        said.save()
    page.goto("/")
    for mysis in (ada, brahe):
        expect(page.locator("#bulk-compare")).to_be_hidden()
        page.get_by_role("checkbox", name=f"Select {mysis.name}").check()
    page.locator("#bulk-compare").click()
    expect(page).to_have_url(re.compile(rf"/compare/\?a={ada.pk}&b={brahe.pk}"))
    expect(page.locator(".lane-chart .a-thinking")).to_have_count(2)
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    page.get_by_role("link", name="Lanes").click()
    page.get_by_role("link", name="1h", exact=True).click()
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    chart = page.locator(".lane-chart")
    box = chart.bounding_box()
    assert box is not None
    # Hover tells: the turn took the time from the half on.
    tell = page.locator("#lane-tell")
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.75)
    expect(tell).to_contain_text(re.compile(r"Brahe, \d\d:\d\d.*: thinking"))
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.25)
    expect(tell).to_contain_text(re.compile(r"Ada, .*: at rest"))
    # A drag zooms, and the links lead on from there.
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 5, steps=3)
    expect(page.locator("#lane-cursor")).to_be_visible()
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"since=.*Z&until=.*Z"))
    page.get_by_role("link", name="Wider").click()
    expect(page.locator(".lane-chart .a-thinking")).to_have_count(2)
    # By keys alone: from the newest step on to the turn.
    page.goto("/lanes/?since=5m")
    chart.focus()
    for key in ("ArrowLeft", "ArrowDown", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    expect(tell).to_contain_text(re.compile(r"Brahe, .*: thinking"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Brahe")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"\?at={said.pk}$"))
