"""Which tests are tried once again where they fail."""

from __future__ import annotations

import os
import signal

import pytest

from tests.commands import Commands
from tests.conftest import find_end


def is_tried_again(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("flaky") is not None


def test_one_that_meets_nobody_fails_at_once(request: pytest.FixtureRequest) -> None:
    assert not is_tried_again(request)


def test_one_with_a_database_is_tried_again(
    db: None, request: pytest.FixtureRequest
) -> None:
    assert is_tried_again(request)


@pytest.mark.real_time
def test_one_that_says_so_is_tried_again(request: pytest.FixtureRequest) -> None:
    assert is_tried_again(request)


def test_one_that_asks_for_other_programs_is_tried_again(
    commands: Commands, request: pytest.FixtureRequest
) -> None:
    assert is_tried_again(request)


@pytest.mark.real_time
def test_a_shared_program_that_has_ended_is_known_by_it() -> None:
    with Commands() as shared:
        assert shared.run("--version").status == 0
        assert find_end(shared) is None
        os.kill(shared.pid, signal.SIGKILL)
        os.waitid(os.P_PID, shared.pid, os.WEXITED | os.WNOWAIT)
        assert "si_status=9" in str(find_end(shared))
    assert find_end("no program") is None
