"""Replays that are kept: their job, progress, cancelling, lost workers, and the doors."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import events
from agents.actions.base import ActionError
from agents.lab import kept_replays, replay_job, table
from agents.lab.policies import read_policies
from agents.models import Event, Mysis, Replay, ReplayCall
from agents.retention import plan_steps
from memory.models import AuditEntry
from tests.agents.lab.histories import make_pilot, record_turn
from tests.agents.runtime.workers import Workers
from tests.programs import Program

WINDOW = {"strategy": "window", "options": {"window": 4}}
PATIENCE = 120.0
State = Replay.State


@pytest.fixture
def ada(db: None) -> Mysis:
    """One with three recorded calls."""
    mysis = make_pilot(strategy="tiered")
    record_turn(mysis, calls=3)
    return mysis


def start(mysis: Mysis | None, *policies: Any, **asked: Any) -> Replay:
    given = read_policies(policies or (WINDOW,))
    return kept_replays.start_replay(policies=given, by="test", mysis=mysis, **asked)


def work(replay: Replay) -> Replay:
    """Do what its job does, here."""
    replay.refresh_from_db()
    replay_job.run_replay(replay.pk, replay.job_id or 0)
    replay.refresh_from_db()
    return replay


def list_told() -> list[tuple[str, int, int]]:
    """State and progress, as the events tell."""
    read = events.read_after(0, kinds=["replay.changed"])
    return [tuple(x["data"][n] for n in ("state", "done", "total")) for x in read]


@pytest.mark.django_db(transaction=True)
def test_a_job_stores_rows_and_says_how_far_it_is(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(replay_job, "PULSE", 0.0)
    replay = start(ada, WINDOW, "of Ada")
    assert (replay.state, replay.total) == (State.QUEUED, 3)
    [job] = ProcrastinateJob.objects.all()
    assert (job.task_name, job.queue_name) == (kept_replays.TASK, "replays")
    done = work(replay)
    assert (done.state, done.done, done.error) == (State.DONE, 3, "")
    assert done.report["equal"] == 3
    rows = list(replay.calls.order_by("place"))
    assert [row.place for row in rows] == [1, 2, 3]
    assert {name for row in rows for name in row.figures} == {"own", "window", "of Ada"}
    assert list_told() == [
        ("queued", 0, 3), ("running", 0, 3),
        *(("running", n, 3) for n in (1, 2, 3)), ("done", 3, 3),
    ]  # fmt: skip
    # Whoever has the job again finds nothing to do.
    replay_job.run_replay(replay.pk, replay.job_id or 0)
    assert replay.calls.count() == 3


def test_cancelling_leaves_nothing(ada: Mysis, monkeypatch: pytest.MonkeyPatch):
    """Also where it is in the midst of its work."""
    waiting = start(ada)
    kept_replays.delete_replay(waiting, by="test")
    assert not ProcrastinateJob.objects.exists()
    monkeypatch.setattr(replay_job, "PULSE", 0.0)
    replay, read = start(ada), replay_job.read_calls

    def cancel_at_the_second(row: Replay) -> Iterator[Any]:
        for number, call in enumerate(read(row)):
            if number == 1:
                assert row.calls.count() == 1
                kept_replays.delete_replay(row, by="test")
            yield call

    monkeypatch.setattr(replay_job, "read_calls", cancel_at_the_second)
    replay_job.run_replay(replay.pk, replay.job_id or 0)
    assert not Replay.objects.exists()
    assert not ReplayCall.objects.exists()
    with pytest.raises(ActionError) as refused:
        kept_replays.delete_replay(replay, by="test")
    assert refused.value.status == 404


def test_one_that_fails_says_so_and_keeps_no_rows(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(replay_job, "PULSE", 0.0)
    read = replay_job.read_calls

    def break_off(row: Replay) -> Iterator[Any]:
        yield next(read(row))
        raise RuntimeError("no luck")

    monkeypatch.setattr(replay_job, "read_calls", break_off)
    failed = work(start(ada))
    assert (failed.state, failed.error) == (State.FAILED, replay_job.FAILED)
    assert not ReplayCall.objects.exists()


def test_a_lost_replay_begins_anew_but_not_for_ever(ada: Mysis):
    replay = start(ada)
    assert kept_replays.resume_lost() == 0, "its job waits"
    lost = replay.job_id or 0
    for _ in range(kept_replays.MOST_ATTEMPTS - 1):
        ProcrastinateJob.objects.all().delete()
        assert kept_replays.resume_lost() == 1
    # The process of the first job lives: it has nothing to say any more.
    replay_job.run_replay(replay.pk, lost)
    replay.refresh_from_db()
    assert (replay.state, replay.done) == (State.QUEUED, 0)
    ProcrastinateJob.objects.all().delete()
    kept_replays.resume_lost()
    replay.refresh_from_db()
    assert (replay.state, replay.error) == (State.FAILED, kept_replays.LOST)


@pytest.mark.django_db(transaction=True)
def test_a_killed_worker_s_replay_is_done_by_the_next(ada: Mysis, tmp_path: Path):
    with psycopg.connect(**events.get_connection_parameters()) as other:
        replay = start(ada)
        # The process that works on it waits for this row.
        other.execute("SELECT 1 FROM agents_replay FOR UPDATE")
        with Workers(tmp_path, "http://127.0.0.1:9/mcp") as workers:
            first = workers.start()
            [child] = await_value(lambda: psutil.Process(first).children())
            workers.kill(first)
            child.kill()
            other.rollback()
            workers.start()
            await_value(lambda: Replay.objects.filter(state=State.DONE))
    replay.refresh_from_db()
    assert (replay.attempts, replay.done, replay.calls.count()) == (2, 3, 3)


def await_value(find: Callable[[], Any]) -> Any:
    """What it finds, as soon as that is something."""
    until = time.monotonic() + PATIENCE
    while not (found := find()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def test_the_oldest_finished_ones_make_room(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kept_replays, "MOST_KEPT", 2)
    monkeypatch.setattr(kept_replays, "MOST_UNDER_WAY", 1)
    first, second = work(start(ada)), work(start(ada))
    third = start(ada)
    assert set(Replay.objects.all()) == {second, third}, first
    gone = Event.objects.filter(data__state="deleted")
    assert [one.data["replay"] for one in gone] == [first.pk]
    with pytest.raises(ActionError) as refused:
        start(ada)
    assert refused.value.status == 409


def test_prune_takes_finished_ones_of_long_ago(ada: Mysis):
    work(start(ada))
    waiting = start(ada)
    steps = {step.what: step for step in plan_steps(timezone.now())}
    assert list(steps["finished replays"].removal) == [1]
    assert list(Replay.objects.all()) == [waiting]


def test_a_label_takes_groups_and_tags(ada: Mysis):
    brahe = make_pilot("Brahe", strategy="window")
    record_turn(brahe, calls=1)
    Mysis.objects.filter(pk=ada.pk).update(group="miners")
    Mysis.objects.filter(pk=brahe.pk).update(tags=["miners", "far"])
    assert [start(None, label=word).total for word in ("miners", "far")] == [4, 1]
    assert start(None).total == 4
    found = work(start(None, label="miners"))
    owners = found.calls.order_by("place").values_list("mysis_id", flat=True)
    assert list(owners) == [ada.pk, *[ada.pk] * 2, brahe.pk]


# --- The doors


@pytest.mark.django_db(transaction=True)
def test_it_is_asked_for_followed_read_and_deleted_over_rest(
    ada: Mysis, operator_program: Program, viewer_program: Program
):
    assert viewer_program.get("/replays").json() == {"items": [], "next": None}
    inline = {"strategy": "tiered", "budget": {"tokens": 9000, "reserve": 1000}}
    body = {"mysis": "Ada", "since": "7d", "policies": ["of Ada", inline, inline]}
    assert viewer_program.post("/replays", body).status_code == 403
    answer = operator_program.post("/replays", body)
    assert answer.status_code == 202
    number = answer.json()["id"]
    replay = work(Replay.objects.get(pk=number))
    shown = viewer_program.get(f"/replays/{number}").json()
    assert (shown["state"], shown["done"], shown["total"]) == ("done", 3, 3)
    own, *others = shown["policies"]
    assert (own["name"], own["strategy"], own["requests"]) == ("own", None, 3)
    assert [one["name"] for one in others] == ["of Ada", "tiered", "tiered 2"]
    assert others[1]["budget"] == {"tokens": 9000, "reserve": 1000}
    page = viewer_program.get(f"/replays/{number}/calls?limit=2").json()
    assert [row["place"] for row in page["items"]] == [1, 2]
    rest = viewer_program.get(f"/replays/{number}/calls?cursor={page['next']}").json()
    assert [row["call"] for row in rest["items"]] == [3]
    assert (rest["next"], rest["items"][0]["differs"]) == (None, None)
    assert rest["items"][0]["figures"]["own"]["pins"] == [1, 1]
    told = "".join(table.write_table(replay))
    answer = viewer_program.get(f"/replays/{number}/calls?format=csv")
    assert read_stream(answer) == told
    header, *lines = csv.reader(io.StringIO(told))
    assert (tuple(header), len(lines)) == (table.COLUMNS, 12)
    assert [line[5] for line in lines[:4]] == ["own", "of Ada", "tiered", "tiered 2"]
    assert viewer_program.delete(f"/replays/{number}").status_code == 403
    assert operator_program.delete(f"/replays/{number}").status_code == 204
    assert viewer_program.get(f"/replays/{number}").status_code == 404
    acts = AuditEntry.objects.filter(object=f"replay:{number}").order_by("pk")
    assert [act.action for act in acts] == [
        "replay.start", "replay.download", "replay.delete",
    ]  # fmt: skip


def read_stream(answer: Any) -> str:
    async def collect() -> bytes:
        return b"".join([piece async for piece in answer])

    return async_to_sync(collect)().decode()


def test_bad_input_names_field_and_remedy(ada: Mysis, operator_program: Program):
    for change, words in (
        ({"mysis": "Nobody"}, "'Nobody'"),
        ({"label": "miners"}, "label: leave it out"),
        ({"mysis": None, "label": "none"}, "label: no Mysis"),
        ({"since": "yesterday"}, "since: give a moment"),
        ({"since": "2126-01-01T00:00:00Z"}, "since: give a moment of the past"),
        ({"policies": []}, "policies: "),
        ({"policies": [WINDOW] * 9}, "policies: "),
        ({"policies": ["none"]}, "policies[0]: there is no policy 'none': give one"),
        ({"policies": ["of Ada", {"strategy": "dreams"}]}, 'policies[1]: strategy: "'),
        (
            {"policies": [WINDOW | {"options": {"window": "x"}}]},
            "policies[0]: options.window",
        ),
        (
            {"policies": [WINDOW | {"budget": {"tokens": 5, "reserve": 5}}]},
            "policies[0].budget_tokens: give 1 to",
        ),
    ):
        body: dict[str, Any] = {"mysis": "Ada", "policies": [WINDOW], **change}
        answer = operator_program.post("/replays", body)
        assert answer.status_code in (404, 422)
        assert words in answer.json()["detail"]
    assert not Replay.objects.exists()


def test_the_command_replays_at_once(ada: Mysis, tmp_path: Path):
    file, out = tmp_path / "found.csv", io.StringIO()
    words = ["replay", "Ada", "--policies", "of Ada", "--strategies", "window,mask"]
    call_command(*words, "--csv", str(file), stdout=out)
    lines = out.getvalue().splitlines()
    names = [line.strip().split("  ")[0] for line in lines[1:5]]
    assert names == ["own", "of Ada", "window", "mask"]
    assert lines[5].startswith("3 of 3 calls came out under their own policy as they")
    assert "given the summaries that were recorded" in lines[6]
    header, *rows = csv.reader(file.open())
    assert (tuple(header), len(rows)) == (table.COLUMNS, 12)
    entry = AuditEntry.objects.get(action="replay.download")
    assert (entry.object, entry.who[:12]) == ("mysis:Ada", "command line")
    out = io.StringIO()
    call_command("replay", "Ada", "--strategies", "window", "--json", stdout=out)
    assert json.loads(out.getvalue())["equal"] == 3
    assert not Replay.objects.exists()


def test_the_command_refuses_in_one_line(ada: Mysis):
    for words, said in (
        (["Nobody", "--strategies", "window"], "There is no Mysis 'Nobody'"),
        (["Ada"], "policies: give 1 to 8 of them"),
        (["Ada", "--policies", "none"], "policies[0]: there is no policy"),
        (["Ada", "--strategies", "dreams"], 'strategy: "dreams" is unknown'),
        (["Ada", "--strategies", "mask", "--since", "never"], "since: give a moment"),
        (["Ada", "--strategies", "mask", "--csv", "/none/x"], "/none/x: No such file"),
    ):
        with pytest.raises(CommandError) as refused:
            call_command("replay", *words)
        assert refused.value.returncode == 2
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)
