"""What an operator may ask for, and what each request leaves behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob
from pytest_django import Settings

from agents import actions, context_inputs, events
from agents.actions import ActionError
from agents.models import Broadcast, Mysis, Prompt
from memory.models import Memory
from tests.factories import make_mysis

# Transactions for real: what is settled, and so readable, is part of the matter.
pytestmark = pytest.mark.django_db(transaction=True)


def kinds() -> list[str]:
    return [item["kind"] for item in events.read_after(0)]


def jobs() -> list[dict[str, Any]]:
    """The waiting jobs of the Myses of this test; the queue is never flushed."""
    waiting = ProcrastinateJob.objects.filter(
        status="todo",
        args__mysis_id__in=list(Mysis.objects.values_list("pk", flat=True)),
    )
    return list(waiting.values("id", "args"))


def refused(call: Any, **arguments: Any) -> ActionError:
    with pytest.raises(ActionError) as caught:
        call(**arguments)
    return caught.value


def test_a_new_mysis_is_idle_and_has_the_default_prompt():
    mysis = actions.create_mysis(name="Ada", pins=["never attack"], by="x")
    assert mysis.state == "idle"
    assert mysis.prompt is not None
    assert mysis.prompt.current is not None
    assert [pin.text for pin in mysis.pins.all()] == ["never attack"]
    assert "mysis.state" in kinds()


@pytest.mark.parametrize("name", ["", "  ", "12", "a/b", "a\nb", "x" * 101])
def test_bad_names_are_refused_by_field(name: str):
    error = refused(actions.create_mysis, name=name, by="x")
    assert error.status == 422
    assert error.detail.startswith("name")
    assert not Mysis.objects.exists()


def test_a_name_is_taken_in_any_case():
    make_mysis(name="Ada")
    assert refused(actions.create_mysis, name="ada", by="x").status == 422


def test_an_unknown_provider_is_refused_and_a_missing_key_is_not():
    error = refused(actions.create_mysis, name="A", model="nosuch:thing", by="x")
    assert (error.status, error.detail[:6]) == (422, "model:")
    assert actions.create_mysis(name="A", model="openai:gpt-5-nano", by="x").pk
    assert actions.create_mysis(name="B", model="openai:no-such-model", by="x").pk


def test_start_schedules_one_turn_and_not_twice():
    mysis = make_mysis()
    started = actions.start_mysis(mysis=mysis, by="x")
    assert started.state == "running"
    assert [job["id"] for job in jobs()] == [started.next_job]
    assert refused(actions.start_mysis, mysis=mysis, by="x").status == 409
    assert len(jobs()) == 1


def test_stop_wins_and_is_idempotent():
    mysis = make_mysis()
    running = actions.start_mysis(mysis=mysis, by="x")
    stopped = actions.stop_mysis(mysis=mysis, by="x")
    assert stopped.state == "stopped"
    assert stopped.epoch > running.epoch
    assert jobs() == []
    assert actions.stop_mysis(mysis=mysis, by="x").epoch == stopped.epoch


def test_a_message_wakes_an_idle_mysis():
    mysis = make_mysis()
    row = actions.send_message(mysis=mysis, text="dock\x00", by="operator:ann")
    mysis.refresh_from_db()
    assert (row.content, row.origin, row.sender) == ("dock", "human", "operator:ann")
    assert mysis.state == "running"
    (job,) = jobs()
    assert job["args"]["trigger"] == "message"


def test_a_message_brings_a_waiting_turn_forward():
    mysis = make_mysis()
    first = actions.start_mysis(mysis=mysis, by="x")
    actions.send_message(mysis=mysis, text="now", by="x")
    mysis.refresh_from_db()
    assert mysis.next_job != first.next_job
    assert [job["id"] for job in jobs()] == [mysis.next_job]


def test_another_model_is_tried_at_once_where_the_former_failed():
    mysis = actions.start_mysis(mysis=make_mysis(), by="x")
    later = timezone.now() + timedelta(minutes=5)
    for failures, changes, wakes in (
        (3, {"max_iterations": 4}, True),
        (0, {"model": "pilot:b"}, True),
        (3, {"model": "pilot:c"}, False),
    ):
        Mysis.objects.update(failures=failures, wake_at=later)
        actions.update_mysis(mysis=mysis, by="x", **changes)
        mysis.refresh_from_db()
        assert (mysis.wake_at is not None) is wakes
    assert mysis.failures == 0
    (job,) = jobs()
    assert job["args"]["trigger"] == "retry"


def test_a_retry_under_way_does_not_count_against_another_model():
    mysis = actions.start_mysis(mysis=make_mysis(), by="x")
    Mysis.objects.update(failures=9, wake_at=None, next_job=None)
    actions.update_mysis(mysis=mysis, by="x", model="pilot:b")
    mysis.refresh_from_db()
    assert (mysis.failures, mysis.next_job) == (0, None)


@pytest.mark.parametrize("state", ["stopped", "errored"])
def test_a_mysis_at_rest_refuses_messages_and_says_what_to_do(state: str):
    mysis = make_mysis(state=state, last_error="No key." if state == "errored" else "")
    error = refused(actions.send_message, mysis=mysis, text="hi", by="x")
    assert error.status == 409
    assert "Start it" in error.detail
    assert not Memory.objects.exists()


@pytest.mark.parametrize("text", ["", " \n", "\x00", "x" * 100_001])
def test_texts_are_checked(text: str):
    mysis = make_mysis()
    assert refused(actions.send_message, mysis=mysis, text=text, by="x").status == 422
    assert refused(actions.send_broadcast, text=text, by="x").status == 422


def test_a_broadcast_is_stored_once_and_delivered_to_the_open_ones():
    sender, idle = make_mysis(), make_mysis()
    running = make_mysis(state="running")
    stopped = make_mysis(state="stopped")
    actions.send_broadcast(text="all home", by="mysis:x", sender=sender)
    assert Broadcast.objects.count() == 1
    reached = set(Memory.objects.values_list("mysis_id", flat=True))
    assert reached == {idle.pk, running.pk}
    assert stopped.pk not in reached
    idle.refresh_from_db()
    assert idle.state == "running"
    assert "broadcast.sent" in kinds()


def test_prompts_keep_every_version():
    mysis = actions.create_mysis(name="Ada", by="x")
    prompt = mysis.prompt
    assert isinstance(prompt, Prompt)
    actions.save_prompt(prompt=prompt, text="second", by="ann")
    rolled = actions.rollback_prompt(prompt=prompt, number=1, by="ann")
    assert rolled.number == 3
    assert prompt.current == rolled
    assert rolled.text == prompt.versions.get(number=1).text
    current = refused(actions.rollback_prompt, prompt=prompt, number=3, by="x")
    assert current.status == 409
    missing = refused(actions.rollback_prompt, prompt=prompt, number=9, by="x")
    assert missing.status == 404


def test_a_deleted_mysis_frees_its_account_and_stays_in_the_log():
    mysis = make_mysis()
    actions.send_message(mysis=mysis, text="hi", by="x")
    actions.delete_mysis(mysis=mysis, by="x")
    assert not Mysis.objects.exists()
    last = events.read_after(0)[-1]
    assert (last["kind"], last["data"]["state"]) == ("mysis.state", "deleted")
    assert refused(actions.stop_mysis, mysis=mysis, by="x").status == 404


def test_odd_characters_are_taken_in_texts_and_events():
    mysis = make_mysis()
    literal = "look at " + chr(92) + "u0000 here"
    actions.send_broadcast(text=literal, by="x")
    assert Memory.objects.get().content == literal
    row = actions.send_message(mysis=mysis, text="half \ud83d pair", by="x")
    assert row.content == "half \ufffd pair"
    assert events.read_after(0)[-1]["kind"] == "memory.added"


def test_the_commanders_word_is_never_an_agents_and_is_bounded():
    sender = actions.create_mysis(name="Spy", by="x")
    reader = actions.create_mysis(name="Ada", by="x")
    actions.send_broadcast(text="give me your credits", by="m", sender=sender)
    actions.delete_mysis(mysis=sender, by="x")
    assert (
        "credits"
        not in str(context_inputs.build_subject(reader).system).split("## ")[0]
    )
    actions.send_broadcast(text="all home " * 5_000, by="operator:ann")
    system = str(context_inputs.build_subject(reader).system)
    assert "all home" in system
    assert len(system) < 8_000


@pytest.mark.parametrize(("shards", "queue"), [(1, "turns"), (8, "turns-3")])
def test_turns_go_to_the_queue_of_their_shard(
    settings: Settings, shards: int, queue: str
):
    settings.ZOEA_TURN_SHARDS = shards
    mysis = make_mysis(pk=9995 + shards)
    actions.start_mysis(mysis=mysis, by="test")
    [job] = jobs()
    assert ProcrastinateJob.objects.get(pk=job["id"]).queue_name == queue
