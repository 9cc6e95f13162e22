"""What ``make bench`` measures by its arguments."""

from __future__ import annotations

import subprocess
import sys

import pytest
from rich.progress import Progress

from bench import __main__
from bench.core import views
from bench.processes import ROOT, Measurement
from memory.context import registry

PROGRAMS = ("", ".loop", ".chaos", ".faults", ".soak", ".peers", ".job_queue")


@pytest.mark.parametrize("program", [f"bench{name}" for name in PROGRAMS])
def test_the_programs_start_as_the_documents_start_them(program: str):
    """In a process of their own: here Django is set up already."""
    words = [sys.executable, "-m", program, "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage:")


def test_all_but_the_longest_is_measured_unless_a_part_is_named():
    assert __main__.parse_options([]).parts == [
        p for p in __main__.TITLES if p != "chaos"
    ]
    assert __main__.parse_options(["chaos"]).parts == ["chaos"]
    assert __main__.parse_options(["core", "--play", "5"]).parts == ["core"]


def test_a_part_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        __main__.parse_options(["cores"])
    assert "use fleet or core or turns or memory or surfaces" in capsys.readouterr().err


def test_only_the_named_part_is_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "TIME_TARGETS", {2: 1.0})
    times = Measurement(1, views.measure_times)
    monkeypatch.setattr(__main__, "MEASUREMENTS", {"core": (times,), "pages": ()})
    with Progress(disable=True) as progress:
        found, processes = __main__.measure_parts(["core"], 60, progress)
    written = __main__.run_document(found, processes)
    assert {figure["part"] for figure in written["figures"]} == {"core"}
    names = [figure.name for figure in found["core"]]
    assert names == [f"assemble 2 messages: {name}" for name in registry.list_names()]
    assert processes == []
