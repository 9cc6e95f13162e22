"""While a deploy lasts: a worker of the landed release beside one of now."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from django.db import connection

from agents import actions
from agents.models import Mysis, Turn
from bench.processes import ROOT, clean_environment, database_url
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.logs import assert_paired, log
from tests.required import require
from tests.upgrade.landed import LANDED, missing_history, unpack
from tests.zoea.running import eventually

MISSING = missing_history(LANDED)
FLEET, TICK = 3, 0.3
WORKER = ("procrastinate", "worker")
SEEN = """
SELECT DISTINCT worker_id, (args->>'mysis_id')::bigint FROM procrastinate_jobs
WHERE status = 'doing' AND task_name LIKE '%%take_turn'
"""

pytestmark = [
    pytest.mark.usefixtures("history"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def history() -> None:
    """The program of before is read from it."""
    require(not MISSING, MISSING)


@contextmanager
def run_worker(tree: Path, game: str, output: Path) -> Iterator[None]:
    """A worker of the program in a folder; it ends as it is asked to."""
    told = {"DATABASE_URL": database_url(), "SPACEMOLT_MCP_URL": game}
    told |= {"ZOEA_SECONDS_PER_TICK": str(TICK), "ZOEA_SECRET_KEY": "of both"}
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "manage.py", *WORKER],
            cwd=tree,
            env=clean_environment(output.parent) | told,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(120)


def list_hands() -> set[tuple[int, int]]:
    """Which worker is in a turn of which Mysis."""
    with connection.cursor() as cursor:
        cursor.execute(SEEN)
        return set(cursor.fetchall())


def see_hands(wanted: int) -> set[tuple[int, int]]:
    """Which worker has been in a turn of which Mysis, once so many pairs were seen."""
    seen: set[tuple[int, int]] = set()

    def all_seen() -> bool:
        seen.update(list_hands())
        return len(seen) >= wanted

    assert eventually(all_seen), seen
    return seen


def test_both_take_turns_of_every_mysis_and_lose_none(tmp_path: Path) -> None:
    unpack(LANDED, tmp_path / "before")
    fleet = [actions.create_mysis(name=f"Of two {n}x", by="test") for n in range(FLEET)]
    outputs = [tmp_path / "before.log", tmp_path / "now.log"]
    with SandboxServer(tick=TICK) as game, ExitStack() as workers:
        for tree, output in zip((tmp_path / "before", ROOT), outputs, strict=True):
            workers.enter_context(run_worker(tree, game.url, output))
        for mysis in fleet:
            actions.start_mysis(mysis=mysis, by="test")
        seen = see_hands(2 * FLEET)
        for mysis in fleet:
            actions.stop_mysis(mysis=mysis, by="test")
        assert eventually(lambda: not list_hands())
    assert len({worker for worker, _ in seen}) == 2
    assert set(Mysis.objects.values_list("state", "last_error", "lost_turns")) == {
        ("stopped", "", 0)
    }
    for mysis in fleet:
        turns = Turn.objects.filter(mysis=mysis).order_by("number")
        numbers = list(turns.values_list("number", flat=True))
        assert numbers == list(range(1, len(numbers) + 1))
        *flown, last = turns
        assert {(turn.outcome, turn.error) for turn in flown} <= {("done", "")}
        assert last.outcome in {"done", "stopped", "interrupted"}
        assert_paired(log(mysis))
    for output in outputs:
        assert "Traceback" not in output.read_text(), output.read_text()
