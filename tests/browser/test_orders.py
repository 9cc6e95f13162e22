"""Orders in a real browser: given, reported while one looks, ticked."""

from __future__ import annotations

import os

from playwright.sync_api import Page, expect

from agents.actions import orders
from agents.models import Order
from tests.factories import make_mysis


def test_an_order_is_given_reported_and_ticked(page: Page) -> None:
    ada, bo = (make_mysis(name=name, state="running") for name in ("Ada", "Bo"))
    make_mysis(name="Xeno", state="stopped")
    page.goto("/")
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    expect(page.locator("#fleet-orders")).to_contain_text("No orders yet.")
    page.fill("#id_text", "All hands: return to base.")
    page.click("#composer button[type=submit]")
    line = page.locator("#fleet-orders .order")
    expect(line).to_contain_text("2 sent, 0 shown, 0 done")
    expect(page.locator("#feed")).to_contain_text("All hands: return to base.")
    line.locator("summary").click()
    names = page.locator("#fleet-orders .order-names")
    expect(names).to_contain_text("queued 2")
    orders.report_order(mysis=ada, number=None, status="done", note="Docked.")
    expect(line).to_contain_text("1 shown, 1 done")
    # The names stay open, and are read anew.
    expect(names).to_contain_text("done 1")
    expect(page.locator("#feed")).to_contain_text("order done")
    if folder := os.environ.get("P1_SHOTS"):
        shoot(page, folder, "fleet")
    names.get_by_role("button", name="Not done: order").click()
    expect(line).to_contain_text("1 done, 1 not done")
    names.get_by_role("link", name="Notes and each one's part").click()
    expect(page.locator("#live-status")).to_have_attribute("data-state", "live")
    expect(page.locator("#order-status")).to_contain_text("Docked.")
    expect(page.locator("tr", has_text="Bo")).to_contain_text("never shown to it")
    page.fill("#order-note", "I saw it fly.")
    page.locator("tr", has_text="Bo").get_by_role("button").click()
    expect(page.locator("tr", has_text="Bo")).to_contain_text("queued")
    expect(page.locator("tr", has_text="Bo")).to_contain_text("I saw it fly.")
    expect(page.locator("#order-note")).to_have_value("")
    page.fill("#order-note", "Look again.")
    page.get_by_role("button", name="Keep the note only").click()
    expect(page.locator("tr", has_text="Bo")).to_contain_text("Look again.")
    expect(page.locator("tr", has_text="Bo")).to_contain_text("queued")
    if folder := os.environ.get("P1_SHOTS"):
        shoot(page, folder, "order")
        page.goto("/orders/")
        shoot(page, folder, "orders")
        page.goto("/myses/Ada/")
        shoot(page, folder, "mysis")
    order = Order.objects.get()
    orders.change_order(order=order, by="operator:x", state="done", mysis=bo)


def shoot(page: Page, folder: str, name: str) -> None:
    for width in (1440, 1024, 390, 320):
        for theme in ("light", "dark"):
            if theme == "dark" and width not in (1440, 390):
                continue
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            page.screenshot(path=f"{folder}/{name}-{width}-{theme}.png", full_page=True)
