"""The page of one Mysis in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable

from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Page, expect

from agents import actions, events
from agents.actions.notes import save_note
from agents.events import Kind
from agents.models import ModelCall, Mysis, Turn
from bench.processes import Server
from memory.models import GameSnapshot, Memory
from tests.browser import scenes
from tests.browser.conftest import PHONE, Complaints
from tests.browser.test_fleet import live, say
from tests.factories import make_memory, make_mysis, make_turn

AT_END = "(box => box.scrollHeight - box.scrollTop - box.clientHeight < 2)"
SCROLL = "document.getElementById('log-scroll')"


def fill(mysis: Mysis, count: int) -> None:
    """A history that is longer than the page shows."""
    for number in range(count):
        make_memory(mysis, role="assistant", content=f"line {number} " + "x " * 60)


def address(mysis: Mysis) -> str:
    """Its page, by name as people link it."""
    return f"/myses/{mysis.name}/"


def test_the_log_follows_its_end_and_leaves_a_reader_alone(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    fill(mysis, 130)
    live(page, address(mysis))
    lines, pill = page.locator("#log > [data-id]"), page.locator("#log-pill")
    expect(lines).to_have_count(50)
    assert page.evaluate(f"{AT_END}({SCROLL})")
    for number in range(5):
        say(mysis, f"news {number} " + "y " * 80)
        expect(page.locator("#log")).to_contain_text(f"news {number}")
    page.wait_for_function(f"{AT_END}({SCROLL})")
    expect(pill).to_be_hidden()
    page.evaluate(f"{SCROLL}.scrollTop = 400")
    say(mysis, "first")
    say(mysis, "second")
    expect(pill).to_have_text("2 new")
    assert page.evaluate(f"{SCROLL}.scrollTop") == 400
    pill.click()
    expect(pill).to_be_hidden()
    page.wait_for_function(f"{AT_END}({SCROLL})")
    # Above the end the list does not grow for ever: new lines are only counted.
    page.evaluate("document.getElementById('log').dataset.keep = '25'")
    page.evaluate(f"{SCROLL}.scrollTop = 400")
    for number in range(3):
        say(mysis, f"unseen {number}")
    expect(pill).to_have_text("3 new")
    expect(lines).to_have_count(57)
    pill.click()
    expect(page.locator("#log")).to_contain_text("unseen 2")
    expect(pill).to_be_hidden()
    page.wait_for_function(f"{AT_END}({SCROLL})")
    # Older lines come while scrolling up, and nothing jumps.
    expect(lines).to_have_count(50)
    page.evaluate(f"{SCROLL}.scrollTop = 0")
    expect(lines).to_have_count(100)
    assert page.evaluate(f"{SCROLL}.scrollTop") > 500
    page.evaluate(f"{SCROLL}.scrollTop = 0")
    expect(lines).to_have_count(140)
    expect(page.locator("#log-older")).to_have_count(0)
    ids = lines.evaluate_all("lines => lines.map(line => Number(line.dataset.id))")
    assert ids == sorted(set(ids))


def test_lines_come_into_their_place_and_are_looked_into(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    scenes.add_account(mysis)
    live(page, address(mysis))
    row = say(mysis, "", role="tool", tool_name="mine", tool_call_id="c", pending=True)
    line = page.locator(f"#line-{row.pk}")
    expect(line).to_contain_text("waiting for the answer")
    expect(page.locator(".empty-log")).to_have_count(0)
    row.content, row.pending = json.dumps({"ore": 3}), False
    row.save()
    events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data={"memory_id": row.pk})
    expect(line).not_to_contain_text("waiting for the answer")
    expect(line).to_contain_text('"ore": 3')
    expect(page.locator("#log > [data-id]")).to_have_count(1)
    # Hostile text stays text.
    bad = f"{scenes.HOSTILE}<i hx-get='/events/' hx-trigger='load' hx-swap-oob='true'>"
    calls = [{"id": "c", "function": {"name": bad, "arguments": bad}}]
    say(mysis, bad, reasoning=bad, tool_calls=calls)
    say(mysis, bad, role="tool", tool_name=bad, tool_call_id="c")
    expect(page.locator(".line-tool")).to_have_count(2)
    assert page.locator("main script, main img, main i").count() == 0
    # The state panel follows, and keeps what is open.
    panel = page.locator("#mysis-state")
    expect(panel).to_contain_text("11,153")
    panel.get_by_text("System", exact=True).click()
    expect(panel.get_by_text("Asteroid Belt Alpha, Earth, Mars")).to_be_hidden()
    GameSnapshot.objects.filter(tool_name="get_status").update(
        stale_reason="mine", stale_tick=scenes.TICK
    )
    data = {"tool": "get_status", "reason": "mine", "tick": scenes.TICK}
    events.append(Kind.SNAPSHOT_STALE, mysis_id=mysis.pk, data=data)
    expect(panel).to_contain_text("changed by mine at tick 481516; call get_status")
    expect(panel.get_by_text("Asteroid Belt Alpha, Earth, Mars")).to_be_hidden()
    # Reasoning and results are folded, and stay as the reader left them.
    rows = scenes.add_conversation(mysis)
    live(page, address(mysis))
    thought = page.locator(".reasoning", has_text="The belt is rich").first
    expect(thought.locator(".prose")).to_be_hidden()
    thought.locator("summary").click()
    expect(thought.locator(".prose")).to_contain_text("The belt is rich")
    expect(page.locator(".call").nth(1)).to_have_text("→ get_status(deep=0)")
    say(mysis, "and on")
    expect(page.locator("#log")).to_contain_text("and on")
    expect(thought.locator(".prose")).to_be_visible()
    # A message is inspected beside the talk.
    page.get_by_role("button", name=f"Inspect message {rows[0].pk}").click()
    pane = page.locator("#inspector")
    expect(pane).to_contain_text("Find out what sells best here.")
    expect(pane).to_contain_text("kept")
    pane.get_by_role("button", name="Close").click()
    expect(pane).to_be_empty()


def test_a_mysis_is_woken_stopped_and_gone(page: Page, complaints: Complaints):
    complaints.allowed += ("409",)
    mysis = make_mysis(name="Ada", state="errored", last_error="No such model.")
    scenes.add_conversation(mysis)
    live(page, address(mysis))
    reach, state = page.locator("#mysis-reach"), page.locator("#mysis-head .state")
    expect(reach).to_contain_text("takes no messages: start it")
    page.get_by_role("textbox", name="Message to Ada").fill("Go mining.")
    page.get_by_role("button", name="Send").click()
    answer = page.locator(".composer-answer")
    expect(answer).to_contain_text("Start it, then send again.")
    expect(answer).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(reach).to_be_empty()
    expect(state).to_have_text("running")
    Mysis.objects.update(state="idle")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#log")).to_contain_text("Go mining.")
    expect(page.locator("#composer")).to_contain_text("Sent to Ada.")
    mysis.refresh_from_db()
    assert mysis.state == "running"
    page.get_by_role("button", name="Stop").click()
    expect(state).to_have_text("stopped")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(state).to_have_text("running")
    # An error says what to do, and a page whose Mysis is deleted says so.
    error = "The provider refused the key: set a new one in the admin."
    Mysis.objects.filter(pk=mysis.pk).update(state="errored", last_error=error)
    data = {"name": "Ada", "state": "errored", "error": error}
    events.append(Kind.MYSIS_STATE, mysis_id=mysis.pk, data=data)
    expect(page.get_by_role("alert")).to_contain_text(error)
    actions.delete_mysis(mysis=mysis, by="system")
    expect(page.locator("#mysis-error")).to_contain_text("This Mysis was deleted.")


def test_a_link_to_a_message_opens_its_place(page: Page):
    mysis = make_mysis(name="Ada")
    rows = [make_memory(mysis, content=f"order {n}") for n in range(200)]
    place = rows[40]
    page.goto(f"/myses/Ada/?at={place.pk}#line-{place.pk}")
    expect(page.locator(f"#line-{place.pk}")).to_be_in_viewport()
    page.get_by_role("link", name="Go to the newest").click()
    expect(page.get_by_text("order 199", exact=True)).to_be_in_viewport()
    # The hits of a search are walked: each in the middle of the log, the page at its top.
    for one in (rows[20], rows[90], rows[150]):
        Memory.objects.filter(pk=one.pk).update(reasoning="It smells of iron here.")
    page.goto("/search/?q=iron&where=reasoning")
    expect(page.get_by_role("link", name="Reasoning 3")).to_be_visible()
    page.get_by_role("link", name="Show it in its place").first.click()
    for number, hit in enumerate((rows[150], rows[90], rows[20]), 1):
        expect(page.locator(".hit-walk")).to_contain_text(f"{number} of 3")
        mark = page.locator(f"#line-{hit.pk}.line-place mark")
        expect(mark).to_have_text("iron")
        expect(mark).to_be_in_viewport()
        assert page.evaluate("scrollY") == 0
        box, spot = page.locator("#log-scroll").bounding_box(), mark.bounding_box()
        assert box is not None
        assert spot is not None
        assert 0.2 < (spot["y"] - box["y"]) / box["height"] < 0.8
        if number < 3:
            page.get_by_role("link", name="Next").click()
    page.get_by_role("link", name="Previous").click()
    expect(page.locator(".hit-walk")).to_contain_text("2 of 3")


def test_it_works_without_a_script(
    new_profile: Callable[..., BrowserContext], server: Server, admin: User
):
    mysis = make_mysis(name="Ada")
    plain = new_profile(admin, java_script_enabled=False, viewport=PHONE)
    page = plain.new_page()
    page.goto("/myses/Ada/")
    page.locator("#id_text").fill("Go mining.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#notices")).to_contain_text("Sent to Ada.")
    expect(page.locator("#log")).to_contain_text("Go mining.")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#notices")).to_contain_text("Ada is stopped.")
    assert page.url == f"{server.origin}/myses/Ada/"
    mysis.refresh_from_db()
    assert mysis.state == "stopped"
    page.goto("/")
    page.get_by_role("button", name="Start Ada").click()
    expect(page.locator("#notices")).to_contain_text("Ada starts.")


def test_an_outdated_context_is_drawn_anew_when_nobody_has_it_in_hand(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    scenes.add_conversation(mysis)
    live(page, "/myses/Ada/context/")
    told = page.locator("#context-outdated")
    expect(told).to_be_empty()
    expect(page.locator("#context-refresh")).to_be_hidden()
    at_once = "document.getElementById('context-view').dataset.rest = 0"
    page.evaluate(at_once)
    row = say(mysis, "One thing more.")
    expect(page.locator(".ledger")).to_contain_text(f"#{row.pk}")
    expect(told).to_be_empty()
    # What somebody opened is not taken away: the page says how much it lacks.
    block = page.locator(".blocks > .block details").last
    block.locator("summary").click()
    page.evaluate(at_once)
    row = say(mysis, "And another.")
    expect(told).to_have_text("Outdated")
    expect(page.locator("#context-news")).to_contain_text("1 message new")
    row = say(mysis, "And one more.")
    expect(page.locator("#context-news")).to_contain_text("2 messages new")
    expect(page.locator(".ledger")).not_to_contain_text(f"#{row.pk}")
    block.locator("summary").click()
    expect(told).to_have_text("Outdated")
    page.evaluate("document.activeElement.blur()")
    expect(page.locator(".ledger")).to_contain_text(f"#{row.pk}")
    expect(told).to_be_empty()
    # What stood open and was closed stays closed, and a long part where it was read.
    scrolled = "(part, on) => { part.style.maxHeight = '50px'; part.scrollTop = on; }"
    closed = "(part, on) => { part.open = on === 0; }"
    for part, reads in ((".ledger", scrolled), ("details[data-opened]", closed)):
        page.locator(part).first.evaluate(reads, 20)
        page.evaluate(at_once)
        say(mysis, "While it is read.")
        expect(page.locator("#context-news")).to_contain_text("1 message new")
        row = say(mysis, "And still.")
        expect(page.locator("#context-news")).to_contain_text("2 messages new")
        page.locator(part).first.evaluate(reads, 0)
        expect(page.locator(".ledger")).to_contain_text(f"#{row.pk}")
    # Without waiting: its link.
    page.get_by_label("Window, messages", exact=True).fill("4")
    row = say(mysis, "And a third.")
    page.get_by_role("link", name="Refresh").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".ledger")).to_contain_text(f"#{row.pk}")


def test_on_paper_stands_the_whole_log_and_nothing_to_press(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    fill(mysis, 40)
    scenes.add_turns(mysis, share=0.3)
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 720, "height": 1000})
    inner = "boxes => boxes.some(box => box.scrollHeight > box.clientHeight + 1)"
    wider = "document.documentElement.scrollWidth > innerWidth"
    addresses = ["/myses/Ada/", f"/turns/{mysis.turns.latest('pk').pk}/"]
    for at in [*addresses, "/orders/"]:
        page.goto(at)
        for part in (".bar", ".tabs", ".composer", "button", ".download"):
            assert not any(one.is_visible() for one in page.locator(part).all()), part
        assert not page.locator(".log-scroll").evaluate_all(inner)
        assert not page.evaluate(wider)
        colour = "getComputedStyle(document.body).color"
        assert page.evaluate(colour) == "rgb(0, 0, 0)"


def test_a_running_turn_grows_until_its_end(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    turn = make_turn(mysis)
    live(page, f"/turns/{turn.pk}/")
    ModelCall.objects.create(turn=turn, number=1, model="pilot")
    row = say(mysis, "", role="tool", tool_name="mine", pending=True, turn=turn)
    line = page.locator(f"#line-{row.pk}")
    expect(line).to_contain_text("waiting for the answer")
    expect(page.locator("#call-1")).to_contain_text("waiting for the model")
    page.evaluate("document.getElementById('log').dataset.keep = 3")
    for number in range(8):
        make_memory(mysis, content=f"line {number}.", turn=turn)
    row = say(mysis, "", role="tool", tool_name="mine", pending=True, turn=turn)
    line = page.locator(f"#line-{row.pk}")
    # The page goes on with the newest lines, however many there are.
    expect(line).to_contain_text("waiting for the answer")
    expect(page.locator("#log > [data-id]")).to_have_count(3)
    Memory.objects.filter(pk=row.pk).update(content="3 ore", pending=False)
    Turn.objects.update(outcome="done")
    events.append(Kind.TURN_FINISHED, mysis_id=mysis.pk, data={"turn": turn.pk})
    expect(page.locator("#turn-outcome")).to_have_text("done")
    expect(line).to_contain_text("3 ore")
    line.hover()
    line.get_by_role("button").click()
    expect(page.locator("#inspector")).to_contain_text("3 ore")


def test_an_operator_reads_writes_and_forgets_notes(page: Page):
    mysis = make_mysis(name="Ada", state="running")
    live(page, address(mysis))
    notes = page.locator("#mysis-notes")
    expect(notes).to_contain_text("No notes yet.")
    said = "Sol <b>sells</b>\n## Standing orders\n- attack"
    save_note(mysis=mysis, name="the base", text=said, by="mysis:Ada")
    notes.get_by_text("the base").click()
    expect(notes.locator(".note-text")).to_have_text(said)
    notes.get_by_role("link", name="Edit").click()
    form = page.locator("#note-form form")
    expect(form.get_by_label("Name")).to_have_value("the base")
    form.get_by_label("Text").fill("")
    form.get_by_role("button", name="Keep note").click()
    expect(form).to_contain_text("This field is required.")
    form.get_by_label("Text").fill("Alpha")
    form.get_by_role("button", name="Keep note").click()
    expect(form).to_contain_text("Note the base is kept, version 2.")
    expect(notes).to_contain_text("Alpha")
    if notes.locator("details:not([open])").count():
        notes.get_by_text("the base").click()
    notes.get_by_role("button", name="Forget").click()
    expect(page.locator("#notices")).to_contain_text("Note the base is forgotten.")
    expect(notes).to_contain_text("No notes yet.")
    page.goto(page.url.partition("/myses/")[0] + f"{address(mysis)}notes/")
    expect(page.locator("main")).to_contain_text("version 2")
