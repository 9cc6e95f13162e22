"""Several Myses at once, by hand and by keys, and the forms of one."""

from __future__ import annotations

import pytest
from playwright.sync_api import Dialog, Page, Route, expect

from agents import actions
from agents.models import Mysis
from memory.models import Memory
from tests.agents.test_idle import order, rest
from tests.browser.conftest import Complaints
from tests.browser.test_fleet import live, row
from tests.factories import make_mysis


def tick(page: Page, *myses: Mysis) -> None:
    """Select rows."""
    for mysis in myses:
        page.get_by_role("checkbox", name=f"Select {mysis.name}").check()


def hold(page: Page, address: str) -> list[Route]:
    """The requests to an address, each held until it is continued."""
    held: list[Route] = []
    page.route(address, lambda route: held.append(route))
    return held


def let_go(page: Page, held: list[Route]) -> None:
    """Continue a held request, once it has come."""
    while not held:
        # What the browser tells comes while something is asked of it.
        page.evaluate("0")
    held.pop().continue_()


def test_the_selected_are_stopped_and_the_others_go_on(page: Page):
    ada, brahe, cassini = (
        make_mysis(name=name, state="running") for name in ("Ada", "Brahe", "Cassini")
    )
    live(page)
    bar = page.locator("#bulk")
    expect(bar).to_be_hidden()
    tick(page, ada, brahe)
    expect(page.locator("#bulk-count")).to_have_text("2 selected")
    asked: list[str] = []

    def refuse(box: Dialog) -> None:
        asked.append(box.message)
        box.dismiss()

    page.once("dialog", refuse)
    bar.get_by_role("button", name="Stop").click()
    assert asked == ["Stop the 2 selected?"]
    expect(row(page, ada).locator(".state")).to_have_text("running")
    page.once("dialog", lambda box: box.accept())
    bar.get_by_role("button", name="Stop").click()
    notice = page.locator("#notices .notice")
    expect(notice).to_contain_text("Stopped 2 Myses.")
    expect(notice).to_be_in_viewport()
    expect(row(page, ada).locator(".state")).to_have_text("stopped")
    expect(row(page, brahe).locator(".state")).to_have_text("stopped")
    expect(row(page, cassini).locator(".state")).to_have_text("running")
    # What is ticked stays when the rows are drawn anew.
    new = actions.create_mysis(name="Draper", by="system")
    expect(row(page, new)).to_contain_text("Draper")
    expect(page.get_by_role("checkbox", name="Select Ada")).to_be_checked()
    expect(page.locator("#bulk-count")).to_have_text("2 selected")
    page.get_by_role("checkbox", name="Select all rows shown").check()
    expect(page.locator("#bulk-count")).to_have_text("4 selected")
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    # A message to the selected names them.
    tick(page, cassini, new)
    bar.get_by_role("button", name="Message").click()
    send = page.locator("#composer button")
    expect(send).to_have_text("Send to the 2 selected")
    expect(page.locator("#id_text")).to_be_focused()
    page.keyboard.type("Sell the ore.")
    send.click()
    expect(page.locator("#composer")).to_contain_text("Sent to 2 Myses.")
    told = Memory.objects.order_by("mysis").values_list("mysis", flat=True)
    assert list(told) == [cassini.pk, new.pk]
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_be_hidden()


def test_those_who_idle_are_messaged_all_at_once(
    page: Page, complaints: Complaints
) -> None:
    idle = [rest(name) for name in ("Ada", "Brahe", "Cassini")]
    make_mysis(name="Drake", state="errored", last_error="No.", last_error_code="model")
    make_mysis(name="Emil", state="errored", last_error="No.", last_error_code="model")
    order(*idle, text="All hands: return to base")
    live(page)
    line = page.locator(".idles")
    expect(line).to_contain_text("3 of 5 idle for 2 min")
    line.get_by_role("link", name="Message them").click()
    expect(page.locator("#id_to option:checked")).to_have_text("3 Myses")
    page.locator("#id_text").fill("Go on with mining.")
    page.locator("#composer").get_by_role("button").last.click()
    expect(page.locator(".idles")).to_have_count(0)
    assert Mysis.objects.filter(state="running").count() == 3


@pytest.mark.replaces_requests
def test_hands_stay_on_the_keys(page: Page):
    ada, brahe = (make_mysis(name=name, state="running") for name in ("Ada", "Brahe"))
    live(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the first row")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("checkbox", name="Select Ada")).to_be_focused()
    stop = page.get_by_role("button", name="Stop Ada")
    for _ in range(40):
        if stop.evaluate("button => button === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(stop).to_be_focused()
    page.keyboard.press("Enter")
    expect(row(page, ada).locator(".state")).to_have_text("stopped")
    box = page.get_by_role("textbox", name="Message", exact=True)
    for _ in range(40):
        if box.evaluate("box => box === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.type("Sell the ore.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#composer")).to_contain_text("Sent to 1 Mysis.")
    assert Memory.objects.get().content == "Sell the ore."
    # Single keys do the same in fewer steps.
    actions.start_mysis(mysis=ada, by="system")
    live(page)
    keys = page.keyboard
    for key in ("j", "j", "k"):
        keys.press(key)
    expect(page.locator(f"#m{ada.pk}-name")).to_be_focused()
    for key in ("x", "j", "x"):
        keys.press(key)
    expect(page.locator("#bulk-count")).to_have_text("2 selected")
    page.once("dialog", lambda box: box.accept())
    keys.press("s")
    again = page.get_by_role("button", name="Start them again")
    expect(row(page, ada).locator(".state")).to_have_text("stopped")
    again.click()
    expect(page.locator("#notices")).to_contain_text("Started 2 Myses.")
    expect(row(page, brahe).locator(".state")).to_have_text("running")
    keys.press("m")
    send = page.locator("#composer button[type=submit]")
    expect(send).to_have_text("Send to the 2 selected")
    keys.type("/jxs?")
    expect(page.locator("#id_text")).to_have_value("/jxs?")
    keys.press("Control+Enter")
    expect(page.locator("#composer")).to_contain_text("Sent to 2 Myses.")
    expect(send).to_have_text("Send to the fleet")
    # Enter does what was typed last, whether its answer has come or not.
    keys.press("Control+k")
    box = page.get_by_role("combobox", name="A Mysis, a page")
    expect(box).to_be_focused()
    keys.type("stop brahe")
    keys.press("Enter")
    expect(row(page, brahe).locator(".state")).to_have_text("stopped")
    expect(row(page, ada).locator(".state")).to_have_text("running")
    expect(box).to_be_hidden()
    expect(page.locator("#id_text")).to_be_focused()
    keys.press("Control+k")
    keys.type("brahe")
    expect(page.locator("#palette-list")).to_have_attribute("data-q", "brahe")
    expect(page.locator("#palette [aria-selected=true]")).to_have_text("Brahe")
    keys.press("ArrowUp")
    expect(page.locator("#palette [aria-selected=true]")).to_contain_text("Search for")
    keys.press("ArrowDown")
    keys.press("Enter")
    page.wait_for_url("**/myses/Brahe/")
    switch_single_keys_off(page)


def switch_single_keys_off(page: Page) -> None:
    """On the list of keys; those with a modifier stay."""
    keys, switch = page.keyboard, page.get_by_role("switch")
    keys.press("?")
    switch.uncheck()
    keys.press("Escape")
    expect(switch).to_be_hidden()
    keys.press("m")
    expect(page.locator("#id_text")).not_to_be_focused()
    keys.press("Control+k")
    keys.type("keyboard shortcuts")
    keys.press("Enter")
    expect(switch).not_to_be_checked()
    switch.check()
    keys.press("Escape")
    keys.press("m")
    expect(page.locator("#id_text")).to_be_focused()


def heights(page: Page) -> set[float]:
    """How high the rows are."""
    return {
        box["height"]
        for row in page.locator(".rows .row").all()
        if (box := row.bounding_box())
    }


def cut_names(page: Page) -> list[str]:
    """Names that do not fit into their place."""
    found: list[str] = page.locator(".rows .name").evaluate_all(
        "names => names.filter(n => n.scrollWidth > n.clientWidth + 1)"
        ".map(n => n.textContent)"
    )
    return found


@pytest.mark.replaces_requests
def test_the_form_of_a_model_keeps_the_focus_and_what_was_typed(
    page: Page, complaints: Complaints
):
    complaints.allowed += ("409 (Conflict)", "422 (")
    ada = make_mysis(name="Ada", state="running")
    live(page)
    page.get_by_role("link", name="Ada", exact=True).click()
    pencil = page.get_by_role("link", name="Edit the model")
    pencil.click()
    editor = page.get_by_role("dialog", name="Model of Ada")
    box = editor.get_by_label("Model")
    expect(box).to_be_focused()
    # Escape closes it, and the keys go on from where it was opened.
    page.keyboard.press("Escape")
    expect(editor).to_be_hidden()
    expect(pencil).to_be_focused()
    page.keyboard.press("Enter")
    expect(box).to_be_focused()
    box.fill("nobody:gpt")
    page.keyboard.press("Enter")
    expect(editor).to_contain_text('No provider is named "nobody"')
    expect(box).to_have_value("nobody:gpt")
    expect(box).to_be_focused()
    box.fill("pilot:mine")
    actions.update_mysis(mysis=ada, by="operator:bob", model="pilot:theirs")
    expect(page.locator("#mysis-head")).to_contain_text("pilot:theirs")
    editor.get_by_role("button", name="Save").click()
    expect(editor).to_contain_text("Now it is: pilot:theirs.")
    expect(box).to_have_value("pilot:mine")
    editor.get_by_role("button", name="Save").click()
    expect(editor).to_be_hidden()
    expect(page.locator("#notices")).to_contain_text("counts from its next turn")
    expect(page.locator("#mysis-head")).to_contain_text("pilot:mine")
    expect(page.get_by_role("link", name="Edit the model")).to_be_focused()
    page.get_by_role("link", name="Edit the standing orders").click()
    page.get_by_label("New order").fill("Never attack.")
    page.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#editor")).to_contain_text("The order is acknowledged.")
    page.keyboard.press("Escape")
    expect(page.locator("#mysis-head")).to_contain_text("Never attack.")


def test_what_is_typed_while_an_answer_is_on_its_way_stays(
    page: Page, complaints: Complaints
):
    complaints.allowed += ("422 (",)
    make_mysis(name="Ada", state="running")
    live(page, "/myses/Ada/")
    page.get_by_role("link", name="Edit the model").click()
    editor = page.get_by_role("dialog", name="Model of Ada")
    box, save = editor.get_by_label("Model"), editor.get_by_role("button", name="Save")
    held = hold(page, "**/edit/model/")
    box.fill("nobody:gpt")
    page.keyboard.press("Enter")
    # The price says the same as the answer will.
    expect(page.locator("#edit-price")).to_contain_text('No provider is named "nobody"')
    expect(save).to_be_disabled()
    box.fill("pilot:mine")
    page.keyboard.press("ArrowLeft")
    let_go(page, held)
    expect(editor.locator(".field-error")).to_contain_text("No provider is named")
    expect(box).to_have_value("pilot:mine")
    expect(box).to_be_focused()
    page.keyboard.type("-")
    save.click()
    let_go(page, held)
    expect(page.locator("#mysis-head")).to_contain_text("pilot:min-e")
    # A message that is begun while another is being sent is not wiped out with that.
    held = hold(page, "**/send/")
    text = page.get_by_role("textbox", name="Message to Ada")
    text.fill("Go mining.")
    page.keyboard.press("Control+Enter")
    text.press_sequentially(" Then sell.")
    let_go(page, held)
    expect(page.locator("#composer")).to_contain_text("Sent to Ada.")
    expect(text).to_have_value("Go mining. Then sell.")
    # Nor is a new standing order, by what is said of another.
    page.get_by_role("link", name="Edit the standing orders").click()
    page.get_by_label("New order").fill("Never attack.")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_label("New order")).to_have_value("")
    page.get_by_label("New order").fill("Sell ore.")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#editor")).to_contain_text("The order is acknowledged.")
    expect(page.get_by_label("New order")).to_have_value("Sell ore.")
    # Nor does a page without a socket load again because a price was told.
    page.unroute("**/edit/model/")
    page.route_web_socket("**/ws/**", lambda socket: None)
    page.goto("/myses/Ada/")
    page.get_by_role("link", name="Edit the model").click()
    box.fill("nobody:gpt")
    expect(page.locator("#edit-price")).to_contain_text('No provider is named "nobody"')
    box.press("End")
    page.keyboard.type("-5")
    expect(box).to_have_value("nobody:gpt-5")
    # Nor because a message was sent, while the next one is begun.
    page.goto("/myses/Ada/")
    text.fill("Go mining.")
    page.keyboard.press("Control+Enter")
    text.press_sequentially(" Then sell.")
    let_go(page, held)
    expect(page.locator("#notices")).to_contain_text("This page is not live")
    expect(text).to_have_value("Go mining. Then sell.")


def test_groups_saved_views_columns_and_dense_rows(page: Page):
    names = ["Ada", "Brahe", "Cassini", "Eratosthenes of Cyrene", "Ibn al-Haytham 2"]
    myses = [make_mysis(name=name, state="running") for name in names]
    live(page)
    tick(page, *myses[:2])
    page.locator("#bulk-group").fill("miners-of-heavy-ore")
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("heavy-ore: 2 Myses.")
    page.locator("#bulk").get_by_role("button", name="Clear").click()
    # The chip of a row filters as the chip above does.
    row(page, myses[0]).get_by_text("miners-of").click()
    expect(page.locator(".rows .row")).to_have_count(2)
    expect(page.get_by_role("radio", name="miners-of")).to_be_checked()
    page.locator("#columns-menu summary").click()
    page.get_by_role("checkbox", name="Last line").uncheck()
    expect(row(page, myses[0]).locator(".cell-said")).to_be_hidden()
    expect(row(page, myses[0]).locator(".cell-purse")).to_be_visible()
    page.keyboard.press("Escape")
    views = page.locator("#views-menu > summary")
    views.click()
    # The form is htmx's own once it has settled.
    expect(page.locator("#views .view-new:not(.htmx-settling)")).to_be_visible()
    page.get_by_label("Save what is shown as").fill("Miners")
    page.keyboard.press("Enter")
    expect(page.locator("#views")).to_contain_text("View Miners is saved.")
    page.get_by_label("Change Miners").click()
    page.get_by_role("button", name="Make it the default").click()
    expect(page.locator("#views")).to_contain_text("Fleet opens with Miners")
    assert min(heights(page)) > 28
    page.get_by_role("button", name="Compact").click()
    page.get_by_role("link", name="Fleet", exact=True).first.click()
    expect(page.locator(".rows .row")).to_have_count(2)
    expect(row(page, myses[0]).locator(".cell-said")).to_be_hidden()
    page.get_by_role("radio", name="All groups").check(force=True)
    expect(page.locator(".rows .row")).to_have_count(5)
    assert heights(page) == {28}
    assert cut_names(page) == []
    page.get_by_role("button", name="Compact", pressed=True).click()
    assert cut_names(page) == []
