"""A replay by two processes gives what one gives, and leaves no process behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psutil
import psycopg
import pytest
from django.core.management import CommandError, call_command

from agents import events
from agents.lab import kept_replays, replay_job, two_processes
from agents.lab.policies import read_policies
from agents.lab.report import MISSING
from agents.lab.two_processes import (
    ReplayQuestion,
    SecondProcessError,
    replay_question,
)
from agents.models import Mysis, Replay
from bench.processes import ROOT, database_url
from tests.agents.lab.histories import make_pilot, record_turn
from tests.agents.lab.test_kept_replays import await_value

POLICIES = ("window", "mask", "coalesced")
PATIENCE = 120.0


@pytest.fixture
def ada(transactional_db: Any, monkeypatch: pytest.MonkeyPatch) -> Mysis:
    """One with three recorded calls, in a database that other processes find."""
    monkeypatch.setenv("DATABASE_URL", database_url())
    mysis = make_pilot(strategy="tiered")
    record_turn(mysis, calls=3)
    return mysis


@pytest.fixture
def question(ada: Mysis) -> ReplayQuestion:
    """The three calls under three policies."""
    policies = read_policies([{"strategy": name} for name in POLICIES])
    return ReplayQuestion(ada.pk, "", None, None, policies)


@pytest.fixture
def _always_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_processes, "WORTH_TWO", 1)


@pytest.fixture
def other(ada: Mysis) -> Iterator[psycopg.Connection]:
    """Another connection to the database."""
    with psycopg.connect(**events.get_connection_parameters()) as connection:
        yield connection
        connection.rollback()


def lock_calls(other: psycopg.Connection) -> None:
    """Let every process wait that wants to read recorded calls."""
    other.execute("LOCK TABLE memory_sentcontext IN ACCESS EXCLUSIVE MODE")


def find_second_process(first: int | None = None) -> psutil.Process | None:
    """The one that a process has started, None for this."""
    for one in psutil.Process(first).children():
        # What has ended has no command line.
        with suppress(psutil.NoSuchProcess):
            if "agents.lab" in one.cmdline():
                return one
    return None


def test_a_question_is_read_as_it_was_written(question: ReplayQuestion):
    since, until = (datetime(2026, 11, 27, 5, 0, 0, n, UTC) for n in (1, 999_999))
    asked = ReplayQuestion(None, "miners", since, until, question.policies)
    for one in (question, asked):
        assert ReplayQuestion.from_json(one.to_json()) == one


@pytest.mark.usefixtures("_always_two")
def test_two_processes_find_what_one_does(
    question: ReplayQuestion, monkeypatch: pytest.MonkeyPatch
):
    alone = list(question.replay())
    begun: list[ReplayQuestion] = []
    start = two_processes._start_second_process

    def note(there: ReplayQuestion) -> Any:
        begun.append(there)
        return start(there)

    monkeypatch.setattr(two_processes, "_start_second_process", note)
    both = list(replay_question(question, 3))
    assert [[policy.name for policy in there.policies] for there in begun] == [["mask"]]
    assert both == alone
    assert [list(call.figures) for call in both] == [["own", *POLICIES]] * 3


# --- Its end


@pytest.mark.usefixtures("_always_two")
def test_one_that_is_killed_is_missed(
    question: ReplayQuestion, other: psycopg.Connection
):
    lock_calls(other)
    with two_processes._start_second_process(question) as lines:
        second = find_second_process()
        assert second is not None
        second.kill()
        with pytest.raises(SecondProcessError, match="ended too early"):
            next(lines)
    assert not psutil.pid_exists(second.pid)


@pytest.mark.usefixtures("_always_two")
def test_the_command_says_in_one_line_that_it_was_lost(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(CommandError) as refused:
        call_command("replay", "Ada", "--strategies", "window,mask")
    assert refused.value.returncode == 2
    assert "ended too early: look into the log" in str(refused.value)
    assert "\n" not in str(refused.value)


# --- Kept replays


@pytest.fixture
def job(question: ReplayQuestion, other: psycopg.Connection) -> Iterator[Any]:
    """The process of a replay's job, which waits as its second one does."""
    replay = kept_replays.start_replay(policies=question.policies, by="test")
    # Two are worth it for so many.
    Replay.objects.update(total=two_processes.WORTH_TWO)
    lock_calls(other)
    words = [sys.executable, "-m", "agents.lab", str(replay.pk), str(replay.job_id)]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def test_one_ends_with_the_process_that_started_it(job: Any):
    second = await_value(lambda: find_second_process(job.pid))
    job.terminate()
    job.wait(PATIENCE)
    second.wait(PATIENCE)


def test_a_replay_that_loses_one_begins_anew(job: Any, other: psycopg.Connection):
    await_value(lambda: find_second_process(job.pid)).kill()
    other.rollback()
    assert job.wait(PATIENCE) == 1
    replay = Replay.objects.get()
    assert (replay.state, replay.attempts) == (Replay.State.RUNNING, 1)
    # Its job has ended without a word.
    Replay.objects.update(job_id=None)
    assert kept_replays.resume_lost() == 1
    replay.refresh_from_db()
    Replay.objects.update(total=4)
    replay_job.run_replay(replay.pk, replay.job_id or 0)
    replay.refresh_from_db()
    assert (replay.state, replay.attempts, replay.done) == (Replay.State.DONE, 2, 3)
    # Of the four that were counted.
    assert replay.report["unknown"] == {MISSING: 1}
