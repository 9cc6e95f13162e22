"""Data folder, key and logs are for their owner alone."""

from __future__ import annotations

import os
import resource
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zoea import files
from zoea.settings import load_keys
from zoea.supervise import programs, run
from zoea.supervise.programs import Program

# As root the database server, which is somebody else, passes through the data folder.
FOLDER = 0o711 if os.geteuid() == 0 else 0o700


@pytest.fixture(autouse=True)
def _open_handed() -> Iterator[None]:
    """A file that is made without a mode of its own may be read by all."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_data_folder_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    run.claim_folder(data).release()
    assert mode(data) == 0o700
    assert mode(data / "up.lock") == 0o600


def test_what_was_open_before_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o777)
    key = data / "secret.key"
    key.write_text("kept")
    assert mode(key) == 0o666
    assert load_keys("", data) == (["kept"], True)
    assert (mode(data), mode(key)) == (FOLDER, 0o600)


def test_a_folder_that_all_share_stays_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    files.ensure_private_folder(shared)
    assert mode(shared) == 0o1777


def test_logs_are_closed_also_old_ones_and_rotated_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LOG_LIMIT", 10)
    log = tmp_path / "logs" / "web.log"
    said = "import sys; sys.stderr.write('a line of secrets')"
    program = Program("web", (sys.executable, "-c", said), log)
    program.run()
    program.shorten_log()
    old = log.with_suffix(".log.1")
    assert [mode(one) for one in (log.parent, log, old)] == [0o700, 0o600, 0o600]
    assert old.read_text() == "a line of secrets"
    assert log.read_text() == ""
    for one in (log, old):
        one.chmod(0o644)
    log.parent.chmod(0o755)
    program.run()
    assert [mode(one) for one in (log.parent, log, old)] == [FOLDER, 0o600, 0o600]


def test_a_long_log_is_emptied_though_there_is_no_room_to_keep_it(
    tmp_path: Path,
) -> None:
    """The bound on a file's size stands for the disk: the system refuses the bytes."""
    log = tmp_path / "web.log"
    log.write_bytes(bytes(100_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        files.shorten_log(log, 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert log.stat().st_size == 0
    assert files.name_old_log(log).stat().st_size == 0
