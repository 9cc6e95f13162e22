"""Loops and standstill: a badge and an event, never an end (settings: 5 and 6)."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async
from pytest_django import Settings

from agents import actions
from agents.models import Event, Mysis
from agents.runtime.finish import CallRecord, Limits, Trail, record_call, update_trail
from bench.providers.openai import FakeProvider, call, completion
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.programs import Program

in_db = database_sync_to_async
LIMITS = Limits(repeats=3, turns=2)


def asked(result: str, name: str = "get_ship", **kind: bool) -> CallRecord:
    given = {"is_error": False, "read_only": True} | kind
    return record_call(name, "{}", result, **given)


def reasons(*turns: list[CallRecord], whole: bool = True) -> list[str]:
    trail, found = Trail(), []
    for calls in turns:
        trail, reason = update_trail(trail, calls, LIMITS, whole=whole)
        found.append(reason.partition(". ")[0])
    return found


def test_the_same_call_with_the_same_result_is_a_loop():
    assert reasons([asked("a")], [asked("a")], [asked("a")]) == [
        "", "", "get_ship brought the same result 3 times",
    ]  # fmt: skip
    assert reasons([asked("a"), asked("b"), asked("a"), asked("b"), asked("a")])[0]
    assert reasons([asked("a"), asked("b"), asked("c"), asked("d")]) == [""]
    failing = [asked("no", "mine", is_error=True, read_only=False)] * 3
    assert reasons(failing)[0].startswith("mine brought")


def test_an_action_that_works_is_progress_however_often():
    mined = asked("ok", "mine", read_only=False)
    assert reasons([mined] * 9, [asked("a"), mined] * 5) == ["", ""]


def test_turns_that_bring_nothing_new_are_told_and_a_new_answer_ends_it():
    told = reasons([asked("a")], [asked("a")], [], [asked("b")], [])
    assert told == ["", "", "2 turns in a row brought nothing new", "", ""]
    assert reasons([], [], [], whole=False) == ["", "", ""]


def test_the_trail_stays_short():
    trail = Trail()
    for number in range(100):
        trail, _ = update_trail(trail, [asked(str(number))], LIMITS, whole=True)
    assert len(trail.results) == 12


def told(mysis: Mysis) -> list[dict[str, Any]]:
    found = Event.objects.filter(mysis=mysis, kind="error", data__code="stuck")
    return list(found.values_list("data", flat=True))


async def test_a_loop_is_shown_goes_on_and_clears_itself(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider, settings: Settings
):
    settings.ZOEA_STUCK_RESULTS = 3
    for _ in range(3):
        provider.answer(completion(None, tool_calls=[call("get_version")]))
    provider.answer(completion("Hm."))
    after = await fly(eve)
    assert "get_version brought the same result 3 times" in after.stuck
    assert after.state == "running"
    assert after.next_job is not None
    assert len(await in_db(told)(eve)) == 1
    viewer = await in_db(Program)("viewer")
    shown = (await in_db(viewer.get)("/myses/Eve")).json()
    assert shown["stuck"] == after.stuck
    assert (await in_db(viewer.get)("/fleet")).json()["stuck"] == 1
    # Stuck on: told once.
    provider.answer(completion(None, tool_calls=[call("get_version")]))
    provider.answer(completion("Hm."))
    assert (await fly(eve)).stuck
    assert len(await in_db(told)(eve)) == 1
    provider.answer(completion(None, tool_calls=[call("get_commands")]))
    provider.answer(completion("Ah."))
    assert (await fly(eve)).stuck == ""
    states = Event.objects.filter(mysis=eve, kind="mysis.state").order_by("pk")
    kept = await in_db(lambda: [bool(e.data.get("stuck")) for e in states])()
    assert kept[-2:] == [True, False]


async def test_a_start_forgets_what_was(eve: Mysis, sandbox: SandboxServer):
    await in_db(Mysis.objects.filter(pk=eve.pk).update)(
        stuck="x", trail="a:b", empty_turns=9
    )
    await in_db(actions.stop_mysis)(mysis=eve, by="test")
    await in_db(actions.start_mysis)(mysis=eve, by="test")
    row = await refreshed(eve)
    assert (row.stuck, row.trail, row.empty_turns) == ("", "", 0)


@pytest.mark.parametrize("limits", [Limits(2, 2), Limits(5, 6)])
def test_one_call_alone_is_never_a_loop(limits: Limits):
    assert update_trail(Trail(), [asked("a")], limits, whole=True)[1] == ""
