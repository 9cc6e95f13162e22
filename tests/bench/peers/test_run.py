"""The programs on a server: raw psycopg's in its process, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from bench.peers import __main__ as command
from bench.peers import environments
from bench.peers.environments import (
    PEERS,
    PLAIN,
    EnvironmentFailed,
    Peer,
    find_python,
)
from bench.peers.run import Bounds, Server, measure_peer
from bench.processes import ROOT

BY_NAME = {peer.name: peer for peer in PEERS}


@pytest.fixture
def server(db: None) -> Server:
    known = connection.settings_dict
    return Server(
        str(known["HOST"]),
        str(known["PORT"] or 5432),
        str(known["USER"]),
        str(known["PASSWORD"] or ""),
    )


@pytest.fixture
def said() -> list[str]:
    return []


def drop(server: Server, peer: Peer) -> None:
    with server.connect() as own:
        name = f"bench_{peer.name.replace('-', '_')}"
        own.execute(f"DROP DATABASE IF EXISTS {name}".encode())


@pytest.mark.parametrize("name", [PLAIN, "psycopg-search"])
def test_raw_psycopg_is_measured_in_a_database_of_its_own(
    name: str, server: Server, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = BY_NAME[name]
    try:
        row, cells = measure_peer(peer, server, Bounds([1_000], 0.2), said.append)
    finally:
        drop(server, peer)
    assert "failed" not in row and row["versions"]["psycopg"]
    assert said[-1].endswith("1,000 messages")
    found = {cell["cell"]: cell for cell in cells}
    assert {*found} == {"append", "context", "rare", "medium"}
    assert all(cell["ms"] > 0 for cell in cells)
    assert found["context"]["messages"] == 50
    assert (found["rare"]["messages"], found["medium"]["messages"]) == (3, 20)


def test_a_program_that_fails_is_told_in_every_cell(
    server: Server, said: list[str]
) -> None:
    peer = Peer("broken", "Broken", "no_such_program", "nothing")
    try:
        row, cells = measure_peer(peer, server, Bounds([100, 1_000]), said.append)
    finally:
        drop(server, peer)
    assert "No module named" in row["failed"] and "\n" not in row["failed"]
    assert len(cells) == 4
    assert all("(at 100 messages)" in cell["error"] for cell in cells)


def test_a_program_that_takes_too_long_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise subprocess.TimeoutExpired("python", 7)

    monkeypatch.setattr(subprocess, "run", never)
    peer = BY_NAME[PLAIN]
    try:
        row, _ = measure_peer(peer, server, Bounds([100], program=7), lambda _: None)
    finally:
        drop(server, peer)
    assert "fill took longer than 7 s (at 100 messages)" in row["failed"]


def test_an_environment_that_cannot_be_made_is_one_clear_error(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environments.FOLDER, str(tmp_path))
    calls: list[list[str]] = []

    def refuse(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(words)
        said = "ERROR: Could not find x\nERROR: No matching distribution found.\n\n"
        return subprocess.CompletedProcess(words, 1, "", said)

    monkeypatch.setattr(subprocess, "run", refuse)
    row, cells = measure_peer(BY_NAME["agno"], server, Bounds([100]), lambda _: None)
    assert len(calls) == 1
    assert row["failed"] == (
        "The environment of agno cannot be made (No matching distribution found): "
        "check the network, or name a folder with one in ZOEA_PEERS."
    )
    assert [cell["error"] for cell in cells] == [row["failed"]] * 2
    assert not (tmp_path / "agno").exists()
    with pytest.raises(EnvironmentFailed):
        find_python(BY_NAME["adk"])


def test_an_environment_is_made_once_and_anew_for_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(environments.FOLDER, raising=False)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    made: list[str] = []

    def make(name: str, folder: Path) -> None:
        made.append(name)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").touch()

    monkeypatch.setattr(environments, "make_environment", make)
    python = find_python(BY_NAME["agno"])
    assert python == tmp_path.resolve() / ".venv" / "peers" / "agno" / "bin" / "python"
    find_python(BY_NAME["agno"])
    assert made == ["agno"]
    monkeypatch.setitem(environments.REQUIREMENTS, "agno", ("agno==9",))
    find_python(BY_NAME["agno"])
    assert made == ["agno", "agno"]


def test_every_peer_has_a_program_and_pinned_versions() -> None:
    folder = Path(environments.__file__).parent
    for peer in PEERS:
        assert (folder / f"{peer.program}.py").exists()
        wanted = environments.REQUIREMENTS.get(peer.environment, ())
        assert bool(wanted) == bool(peer.environment)
        assert all("==" in each for each in wanted)


def test_what_is_named_is_measured_beside_raw_psycopg(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.choose_peers([]) == list(PEERS)
    names = [peer.name for peer in command.choose_peers(["zoea"])]
    assert names == [PLAIN, "zoea"]
    assert command.parse_options(["--lengths", "1_000,100"]).lengths == [100, 1_000]
    for words in (["--only", "nobody"], ["--lengths", "7"]):
        with pytest.raises(SystemExit):
            command.parse_options(words)
    assert "nothing is called nobody" in capsys.readouterr().err


def test_the_program_starts_as_the_makefile_starts_it() -> None:
    """In a process of its own: here Django is set up already."""
    words = [sys.executable, "-m", "bench.peers", "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: make bench-peers")
