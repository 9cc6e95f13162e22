"""Recorded calls under their own policy and others: what comes out as it was sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from agents import actions
from agents.lab import replay as replay_module
from agents.lab.policies import OWN, Policy, read_policies
from agents.lab.replay import ReplayedCall, replay_calls, select_calls, select_myses
from agents.lab.report import ReportBuilder
from agents.llm.endpoints import resolve
from agents.llm.model_types import read_token_prices
from agents.models import (
    ModelCall,
    Mysis,
    Order,
    OrderRecipient,
    ToolCatalogue,
)
from memory.assembly import turn_reads
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.assembly.turn_reads import TurnReads
from memory.context import registry
from memory.gamestate.extract import read_result
from memory.models import (
    ContextPolicy,
    ContextText,
    HistorySummary,
    Memory,
    SentContext,
)
from memory.snapshots import writes
from sandbox.game.testing import SandboxServer
from tests.agents.lab.histories import make_pilot, record_call, record_turn
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import in_db
from tests.agents.runtime.piloted import PilotedAnthropic, PilotedOpenAI
from tests.factories import make_memory, make_provider, make_turn
from tests.fakes import anthropic, openai

OTHERS = [Policy(name, name) for name in registry.BUILT_IN]


def replay(mysis: Mysis, policies: list[Policy]) -> list[ReplayedCall]:
    myses = select_myses(mysis.pk, "")
    return list(replay_calls(myses, select_calls(None, None), policies))


def report(calls: list[ReplayedCall]) -> dict[str, Any]:
    found = ReportBuilder()
    for call in calls:
        found.add(call.figures, call.differs, call.unknown)
    return found.describe(found.totals)


@pytest.fixture
def providers(transactional_db: Any) -> Iterator[dict[str, str]]:
    """Strict providers of both formats, whose models are the pilot: kind and model."""
    with ExitStack() as stack:
        for kind, key, fake in (
            ("openai", openai.KEY, PilotedOpenAI()),
            ("anthropic", anthropic.KEY, PilotedAnthropic()),
        ):
            stack.enter_context(fake)
            make_provider(name=f"s-{kind}", kind=kind, base_url=fake.url, key=key)
        yield {"s-openai": "gpt-5-nano", "s-anthropic": "claude-haiku-4-5"}


async def test_every_strategy_in_both_formats_comes_out_as_it_was_sent(
    providers: dict[str, str], sandbox: SandboxServer, nothing_left_open: None
):
    """A flight in a real game, another strategy each turn; nothing of it is changed."""
    ada = await in_db(actions.create_mysis)(name="Ada", by="test")
    policy = await in_db(ContextPolicy.objects.create)(name="changing")
    await in_db(Mysis.objects.update)(policy=policy, max_iterations=3)
    await in_db(actions.start_mysis)(mysis=ada, by="test")
    for strategy in registry.BUILT_IN:
        for provider, model in providers.items():
            await in_db(ContextPolicy.objects.update)(strategy=strategy)
            await in_db(Mysis.objects.update)(model=f"{provider}:{model}")
            await fly(ada)
            await asyncio.to_thread(sandbox.step)
    kept = dict(turn_reads._works)
    calls = await in_db(replay)(ada, OTHERS)
    assert [call.differs for call in calls if call.differs] == []
    assert {(c.sent.strategy, c.sent.dialect) for c in calls} == {
        (name, kind) for name in registry.BUILT_IN for kind in ("openai", "anthropic")
    }
    for call in calls:
        own, stats = call.figures[OWN], call.sent.stats
        assert own.tokens == sum(stats["tokens_by_category"].values())
        assert own.shared_bytes == stats["prefix_shared_bytes"]
        assert own.valid == (stats["status"] != "fallback_used")
    # The works of live turns are where they were.
    assert turn_reads._works == kept
    assert await in_db(SentContext.objects.count)() == len(calls)


@pytest.fixture
def ada(db: None) -> Mysis:
    """One with three recorded turns under `tiered`."""
    mysis = make_pilot(strategy="tiered", budget_tokens=16_000, budget_reserve=2_000)
    for _ in range(3):
        record_turn(mysis)
    return mysis


def test_each_policy_has_a_past_of_its_own(ada: Mysis):
    """Its prefix is shared with its own view before, not with the recorded one."""
    again = Policy("again", "tiered", {}, 16_000, 2_000)
    calls = replay(ada, [again, Policy("window", "window", {"window": 6})])
    first, *later = calls
    assert first.figures["again"].shared_bytes == 0, "it had sent nothing before"
    for call in later:
        own, same = call.figures[OWN], call.figures["again"]
        assert (same.view, same.shared_bytes) == (own.view, own.shared_bytes)
        assert same.shared_bytes > call.figures["window"].shared_bytes


def test_two_replays_give_one_report(ada: Mysis):
    first, second = report(replay(ada, OTHERS)), report(replay(ada, OTHERS))
    assert first == second
    assert first["equal"] == first["calls"] == 6
    assert [one["name"] for one in first["policies"]] == [OWN, *registry.BUILT_IN]


def test_it_counts_what_a_policy_would_have_cost_and_lost(ada: Mysis):
    narrow = Policy("narrow", "window", {"window": 2, "state_block": False})
    tight = Policy("tight", "window", {"window": 2}, 300, 100)
    found = report(replay(ada, [narrow, Policy("whole", "full"), tight]))
    own, few, whole, cut = found["policies"]
    assert own["pins"] == few["pins"] == {"kept": 6, "of": 6}
    assert own["orders"] == whole["orders"] == {"kept": 6, "of": 6}
    assert own["state_values"]["kept"] == own["state_values"]["of"] > 6
    assert few["state_values"]["kept"] == 0
    assert own["facts_lost"] == 0
    # A window says nothing of what it leaves out, so no handle leads back to it.
    assert few["facts_lost"] > 0
    assert few["facts_with_handle"] == 0
    assert few["tokens"]["mean"] < own["tokens"]["mean"] <= whole["tokens"]["most"]
    assert 0 < own["cached_cost"] < own["cost"]
    assert own["cost"] > few["cost"]
    assert cut["unsent"] == cut["over_budget"] == 6
    assert cut["invalid"] == cut["unsent"]


def test_masked_results_are_lost_with_a_handle(ada: Mysis):
    eager = {"keep_results": 0, "min_tokens": 10, "batch_fraction": 0.001}
    found = report(replay(ada, [Policy("mask", "mask", eager)]))
    masked = found["policies"][1]
    assert masked["facts_lost"] == masked["facts_with_handle"] > 0


def test_one_message_tells_its_newest_results_and_orders(ada: Mysis):
    few = Policy("few", "coalesced", {"keep_results": 1, "tool_call_limit": 1})
    own, one, less = report(replay(ada, [Policy("one", "coalesced"), few]))["policies"]
    assert one["orders"] == own["orders"] == less["orders"]
    assert 0 == one["facts_lost"] < less["facts_lost"]


def test_the_orders_of_then_are_open_in_the_past_alone(ada: Mysis):
    """One that was done since is told to a view that is one message."""
    rows = Memory.objects.filter(mysis=ada, sender="operator:ann")
    first = rows.order_by("pk")[0]
    order = Order.objects.create(text=first.content, sender="operator:ann")
    OrderRecipient.objects.create(
        order=order, mysis=ada, memory=first, state="done", changed_at=timezone.now()
    )
    record_turn(ada, calls=1)
    *before, after = replay(ada, [Policy("one", "coalesced")])
    assert [call.figures["one"].orders for call in before[2:]] == [(2, 2)] * 4
    assert after.figures["one"].orders == (1, 1)


def test_an_order_that_a_summary_quotes_is_kept(ada: Mysis):
    rows = list(Memory.objects.filter(mysis=ada).order_by("pk"))
    order = next(row for row in reversed(rows) if row.origin == "human")
    HistorySummary.objects.create(
        mysis=ada, first_id=rows[0].pk, through_id=rows[-1].pk, text="We flew.",
        generation=1, history_hash="0" * 64, order_id=order.pk,
    )  # fmt: skip
    make_memory(ada, role="assistant", content="We fly on.")
    turn = make_turn(ada, outcome="done")
    sent = record_call(ada, turn, 1, TurnReads())
    assert sent.stats["generation"] == 1
    [*_, last] = replay(ada, [Policy("window", "window", {"window": 1})])
    assert (last.figures[OWN].orders, last.differs) == ((1, 1), "")


def test_the_first_call_that_asks_for_a_summary_counts(ada: Mysis):
    eager = {"threshold": 500, "keep_recent": 1, "max_summary_tokens": 1}
    own, asked = report(replay(ada, [Policy("eager", "summary", eager)]))["policies"]
    assert (own["compactions"], asked["compactions"]) == (0, 1)


def test_a_call_that_differs_says_why(ada: Mysis):
    """Not for a deleted prompt: what it said is kept with the call."""
    actions.save_prompt(prompt=actions.get_default_prompt(), text="Another.", by="ann")
    assert report(replay(ada, []))["equal"] == 6
    rows = SentContext.objects.order_by("pk")
    Memory.objects.filter(pk=rows[0].first_id or 0).delete()
    old = rows[5]
    old.stats.pop("options")
    old.save()
    ContextPolicy.objects.update(options={"result_cap": 50})
    found = replay(ada, [])
    assert "1 of the messages" in found[0].differs
    assert "options of then" in found[5].differs
    ContextText.objects.all().delete()
    assert all("no longer kept" in call.differs for call in replay(ada, []))
    SentContext.objects.update(strategy="dreams")
    assert "dreams" in replay(ada, [])[0].differs


def test_a_history_without_calls_has_nothing_to_replay(db: None):
    """As of one that was imported: its messages are there, but no call is."""
    mysis = make_pilot()
    make_memory(mysis, content="Long ago.")
    found = report(replay(mysis, OTHERS))
    assert (found["calls"], found["equal"], found["policies"]) == (0, 0, [])


def capture_state(username: str) -> None:
    """What an account knows that has flown a little."""
    hold = [{"item_id": "ore_iron", "name": "Iron Ore", "quantity": 3, "size": 1}]
    ship = {"hull": 100, "shield": 50, "fuel": 90, "cargo_used": 3, "cargo": hold}
    for tool, answer in {
        "get_status": {"player": {"credits": 5, "current_poi": "belt"}, "ship": ship},
        "get_ship": {"ship": ship},
        "get_cargo": {"cargo": hold, "used": 3, "available": 47},
        "get_poi": {"poi": {"id": "belt"}, "resources": [{"resource_id": "ore_iron"}]},
        "get_nearby": {"nearby": [], "count": 0, "poi_id": "belt"},
        "get_skills": {"player_skills": []},
        "view_market": {"items": []},
    }.items():
        text = json.dumps(answer)
        writes.capture_snapshot(
            username=username, tool=tool, args={}, text=text, result=read_result(text)
        )


def test_a_call_whose_budget_was_too_small_comes_out_as_it_was_sent(db: None):
    """Room was kept in it for the short form of the state, which it does not show."""
    mysis = make_pilot(strategy="full", budget_tokens=1_800, budget_reserve=100)
    assert mysis.account is not None
    capture_state(mysis.account.username)
    for number in range(60):
        make_memory(mysis, role="assistant", content=f"Line {number} of a long talk.")
    rows = record_turn(mysis, calls=1)
    assert all(row.stats["over_budget"] for row in rows)
    assert [call.differs for call in replay(mysis, []) if call.differs] == []
    for row in rows:
        del row.stats["short_state"]
        row.save()
    assert "short form" in next(c.differs for c in replay(mysis, []) if c.differs)


def test_settings_without_options_offer_the_tools_that_each_call_had(db: None):
    described = {"description": "What it does. " * 100, "parameters": {}}
    tools = [{"name": f"t{n}", "policy": "query", **described} for n in range(60)]
    ToolCatalogue.objects.create(pk=settings.SPACEMOLT_MCP_URL, tools=tools)
    mysis = make_pilot(budget_tokens=16_000, options={"tools": "on_demand"})
    record_turn(mysis)
    stored = ContextPolicy.objects.create(name="all", budget_tokens=16_000)
    inline = {"strategy": "coalesced"}
    named = {**inline, "name": "named", "options": {"keep_results": 4}}
    policies = read_policies([inline, named, stored.pk])
    for call in replay(mysis, policies):
        figures = call.figures
        assert figures[OWN].messages
        assert figures["coalesced"].messages
        # Options that are given, and those of a stored policy, are all that there are.
        assert not figures["named"].messages
        assert not figures["all"].messages


def test_a_lane_goes_on_from_the_call_that_stood(ada: Mysis):
    last = Memory.objects.latest("pk")
    record_turn(ada)
    actions.take_branch(mysis=ada, asked=last.pk, text="No.", by="operator:ann")
    record_turn(ada)
    again = Policy("again", "tiered", {}, 16_000, 2_000)
    for call in replay(ada, [again]):
        own, stats = call.figures[OWN], call.sent.stats
        assert call.differs == ""
        assert own.shared_bytes == stats["prefix_shared_bytes"]
    first, second = replay(ada, [again])[-2:]
    # What it had shown before was taken back.
    assert first.figures["again"].shared_bytes == 0
    assert second.figures["again"].shared_bytes == second.figures[OWN].shared_bytes


def test_an_order_that_was_taken_back_is_none_to_be_kept(ada: Mysis):
    last = Memory.objects.latest("pk")
    record_turn(ada)
    branch = actions.take_branch(
        mysis=ada, asked=last.pk, text="No.", by="operator:ann"
    )
    actions.undo_branch(branch=branch, by="operator:ann")
    make_memory(ada, role="assistant", content="I fly on.")
    record_call(ada, make_turn(ada, outcome="done"), 1, TurnReads())
    call = replay(ada, [])[-1]
    assert call.differs == ""
    assert call.figures[OWN].orders == (1, 1)


def test_a_call_before_an_undo_has_the_log_as_it_was_then(ada: Mysis):
    last = Memory.objects.latest("pk")
    record_turn(ada)
    branch = actions.take_branch(
        mysis=ada, asked=last.pk, text="No.", by="operator:ann"
    )
    # It brings no answer, or there would be no undo.
    record_call(ada, make_turn(ada, outcome="error"), 1, TurnReads())
    actions.undo_branch(branch=branch, by="operator:ann")
    record_turn(ada)
    calls = replay(ada, [Policy("again", "tiered", {}, 16_000, 2_000)])
    assert [call.differs for call in calls] == [""] * len(calls)
    between, after = calls[-3:-1]
    # What stands again was taken back for it; the correction stood, and is an order.
    assert between.figures[OWN].orders[1] == 1
    assert between.figures["again"].shared_bytes == 0
    assert after.figures["again"].shared_bytes == 0
    assert after.figures[OWN].messages > between.figures[OWN].messages


def test_summaries_are_judged_by_the_prices_of_the_call(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
):
    prices = []

    def spy(subject: Subject, **values: Any) -> PreparedRequest:
        prices.append(subject.compaction.prices)
        return prepare_request(subject, **values)

    monkeypatch.setattr(replay_module, "prepare_request", spy)
    called = resolve(ModelCall.objects.latest("pk").model)
    Mysis.objects.update(model="anthropic")
    replay(ada, [Policy("again", "tiered")])
    assert len(prices) == 12
    assert {*prices} == {read_token_prices(called)} != {None}
