"""A database that is lost at the worst moments of a turn."""

from __future__ import annotations

import pytest
from django.db import connection

from agents.models import Mysis
from memory import calibration
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import assert_paired, in_db, log


def cut_off(*_: object, **__: object) -> None:
    """End this thread's connection from the server's side, as a crash does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


async def test_nothing_is_done_in_the_game_that_the_log_does_not_tell(
    ada: Mysis, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calibration, "learn_factor", cut_off)
    await fly(ada, "start")
    done = [write.tool for each in sandbox.writes().values() for write in each]
    rows = await in_db(log)(ada)
    assert_paired(rows)
    told = [row.tool_name for row in rows if row.role == "tool"]
    assert done
    assert set(done) <= set(told)
