"""A real Chromium in front of a real Daphne on the test database.

``page`` is signed in as an admin and fails its test when the browser complained:
a console error, a refused resource, a page error, or a request elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

from bench.pages.browser import CHROMIUM, FLAGS
from bench.pages.browser import WIDE as WIDE
from bench.processes import Server
from tests.required import require

# Milliseconds for what a page is to become: a busy machine must not fail a test.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)
PHONE = ViewportSize(width=390, height=844)
# What htmx logs of a request that a newer one of the same form replaced (hx-sync): where
# a test is marked ``replaces_requests``, for elsewhere an aborted request is a fault.
REPLACED = ("htmx:afterRequest", "htmx:sendAbort")


@dataclass
class Complaints:
    """What the browser held against a page; ``allowed`` is expected here."""

    origin: str
    found: list[str] = field(default_factory=list)
    allowed: tuple[str, ...] = ()

    def watch(self, page: Page) -> None:
        """Collect from a page."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        elsewhere = not request.url.startswith((self.origin, "data:", "blob:"))
        if elsewhere:
            self.found.append(f"request to {request.url}")

    @property
    def rest(self) -> list[str]:
        """What was not expected."""
        return [c for c in self.found if not any(a in c for a in self.allowed)]


@pytest.fixture(scope="session")
def chromium_path() -> Path:
    """Where the browser is installed."""
    require(
        CHROMIUM.exists(),
        f"there is no {CHROMIUM}: apt-get install chromium-headless-shell",
    )
    return CHROMIUM


@pytest.fixture(scope="session")
def chromium(
    chromium_path: Path, server: Server
) -> Iterator[tuple[BrowserContext, asyncio.AbstractEventLoop]]:
    """One Chromium for the process, a profile with a warm cache, and Playwright's loop.

    That loop runs in the main thread as long as the browser lives. Between tests in the
    browser asyncio does not know, so that asynchronous tests have loops of their own.
    """
    with sync_playwright() as playwright:
        loop = asyncio.get_running_loop()
        started = playwright.chromium.launch(executable_path=chromium_path, args=FLAGS)
        profile = started.new_context(viewport=WIDE, base_url=server.origin)
        profile.set_default_timeout(PATIENCE)
        asyncio._set_running_loop(None)
        yield profile, loop
        asyncio._set_running_loop(loop)
        started.close()


@pytest.fixture
def profile(
    chromium: tuple[BrowserContext, asyncio.AbstractEventLoop],
    server: Server,
    transactional_db: None,
) -> Iterator[BrowserContext]:
    """The profile that all tests share: no tab, and nothing that one has stored.

    Its tabs are closed before the tables are emptied.
    """
    shared, loop = chromium
    asyncio._set_running_loop(loop)
    yield shared
    for page in shared.pages:
        kept = {"origin": server.origin, "storageTypes": "cookies,local_storage"}
        shared.new_cdp_session(page).send("Storage.clearDataForOrigin", kept)
        page.close()
    asyncio._set_running_loop(None)


@pytest.fixture
def admin(transactional_db: None) -> User:
    """Who looks at the pages."""
    return User.objects.create_superuser("ann", password="correct horse")


@pytest.fixture
def context(profile: BrowserContext, server: Server, admin: User) -> BrowserContext:
    """The shared profile with the admin's session."""
    sign_in(profile, server, admin)
    return profile


@pytest.fixture
def new_profile(
    profile: BrowserContext, server: Server
) -> Iterator[Callable[..., BrowserContext]]:
    """Makes profiles of their own: for others than the admin, and for a stopped clock."""
    opened = []

    def make(user: User, **options: Any) -> BrowserContext:
        browser = profile.browser
        assert browser is not None
        own = {"viewport": WIDE, "base_url": server.origin, **options}
        made = browser.new_context(**own)
        made.set_default_timeout(PATIENCE)
        sign_in(made, server, user)
        opened.append(made)
        return made

    yield make
    for made in opened:
        made.close()


@pytest.fixture
def complaints(server: Server, request: pytest.FixtureRequest) -> Complaints:
    """What the browser held against the page of this test."""
    marked = request.node.get_closest_marker("replaces_requests")
    return Complaints(server.origin, allowed=REPLACED if marked else ())


@pytest.fixture
def page(context: BrowserContext, complaints: Complaints) -> Iterator[Page]:
    """A tab; its test fails if the browser complained."""
    opened = context.new_page()
    complaints.watch(opened)
    yield opened
    assert complaints.rest == []


def sign_in(context: BrowserContext, server: Server, user: User) -> None:
    """Give a browser profile a user's session."""
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    value = str(client.session.session_key)
    context.add_cookies([{"name": name, "value": value, "url": server.origin}])
