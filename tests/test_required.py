"""A program that is missing: a newcomer's test is skipped, an integration run fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agents.views import test_html as html
from tests.agents.views.test_html import judge as judge
from tests.browser import conftest as chromium
from tests.browser import test_accessibility as accessibility
from tests.browser.conftest import chromium_path as chromium_path
from tests.browser.test_accessibility import axe as axe
from tests.required import require
from tests.upgrade import test_side_by_side as side_by_side
from tests.upgrade.test_side_by_side import history as history
from tests.zoea import test_mcp_conformance as conformance
from tests.zoea import test_pgbouncer as pgbouncer
from tests.zoea import test_proxies as proxies
from tests.zoea.test_mcp_conformance import suite as suite
from tests.zoea.test_pgbouncer import pooled as pooled
from tests.zoea.test_proxies import site as site

NOWHERE = Path("/nowhere/at/all")


@pytest.mark.parametrize(
    ("integration", "outcome"),
    [("1", pytest.fail.Exception), ("", pytest.skip.Exception)],
)
def test_what_is_missing_fails_an_integration_run(
    monkeypatch: pytest.MonkeyPatch, integration: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", integration)
    require("/usr/sbin/nginx", "there is no nginx")
    with pytest.raises(outcome, match="there is no nginx"):
        require(None, "there is no nginx")


# Without a test that asks for it, no database is made for the fixtures that want one.
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("tests", "name", "missing", "fixture"),
    [
        (proxies, "NGINX", None, "site"),
        (pgbouncer, "POOLER", None, "pooled"),
        (side_by_side, "MISSING", "no history here", "history"),
        (chromium, "CHROMIUM", NOWHERE, "chromium_path"),
        (accessibility, "AXE", NOWHERE, "axe"),
        (html, "JUDGE", NOWHERE, "judge"),
        (conformance, "COMMAND", NOWHERE, "suite"),
    ],
)
def test_none_of_them_is_skipped_there(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tests: Any,
    name: str,
    missing: object,
    fixture: str,
) -> None:
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr(tests, name, missing)
    with pytest.raises(pytest.fail.Exception):
        request.getfixturevalue(fixture)
