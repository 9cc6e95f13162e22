"""The programs on a server of their own: raw psycopg's, and what goes wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.peers import environments, run
from bench.peers.environments import PEERS, PLAIN, EnvironmentFailed, Peer, find_python
from bench.peers.run import Bounds, build_tables, choose_peers, measure_peers

BY_NAME = {peer.name: peer for peer in PEERS}


def test_peers_are_held_against_raw_psycopg_and_who_fails_says_why():
    broken = Peer("broken", "Broken", "no_such_program", "nothing")
    document = measure_peers(
        [BY_NAME[PLAIN], broken], Bounds([1_000], 0.2), lambda said: None
    )
    plain, failed = document["peers"]
    assert plain["versions"]["psycopg"]
    assert "No module named" in failed["failed"] and "\n" not in failed["failed"]
    found = {cell["cell"]: cell for cell in document["cells"] if cell["peer"] == PLAIN}
    assert {*found} == {"append", "context", "rare", "medium"}
    assert all(cell["ms"] > 0 for cell in found.values())
    assert found["context"]["messages"] == 50
    assert (found["rare"]["messages"], found["medium"]["messages"]) == (3, 20)
    append, context, rare, *_ = build_tables(document)
    assert append.rows[0][1].startswith("1.0 x, ")
    assert append.rows[1][1] == "failed [1]"
    assert append.notes[0].startswith("[1] Broken: fill of 1,000 messages failed")
    assert context.rows[0][1].endswith(", 50")
    assert rare.rows[1][1] == "none"


def test_an_environment_that_cannot_be_made_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environments.FOLDER, str(tmp_path))

    def refuse(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        said = "ERROR: Could not find x\nERROR: No matching distribution found.\n\n"
        return subprocess.CompletedProcess(words, 1, "", said)

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(EnvironmentFailed) as told:
        find_python(BY_NAME["agno"])
    assert str(told.value) == (
        "The environment of agno cannot be made (No matching distribution found): "
        "check the network, or name a folder with one in ZOEA_PEERS."
    )
    assert not (tmp_path / "agno").exists()


def test_every_peer_has_a_program_and_pinned_versions() -> None:
    folder = Path(environments.__file__).parent
    for peer in PEERS:
        assert (folder / f"{peer.program}.py").exists()
        wanted = environments.REQUIREMENTS.get(peer.environment, ())
        assert bool(wanted) == bool(peer.environment)
        assert all("==" in each for each in wanted)
    assert [peer.name for peer in choose_peers(["zoea"])] == [PLAIN, "zoea"]
    assert run.TITLES
