"""A real turn as it is watched, and a web server that starts again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.contrib.auth.models import User
from django.db import connections
from playwright.sync_api import BrowserContext, Page, expect
from pytest_django import Settings

from agents import actions
from agents.game import sessions
from agents.models import Mysis
from bench.processes import run_server
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
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
    # Why it did that: all that the model had before it as it chose, in two clicks.
    said = page.locator("#log .line", has_text="register").first
    said.get_by_role("link", name="call 1").click()
    expect(page.locator(".part-head").first).to_contain_text("Payload")
    expect(page.locator("main")).to_contain_text("Not logged in.")
    page.goto("/myses/Ada/")
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
