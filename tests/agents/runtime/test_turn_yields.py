"""What turns keep of their yield: as much as the log of the same flight tells."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from agents import actions
from agents.models import (
    Mysis,
    Prompt,
    PromptVersion,
    ToolPolicy,
    Turn,
)
from agents.runtime.turn_rows import close_open_turns
from agents.tools.request import NOT_EXECUTED
from memory.context.tool_calls import guess_policy
from memory.models import ContextPolicy, GameSnapshot, Memory
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import in_db, log
from tests.factories import make_account, make_memory, make_mysis, make_turn


def credits_in_log(rows: Sequence[Memory]) -> list[int]:
    """What each answer of get_status told, in order."""
    told = [r for r in rows if r.tool_name == "get_status" and not r.is_error]
    return [json.loads(row.content)["player"]["credits"] for row in told]


async def test_credits_and_actions_are_those_of_the_log(
    ada: Mysis, sandbox: SandboxServer
):
    for _ in range(30):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
    rows = await in_db(log)(ada)
    turns = await in_db(lambda: list(ada.turns.order_by("pk")))()
    told = credits_in_log(rows)
    assert len(set(told)) > 2
    known = [turn for turn in turns if turn.credits_before is not None]
    earned = sum(turn.credits_after - turn.credits_before for turn in known)
    assert earned == told[-1] - told[0] != 0
    tools = [row for row in rows if row.role == "tool"]
    done = [row for row in tools if guess_policy(row.tool_name) == "mutation"]
    assert sum(turn.actions for turn in turns) == len(done) > 10
    failed = [row for row in done if row.is_error]
    assert sum(turn.failed_actions for turn in turns) == len(failed)
    assert {turn.model for turn in turns} == {"pilot"}
    assert {turn.username for turn in turns} == {"Ada"}


async def test_time_after_an_end_is_idle_unless_it_was_put_off(
    ada: Mysis, sandbox: SandboxServer
):
    await fly(ada)
    first = await in_db(Turn.objects.get)()
    assert first.waits_until is not None
    assert (first.idle_seconds, first.previous_end) == (0, None)
    await asyncio.to_thread(sandbox.step)
    await fly(ada)
    second = await in_db(ada.turns.latest)("pk")
    # It began before its time: nothing of the wait was idle.
    assert second.previous_end == first.finished_at
    assert second.idle_seconds == 0
    await in_db(Turn.objects.filter(pk=second.pk).update)(
        waits_until=None, finished_at=second.finished_at.replace(year=2020)
    )
    await asyncio.to_thread(sandbox.step)
    await fly(ada)
    third = await in_db(ada.turns.latest)("pk")
    since = third.started_at - third.previous_end
    assert abs(third.idle_seconds - since.total_seconds()) < 0.01


async def test_a_turn_names_what_is_other_than_before(
    ada: Mysis, sandbox: SandboxServer
):
    async def fly_with(**values: object) -> str:
        await in_db(Mysis.objects.filter(pk=ada.pk).update)(**values)
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
        turn: Turn = await in_db(ada.turns.latest)("pk")
        return turn.changed

    prompt = await in_db(Prompt.objects.create)(name="corsair")
    write = in_db(PromptVersion.objects.create)
    two = await write(prompt=prompt, number=2, text="Trade.")
    policy = await in_db(ContextPolicy.objects.create)(name="lean")
    assert await fly_with() == ""
    assert await fly_with(prompt=prompt, policy=policy) == "prompt policy"
    assert await fly_with() == ""
    three = await write(prompt=prompt, number=3, text="Mine.")
    assert await fly_with() == "prompt"
    await in_db(ContextPolicy.objects.update)(budget_tokens=64_000)
    assert await fly_with() == "policy"
    kept = await in_db(lambda: list(ada.turns.order_by("pk")))()
    versions = [turn.prompt_version_id for turn in kept]
    assert versions[1:] == [two.pk, two.pk, three.pk, three.pk]
    assert [turn.policy_name for turn in kept[1:]] == ["lean"] * 4


async def test_what_a_lost_turn_earned_is_kept(ada: Mysis, sandbox: SandboxServer):
    for _ in range(3):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)

    def lose() -> Turn:
        known = GameSnapshot.objects.get(tool_name="get_status").credits
        assert known is not None
        turn = make_turn(ada, number=99, username="Ada", credits_before=known - 5)
        close_open_turns(Mysis.objects.get(pk=ada.pk), outcome=Turn.Outcome.INTERRUPTED)
        turn.refresh_from_db()
        return turn

    turn = await in_db(lose)()
    assert turn.outcome == "interrupted"
    assert turn.credits_after - turn.credits_before == 5


async def test_a_turn_that_was_cut_short_counts_the_actions_of_the_log(
    ada: Mysis, sandbox: SandboxServer
):
    """As many as a whole turn counts of the same rows, and none without an answer."""
    # One that reads, but is taken for an action by hand.
    await ToolPolicy.objects.acreate(tool="get_status", policy="mutation")
    for _ in range(8):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)

    def cut_all_short() -> list[tuple[int, int]]:
        turns = Turn.objects.order_by("pk")
        turns.update(outcome=None, actions=0, failed_actions=0)
        last = turns.latest("pk")
        for name, values in (
            ("mine", {"pending": True}),
            ("mine", {"content": NOT_EXECUTED, "is_error": True}),
            ("mine", {"content": f"{NOT_EXECUTED}\n[A note.]", "is_error": True}),
            # The game's own words, which are like ours.
            ("mine", {"content": "Error: busy: not executed", "is_error": True}),
            ("sell", {"content": "Error: not_docked: Dock first.", "is_error": True}),
            ("sell_everything", {"content": "No such tool.", "is_error": True}),
        ):
            make_memory(ada, role="tool", tool_name=name, turn=last, **values)
        close_open_turns(Mysis.objects.get(pk=ada.pk), outcome=Turn.Outcome.STOPPED)
        return list(turns.values_list("actions", "failed_actions"))

    counts = Turn.objects.order_by("pk").values_list("actions", "failed_actions")
    whole = await in_db(list)(counts)
    assert sum(actions for actions, _ in whole) > 5
    cut = await in_db(cut_all_short)()
    assert cut[:-1] == whole[:-1]
    assert cut[-1] == (whole[-1][0] + 2, whole[-1][1] + 2)


def test_an_account_that_another_flies_earns_for_that_one(db: None):
    """The row keeps the account that the turn began with."""
    account = make_account(username="Nova")
    mysis = make_mysis(account=account)
    turn = make_turn(mysis, username="Vega", credits_before=10, credits_after=10)
    actions.stop_mysis(mysis=mysis, by="test")
    close_open_turns(mysis, outcome=Turn.Outcome.STOPPED)
    turn.refresh_from_db()
    assert turn.credits_after == 10
