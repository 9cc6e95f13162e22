"""The table of faults, its place in the documents, and what may be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.faults import __main__ as command
from bench.faults.scenes import SCENES, Trial
from bench.tables import TableData


@pytest.fixture
def table() -> TableData:
    """Two faults: one of three times that cost nothing, one that lost something."""
    calm, costly = SCENES[:2]
    return command.build_table(
        {
            calm: [Trial(seconds, f"seen {seconds:g}") for seconds in (9.0, 1.0, 2.0)],
            costly: [Trial(4.0, "503", ("a turn",)), Trial(6.0, lost=("an event",))],
        }
    )


def test_a_row_tells_what_was_seen_last_all_that_was_lost_and_the_times(
    table: TableData,
):
    assert table.rows == [
        [SCENES[0].title, "seen 2", "nothing", "2.0 s", "9.0 s"],
        [SCENES[1].title, "", "a turn; an event", "5.0 s", "6.0 s"],
    ]


def test_the_page_of_the_documents_gets_the_table_and_keeps_the_rest(
    table: TableData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = command.PAGE.read_text()
    monkeypatch.setattr(command, "PAGE", page := tmp_path / "benchmarks.md")
    page.write_text(text)
    command.write_docs(table, repeats=3)
    written = page.read_text()
    before, _, rest = text.partition(command.BEGIN)
    assert written.startswith(before)
    assert written.endswith(rest.partition(command.END)[2])
    found = written.partition(command.BEGIN)[2].partition(command.END)[0]
    assert f"| {SCENES[0].title} | seen 2 | nothing | 2.0 s | 9.0 s |" in found
    assert "3 times each" in found


def test_all_faults_happen_unless_some_are_named(capsys: pytest.CaptureFixture[str]):
    assert command.parse_options([]).scenes == []
    options = command.parse_options(["clock", "behind", "--repeats", "1"])
    assert (options.scenes, options.repeats) == (["clock", "behind"], 1)
    with pytest.raises(SystemExit):
        command.parse_options(["clocks"])
    told = capsys.readouterr().err
    assert "no fault is called clocks: use postgres or away or " in told


def test_to_ask_for_a_disk_of_its_own_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch,
):
    before = Path("/proc/mounts").read_text()
    command.can_mount()
    assert Path("/proc/mounts").read_text() == before
    monkeypatch.setenv("PATH", "")
    assert not command.can_mount(), "there is no mount to be run"
