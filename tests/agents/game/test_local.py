"""The local game is the one of a running `up`, and a worker by hand plays no other."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from pytest_django import Settings

from agents.game import local
from agents.game.local import read_running_game, speaks_mcp
from agents.management.commands.procrastinate import GameMovedError, _refuse_moved_game
from sandbox.game.testing import SandboxServer
from tests.agents.alerts.receiver import Receiver

GAME = "http://127.0.0.1:9/mcp"


def write_record(data: Path, pid: int) -> None:
    record = {"pid": pid, "url": "http://x", "game": GAME, "tick": 0.5}
    (data / "up.lock").write_text(json.dumps(record))


def test_only_a_program_that_runs_has_a_game(tmp_path: Path) -> None:
    assert read_running_game(tmp_path) == ("", None)
    write_record(tmp_path, os.getpid())
    assert read_running_game(tmp_path) == (GAME, 0.5)
    with subprocess.Popen(["true"]) as ended:
        pass
    write_record(tmp_path, ended.pid)
    assert read_running_game(tmp_path) == ("", None)
    (tmp_path / "up.lock").write_text("[]")
    assert read_running_game(tmp_path) == ("", None)


def test_what_listens_and_speaks_something_else_is_no_game(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "PATIENCE", 60.0)
    with SandboxServer() as game:
        assert speaks_mcp(game.url)
    assert not speaks_mcp(game.url)
    with Receiver() as other:
        assert not speaks_mcp(other.url)


@pytest.mark.parametrize("named", [True, False])
def test_a_worker_by_hand_ends_when_the_game_has_moved(
    tmp_path: Path, settings: Settings, named: bool
) -> None:
    settings.ZOEA_DATA, settings.ZOEA_GAME_NAMED = tmp_path, named
    settings.SPACEMOLT_MCP_URL = GAME
    write_record(tmp_path, os.getpid())
    _refuse_moved_game()
    settings.SPACEMOLT_MCP_URL = "http://127.0.0.1:8/mcp"
    with nullcontext() if named else pytest.raises(GameMovedError, match=GAME):
        _refuse_moved_game()
