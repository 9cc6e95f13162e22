"""Whole ways through the pages: a real turn, a restart, keys only, drafts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.contrib.auth.models import User
from django.db import connections
from playwright.sync_api import BrowserContext, Page, expect
from pytest_django import Settings

from agents import actions
from agents.game import sessions
from agents.models import Budget, Mysis, Prompt
from bench.processes import run_server
from memory.models import Memory
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.browser import scenes
from tests.browser.test_fleet import live, row
from tests.factories import make_mysis


async def _turn(mysis: Mysis) -> None:
    async with ThreadSensitiveContext():
        await fly(mysis, "start")
        await sessions.get_pool().close()
        await sync_to_async(connections.close_all)()


def take_turn(mysis: Mysis) -> None:
    """A real turn of the scripted pilot, as the worker takes it."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, _turn(mysis)).result()


def test_a_real_turn_is_seen_as_it_happens(page: Page, settings: Settings):
    ada = actions.create_mysis(name="Ada", by="test")
    with SandboxServer() as game:
        settings.SPACEMOLT_MCP_URL = game.url
        live(page)
        actions.start_mysis(mysis=ada, by="test")
        expect(row(page, ada).locator(".state")).to_have_text("running")
        take_turn(ada)
    expect(row(page, ada).locator(".cell-context")).to_contain_text("% of")
    expect(page.locator("#feed")).to_contain_text("registered")
    page.get_by_role("link", name="Ada", exact=True).first.click()
    expect(page.locator("#log")).to_contain_text("register")
    expect(page.locator("#mysis-turns")).to_contain_text("done")
    page.get_by_role("link", name="Context", exact=True).click()
    page.get_by_role("link", name="Since the last call").click()
    expect(page.locator(".steps")).to_contain_text("byte for byte the same")


def test_the_page_comes_back_after_the_server_was_away(
    new_profile: Callable[..., BrowserContext], admin: User
):
    ada = make_mysis(name="Ada", state="running")
    with run_server() as first:
        page = new_profile(admin, base_url=first.origin).new_page()
        live(page)
    expect(page.locator("#connection")).to_contain_text("connection is lost")
    actions.stop_mysis(mysis=ada, by="system")
    with run_server(at=first.port):
        expect(page.locator("#connection")).to_be_hidden()
        expect(row(page, ada).locator(".state")).to_have_text("stopped")


def test_keys_alone_stop_a_mysis_and_send_an_order(page: Page):
    ada = make_mysis(name="Ada", state="running")
    make_mysis(name="Brahe", state="running")
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


@pytest.mark.replaces_requests
def test_a_prompt_is_previewed_then_saved_then_compared(page: Page):
    prompt = actions.get_default_prompt()
    make_mysis(name="Ada", prompt=prompt)
    page.goto(f"/admin/agents/prompt/{prompt.pk}/change/")
    page.get_by_label("Text:").fill("You are {{ name }}. Mine and sell.")
    page.get_by_role("button", name="Preview on a Mysis before saving").click()
    expect(page.get_by_text("Nothing is saved yet.")).to_be_visible()
    expect(page.locator("#content-main")).to_contain_text("You are Ada. Mine and sell.")
    assert prompt.versions.count() == 1
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.locator(".messagelist")).to_contain_text("changed successfully")
    assert Prompt.objects.get(pk=prompt.pk).versions.count() == 2
    page.goto(f"/admin/agents/prompt/{prompt.pk}/diff/2/")
    expect(page.locator(".zoea-diff .added")).to_have_count(1)


def test_a_budget_asks_only_for_what_its_scope_needs(page: Page):
    mysis = make_mysis(name="Ada")
    page.goto("/admin/agents/budget/add/")
    targets = {"mysis": "mysis", "policy": "policy", "group": "label", "fleet": ""}
    for scope, wanted in targets.items():
        page.locator("#id_scope").select_option(scope)
        for field in ("mysis", "policy", "label"):
            shown = page.locator(f"#id_{field}").is_visible()
            assert shown == (field == wanted), (scope, field)
    # What was chosen for another scope goes with it.
    page.locator("#id_scope").select_option("mysis")
    page.locator("#id_mysis").select_option(str(mysis.pk))
    page.locator("#id_scope").select_option("fleet")
    page.locator("#id_name").fill("daily")
    page.locator("#id_tokens").fill("1000")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("daily")
    assert Budget.objects.get().target is None


@pytest.mark.replaces_requests
def test_two_strategies_are_compared_and_a_match_is_found(page: Page):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis, exchanges=20)
    page.goto("/myses/Ada/context/")
    page.get_by_label("Beside it").select_option("window")
    page.get_by_label("Its window").fill("4")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".pair-sum")).to_have_count(2)
    expect(page.locator(".pair, .same-run").first).to_be_visible()
    page.get_by_role("link", name="Search").first.click()
    page.get_by_role("searchbox").fill("sells best")
    page.keyboard.press("Enter")
    expect(page.locator(".hit mark").first).to_be_visible()
    page.get_by_role("link", name="Show it in its place").first.click()
    expect(page).to_have_url(re.compile(r"at=\d+"))
    expect(page.locator(".line-place")).to_contain_text("Find out what sells best")
