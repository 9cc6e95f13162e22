"""The other measures of the core: what they reckon, and what they start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import growth, merging, savings, timing
from bench.commands import HERE, MANAGE, Run, figures_of, run_of, write
from bench.logs import played
from bench.peak import peak_of
from bench.savings import CASES, READS, payload_tokens, reads


def test_tasks_take_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0)
    ran: list[str] = []
    tasks = {name: lambda name=name: ran.append(name) for name in "ab"}
    found = timing.medians(tasks, repeats=3)
    assert ran == [*"aabb", *"ab" * 3]
    assert list(found) == ["a", "b"] and min(found.values()) >= 0


def test_the_ship_is_read_so_many_times():
    for turns in (1, READS):
        log = reads(turns)
        calls = [call.name for message in log for call in message.tool_calls]
        assert calls.count("get_ship") == READS
        assert sum(
            message.origin != "tool" for message in log if message.role == "user"
        )
    assert sum(message.role == "user" for message in reads(1)) == 1
    assert sum(message.role == "user" for message in reads()) == READS + 1


def test_the_whole_payload_is_the_baseline():
    log = reads()
    whole = payload_tokens(log, "full", {})
    ships = sum(len(m.content) for m in log if m.role == "tool") / 4
    assert ships < whole
    assert all(payload_tokens(log, c.strategy, c.options) < whole for c in CASES)


def test_a_saving_is_told_as_a_ratio():
    figure = savings.figure_of(CASES[1])
    assert figure.baseline is not None and figure.value < figure.baseline
    assert figure.met is (figure.value / figure.baseline < savings.TARGET)


def test_growth_is_held_against_the_shorter_history():
    measured = {"seconds": {"100000": 0.03, "1000": 0.01}, "rows": {"100000": 121}}
    (figure,) = growth.figures_of({"window": measured})
    assert (figure.value, figure.baseline, figure.met) == (30, 10, False)
    assert figure.note == "121 rows read"


def test_a_merge_is_held_against_one_after_few_events():
    figures = merging.figures_of({"2000": 0.5, "10": 0.01, "1000": 0.1})
    assert [(f.value, f.baseline) for f in figures] == [(100, 10), (500, 10)]


def test_the_peak_line_is_found():
    assert peak_of("VmPeak:\t 9 kB\nVmHWM:\t    7001 kB\nVmRSS:\t 5 kB\n") == 7169024
    with pytest.raises(ValueError, match="VmHWM"):
        peak_of("VmRSS: 12 kB\n")


def test_a_program_is_weighed_and_its_parent_is_not(tmp_path: Path):
    file = tmp_path / "log.json"
    write(played(40), "window", file)
    assert len(json.loads(file.read_text())["messages"]) == 40
    heavy = bytearray(200_000_000)
    run = run_of([MANAGE, "assemble", str(file)], tmp_path)
    plain = run_of([str(HERE / "parsing.py"), str(file)], tmp_path)
    assert 1_000_000 < plain.peak < run.peak < len(heavy)


def test_the_medians_of_runs_are_told():
    found = [Run(3, 30), Run(1, 10), Run(2, 20)]
    memory, seconds = figures_of("tiered", found, [Run(1, 5)])
    assert (memory.value, memory.ratio) == (20, 4)
    assert (seconds.value, seconds.ratio) == (2, 2)
