"""What processes are started with, what they report, and what they weigh."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from django.conf import LazySettings

from bench import processes
from bench.figures import Aim, Figure, Step
from bench.processes import (
    Process,
    clean_environment,
    measure_memory,
    measurement_in_process,
    name_process,
    parse_pss,
    run_function,
    sum_by_name,
)

ROLLUP = """\
55d0c0000000-7ffd9c1d1000 ---p 00000000 00:00 0                          [rollup]
Rss:               10240 kB
Pss:                7001 kB
Pss_Dirty:          5120 kB
Pss_Anon:           4096 kB
"""


def test_the_pss_line_is_found_among_its_likes():
    assert parse_pss(ROLLUP) == 7001 * 1024


def test_a_rollup_without_a_pss_is_refused():
    with pytest.raises(ValueError, match="Pss"):
        parse_pss("Rss: 12 kB\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/x/python", "manage.py", "up", "--port=0"], "up"),
        (["/x/python", "/y/manage.py", "procrastinate", "worker"], "worker"),
        (["/x/python", "/y/manage.py", "sandbox", "--port=1"], "sandbox"),
        (["/x/python", "-m", "sandbox.game", "--port=1"], "sandbox"),
        (["/x/python", "-m", "daphne", "--fd=3"], "web"),
        (["/x/bin/postgres", "-D", "/data"], "PostgreSQL"),
        (["postgres: checkpointer "], "PostgreSQL"),
        (["/usr/bin/other"], "other"),
        ([], ""),
    ],
)
def test_a_process_is_named_by_its_command_line(words: list[str], name: str):
    assert name_process(words) == name


def test_processes_are_summed_by_name():
    found = sum_by_name([Process(1, "a", 10), Process(2, "b", 1), Process(3, "a", 5)])
    assert found == {"a": (2, 15), "b": (1, 1)}


def test_this_very_process_has_a_footprint():
    own = [one for one in measure_memory([os.getpid()]) if one.pid == os.getpid()]
    assert own[0].pss > 1024 * 1024


def test_a_measured_program_sees_its_own_folder_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path
):
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/x")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    found = clean_environment(tmp_path)
    assert found["ZOEA_DATA"] == str(tmp_path)
    assert found["DATABASE_URL"] == ""
    assert "OPENAI_API_KEY" not in found


def measure_nothing(step: Step, *words: str) -> list[Figure]:
    """What another process calls, below."""
    step("One step")
    return [Figure("nothing", 1.0, "s", aim=Aim.AT_LEAST, note=" ".join(words))]


def fail(step: Step) -> None:
    step("One step")
    raise SystemExit(3)


def test_a_function_of_another_process_gives_steps_and_a_result(tmp_path: Path):
    steps: list[str] = []
    target = f"{__name__}:measure_nothing"
    (found,) = run_function(target, tmp_path, steps.append, "a", "b")
    assert (found["name"], found["note"], steps) == ("nothing", "a b", ["One step"])
    (figure,) = measurement_in_process(target, 1).measure(steps.append)
    assert figure == Figure("nothing", 1.0, "s", aim=Aim.AT_LEAST)
    assert figure.aim is Aim.AT_LEAST


def test_a_function_that_ends_without_a_result_is_told(tmp_path: Path):
    with pytest.raises(RuntimeError, match="fail could not measure"):
        run_function(f"{__name__}:fail", tmp_path, lambda said: None)


def test_a_local_game_takes_every_session_at_once(
    settings: LazySettings, monkeypatch: pytest.MonkeyPatch
):
    """The limit of the real game, which settings begin with, holds back a fleet."""
    for name in ("SPACEMOLT_MCP_URL", "ZOEA_SECONDS_PER_TICK"):
        monkeypatch.setenv(name, "")
    settings.ZOEA_GAME_OPENINGS = 25
    settings.SPACEMOLT_MCP_URL = ""
    settings.ZOEA_SECONDS_PER_TICK = 10.0
    monkeypatch.setattr(processes, "_run_command", lambda *words: nullcontext())
    with processes.run_game(0.25):
        assert settings.ZOEA_GAME_OPENINGS == 0
        assert settings.SPACEMOLT_MCP_URL.startswith("http://127.0.0.1:")
