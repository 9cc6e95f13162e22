"""A program that is missing: a newcomer's test is skipped, an integration run fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.required import require
from tests.upgrade import test_side_by_side as side_by_side
from tests.zoea import test_pgbouncer as pgbouncer
from tests.zoea import test_proxies as proxies


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


@pytest.mark.parametrize(
    ("tests", "name", "value"),
    [
        (proxies, "NGINX", None),
        (pgbouncer, "POOLER", None),
        (side_by_side, "MISSING", "no history here"),
    ],
)
def test_none_of_them_is_skipped_there(
    monkeypatch: pytest.MonkeyPatch, tests: Any, name: str, value: str | None
) -> None:
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr(tests, name, value)
    with pytest.raises(pytest.fail.Exception):
        tests.require_program()
