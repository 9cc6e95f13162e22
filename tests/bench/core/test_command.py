"""``manage.py assemble`` as a process: what it weighs, without its parent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.core.command import (
    MANAGE,
    Run,
    command_figures,
    measure_run,
    write_document,
)
from bench.core.peak import parse_peak
from bench.logs import make_log


def test_the_peak_line_is_found():
    assert parse_peak("VmPeak:\t 9 kB\nVmHWM:\t    7001 kB\nVmRSS:\t 5 kB\n") == 7169024
    with pytest.raises(ValueError, match="VmHWM"):
        parse_peak("VmRSS: 12 kB\n")


def test_a_program_is_weighed_and_its_parent_is_not(tmp_path: Path):
    file = tmp_path / "log.json"
    write_document(make_log(40), "window", file)
    assert len(json.loads(file.read_text())["messages"]) == 40
    heavy = bytearray(200_000_000)
    run = measure_run([MANAGE, "assemble", str(file)], tmp_path)
    plain = measure_run(["json", str(file)], tmp_path)
    assert 1_000_000 < plain.peak < run.peak < len(heavy)


def test_the_medians_of_runs_are_told():
    found = [Run(3, 30), Run(1, 10), Run(2, 20)]
    memory, seconds = command_figures("tiered", found, [Run(1, 5)])
    assert (memory.value, memory.ratio) == (20, 4)
    assert (seconds.value, seconds.ratio) == (2, 2)
