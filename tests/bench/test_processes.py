"""What measured programs see, and functions in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.figures import Step
from bench.processes import clean_environment, measure_memory, run_function


def test_this_very_process_has_a_footprint():
    own = [one for one in measure_memory([os.getpid()]) if one.pid == os.getpid()]
    assert own[0].pss > 1024 * 1024


def test_a_measured_program_sees_its_own_folder_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/x")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    found = clean_environment(tmp_path)
    assert found["ZOEA_DATA"] == str(tmp_path)
    assert found["DATABASE_URL"] == ""
    assert "OPENAI_API_KEY" not in found


def measure_nothing(step: Step, *words: str) -> list[str]:
    """What another process calls, below."""
    step("One step")
    return list(words)


def fail(step: Step) -> None:
    step("One step")
    raise SystemExit(3)


def test_a_function_of_another_process_gives_steps_and_a_result(tmp_path: Path):
    steps: list[str] = []
    target = f"{__name__}:measure_nothing"
    assert run_function(target, tmp_path, steps.append, "a", "b") == ["a", "b"]
    assert steps == ["One step"]


def test_a_function_that_ends_without_a_result_is_told(tmp_path: Path):
    with pytest.raises(RuntimeError, match="fail could not measure"):
        run_function(f"{__name__}:fail", tmp_path, lambda said: None)
