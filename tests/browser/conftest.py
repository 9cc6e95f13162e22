"""A real Chromium in front of a real Daphne on the test database.

``page`` is signed in as an admin and fails its test when the browser complained:
a console error, a refused resource, a page error, or a request elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from playwright.sync_api import (
    Browser,
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for the tests of a file.

    Not for the whole run: as long as it lives, Playwright's event loop runs in the
    main thread, and no asynchronous test can have one of its own.
    """
    require(
        CHROMIUM.exists(),
        f"there is no {CHROMIUM}: apt-get install chromium-headless-shell",
    )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def admin(transactional_db: None) -> User:
    """Who looks at the pages."""
    return User.objects.create_superuser("ann", password="correct horse")


@pytest.fixture
def context(browser: Browser, server: Server, admin: User) -> Iterator[BrowserContext]:
    """A browser profile with the admin's session."""
    opened = browser.new_context(viewport=WIDE, base_url=server.origin)
    opened.set_default_timeout(PATIENCE)
    sign_in(opened, server, admin)
    yield opened
    opened.close()


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
    opened.close()
    assert complaints.rest == []


def sign_in(context: BrowserContext, server: Server, user: User) -> SessionStore:
    """Give a browser profile a user's session."""
    client = Client()
    client.force_login(user)
    session = client.session
    name = settings.SESSION_COOKIE_NAME
    cookie = {"name": name, "value": str(session.session_key), "url": server.origin}
    context.add_cookies([cookie])  # type: ignore[list-item]
    assert isinstance(session, SessionStore)
    return session
