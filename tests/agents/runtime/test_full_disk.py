"""A database that has no room: what the turn makes of it, and what people are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

from agents.models import Mysis, Turn
from agents.runtime import recovery
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.agents.runtime.logs import assert_paired, in_db, log
from tests.fakes.openai import FakeProvider
from tests.programs import Program

REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device'
  USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON memory_memory EXECUTE FUNCTION refuse();
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON agents_turn EXECUTE FUNCTION refuse();
"""
ALLOW = """
DROP TRIGGER full_disk ON memory_memory; DROP TRIGGER full_disk ON agents_turn;
DROP FUNCTION refuse;
"""


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture
def full(transactional_db: Any) -> Iterator[None]:
    """The database answers as one does whose disk is full."""
    run(REFUSE)
    yield
    run(ALLOW)


def test_a_program_is_asked_to_come_again_and_told_why(
    admin_program: Program, ada: Mysis, full: None
):
    answer = admin_program.post(f"/myses/{ada.name}/message", {"text": "Hello."})
    assert answer.status_code == 503
    assert answer.json() == {
        "detail": "The database has no disk space left: free some. Try again in 5 s.",
        "code": "overloaded",
    }
    assert answer.headers["Retry-After"] == "5"


async def test_a_turn_that_finds_no_room_is_taken_up_when_there_is_some(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """Neither its answer nor its end could be written: it ends as interrupted."""
    await in_db(run)(REFUSE)
    try:
        with pytest.raises(OperationalError, match="No space left"):
            await fly(eve, "start")
    finally:
        await in_db(run)(ALLOW)
    await in_db(lambda: run("DELETE FROM procrastinate_jobs"))()
    await recovery.reconcile()
    flown = await fly(await refreshed(eve), "interrupted")
    assert (flown.state, flown.last_error) == ("running", "")
    outcomes = await in_db(list)(Turn.objects.values_list("outcome", flat=True))
    assert outcomes[-1] == "done"
    assert_paired(await in_db(log)(eve))
