"""Turns under each of the options `tools`, over the strict providers of both formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents import actions, events
from agents.context_inputs import build_subject
from agents.models import Mysis
from agents.views.context import assemble_again
from memory.assembly.replay import load_past_call
from memory.assembly.sent_view import render_sent
from memory.context.tokens import estimate_tokens
from memory.context.tool_calls import is_own_tool
from memory.models import ContextPolicy, GameSnapshot, Memory, SentContext
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import assert_paired, in_db, log
from tests.factories import give_policy, make_provider
from tests.fakes import anthropic, openai
from tests.long_run import few_or_many

Json = dict[str, Any]
CALLS = few_or_many(30, 200)
# What the model does, over and over; None ends a turn. One action: ticks pass after it.
PLAN: list[list[tuple[str, Json]] | None] = [
    [("get_status", {}), ("get_system", {})],
    [("game_help", {"names": ["travel", "buy"]})],
    [("travel", {"target": "nowhere"})],
    [("mine", {}), ("get_cargo", {}), ("get_cargo", {})],
    [("get_carg", {})],
    [("zoea_swarm_status", {}), ("find_route", {"target_system": "sol"})],
    [("view_market", {})],
    [("get_ship", {"ship": 1}), ("get_base", {})],
    [("get_notifications", {})],
    None,
]


class Script:
    """Answers by the plan, by way of `game` where that is offered."""

    def __init__(self) -> None:
        self.count = 0
        self.unknown: list[str] = []
        self.spelt: dict[str, str] = {}
        self.respelt: list[str] = []
        self.offered: list[list[str]] = []

    def choose(self, offered: list[str]) -> list[tuple[str, str, Json]] | None:
        """Id, name and arguments of the calls to make now."""
        self.offered.append(offered)
        step = self.count
        self.count += 1
        if not step:
            named = {"username": "Eve", "empire": "solarian"}
            return [self._make("c0", "register", named, offered)]
        calls = PLAN[step % len(PLAN)]
        if calls is None:
            return None
        return [
            self._make(f"c{step}_{at}", name, given, offered)
            for at, (name, given) in enumerate(calls)
        ]

    def _make(
        self, key: str, name: str, given: Json, offered: list[str]
    ) -> tuple[str, str, Json]:
        # Now and then models call a tool of the list by its own name.
        if "game" in offered and not is_own_tool(name) and name != "view_market":
            # In another order than the schema has it, as models do.
            wrapped = {"arguments": given, "command": name}
            self.spelt[key] = self.spell(wrapped)
            return key, "game", wrapped
        return key, name, given

    def spell(self, arguments: Json) -> str:
        return json.dumps(arguments, separators=(",", ":"))

    def compare(self, key: str, name: str, text: str) -> None:
        """The model's own calls come back letter for letter."""
        # One that was made by the tool's own name is sent in our words.
        if name == "game" and self.spelt.get(key.removeprefix("toolu_"), text) != text:
            self.respelt.append(text)

    def check(self, called: list[str], offered: list[str]) -> None:
        """A stricter provider than there is: the history calls what is offered."""
        plain = "get_carg", "game_help"
        self.unknown += [n for n in called if n not in offered and n not in plain]


class OpenAI(openai.FakeProvider):
    def __init__(self) -> None:
        super().__init__()
        self.script = Script()

    def reply(self, body: Json) -> openai.Reply:
        offered = [tool["function"]["name"] for tool in body["tools"]]
        made = [c for m in body["messages"] for c in m.get("tool_calls") or ()]
        self.script.check([each["function"]["name"] for each in made], offered)
        for each in made:
            self.script.compare(each["id"], *each["function"].values())
        calls = self.script.choose(offered)
        if calls is None:
            return openai.Reply(body=openai.completion("Enough for now."))
        spell = self.script.spell
        sent = [openai.call(n, spell(a), key) for key, n, a in calls]
        return openai.Reply(body=openai.completion(None, tool_calls=sent))


class Anthropic(anthropic.FakeAnthropic):
    def __init__(self) -> None:
        super().__init__()
        self.script = Script()

    def reply(self, body: Json) -> anthropic.Answer:
        offered = [tool["name"] for tool in body["tools"]]
        for message in body["messages"]:
            blocks = message["content"]
            blocks = blocks if isinstance(blocks, list) else []
            made = [block for block in blocks if block["type"] == "tool_use"]
            called = [block["name"] for block in made]
            for each in made:
                text = self.script.spell(each["input"])
                self.script.compare(each["id"], each["name"], text)
            # What was sealed stays as it was said.
            if not any(block["type"] == "thinking" for block in blocks):
                self.script.check(called, offered)
        calls = self.script.choose(offered)
        if calls is None:
            said = {"type": "text", "text": "Enough for now."}
            return 200, anthropic.message(said), {}
        blocks = [
            {"type": "tool_use", "id": f"toolu_{key}", "name": n, "input": a}
            for key, n, a in calls
        ]
        if len(calls) > 1:
            seal = anthropic.SIGNATURES[0]
            thought = {"type": "thinking", "thinking": "Both.", "signature": seal}
            blocks.insert(0, thought)
        return 200, anthropic.message(*blocks, stop="tool_use"), {}


@pytest.fixture(params=[OpenAI, Anthropic])
def strict(request: pytest.FixtureRequest) -> Iterator[OpenAI | Anthropic]:
    with request.param() as running:
        yield running


@pytest.fixture
def flyer(transactional_db: Any, strict: OpenAI | Anthropic) -> Mysis:
    """A running Mysis on the provider, under `on_demand`."""
    kind, key, model = (
        ("openai", openai.KEY, "gpt-5-nano")
        if isinstance(strict, OpenAI)
        else ("anthropic", anthropic.KEY, "claude-haiku-4-5")
    )
    make_provider(name="strict", kind=kind, base_url=strict.url, key=key)
    mysis = actions.create_mysis(name="Eve", model=f"strict:{model}", by="test")
    give_policy(mysis, name="diet", options={"tools": "on_demand"})
    return actions.start_mysis(mysis=mysis, by="test")


def set_options(**options: object) -> None:
    ContextPolicy.objects.filter(name="diet").update(options=options)


async def fly_calls(
    flyer: Mysis, strict: OpenAI | Anthropic, game: SandboxServer, calls: int
) -> None:
    until = strict.script.count + calls
    while strict.script.count < until:
        await fly(flyer)
        await asyncio.to_thread(game.step)


async def test_many_calls_on_demand(
    flyer: Mysis, strict: OpenAI | Anthropic, sandbox: SandboxServer
):
    await fly_calls(flyer, strict, sandbox, CALLS)
    assert strict.refused == []
    assert strict.script.unknown == []
    assert strict.script.respelt == []
    assert len(strict.script.spelt) > CALLS / 2
    rows = await in_db(log)(flyer)
    assert_paired(rows)
    names = {row.tool_name for row in rows if row.role == "tool"}
    assert {"mine", "get_status", "travel", "game_help", "view_market"} <= names
    assert "game" not in names
    assert await in_db(GameSnapshot.objects.filter(tool_name="get_ship").count)() == 0
    assert await in_db(GameSnapshot.objects.filter(tool_name="get_cargo").exists)()
    seen = await in_db(events.read_after)(0, kinds=["tool.called"])
    assert "mine" in {each["data"]["tool"] for each in seen}
    wrong = [row.content for row in rows if row.tool_name == "travel"]
    assert all('Schema: {"name": "travel"' in content for content in wrong)
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    views = [await in_db(render_sent)(sent) for sent in kept[:: len(kept) // 9]]
    assert all(view.intact for view in views)
    for view in views:
        assert view.offered is not None
        sent = view.offered.count_tokens(estimate_tokens)
        # Nearly all of it our own.
        assert 4 * sent < estimate_tokens(view.offered.known_text)


@pytest.mark.parametrize("strict", [Anthropic], indirect=True)
async def test_the_policy_may_change_in_mid_history(
    flyer: Mysis, strict: OpenAI | Anthropic, sandbox: SandboxServer
):
    for mode in ("on_demand", "full", "compact", "on_demand"):
        await in_db(set_options)(tools=mode)
        await fly_calls(flyer, strict, sandbox, 12)
    assert strict.refused == []
    assert strict.script.unknown == []
    assert_paired(await in_db(log)(flyer))
    assert ["game" in names for names in strict.script.offered].count(False) >= 24
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    views = [await in_db(render_sent)(sent) for sent in kept]
    assert all(view.intact for view in views)
    # Each call shows the tools that it offered itself.
    shown = [[tool["name"] for tool in view.offered.sent] for view in views]
    assert shown == strict.script.offered


@pytest.mark.parametrize("strict", [OpenAI], indirect=True)
async def test_only_what_is_allowed_is_offered_and_called(
    flyer: Mysis, strict: OpenAI | Anthropic, sandbox: SandboxServer
):
    await in_db(set_options)(tools="full", allow=["get_*", "register", "mine"])
    await fly_calls(flyer, strict, sandbox, 10)
    game = {n for names in strict.script.offered for n in names if not is_own_tool(n)}
    assert {"mine", "register", "get_status"} <= game
    assert all(n in ("mine", "register") or n.startswith("get_") for n in game)
    rows = await in_db(log)(flyer)
    refused = [row.content for row in rows if row.tool_name == "view_market"]
    assert refused
    assert all(text.startswith("Error: tool_not_allowed: ") for text in refused)
    assert strict.refused == []


@pytest.mark.parametrize(
    ("mode", "strategy"),
    [("full", "coalesced"), ("compact", "tiered"), ("on_demand", "tiered")],
)
async def test_the_pilot_flies(
    ada: Mysis, sandbox: SandboxServer, mode: str, strategy: str
):
    await in_db(give_policy)(ada, name="p", strategy=strategy, options={"tools": mode})
    for _ in range(12):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
    rows = await in_db(log)(ada)
    assert_paired(rows)
    done = [row.tool_name for row in rows if row.role == "tool" and not row.is_error]
    assert {"register", "undock", "travel", "mine"} <= {*done}
    calls = [call for row in rows for call in row.tool_calls]
    # An own tool is called by itself: what became of the first order.
    by = {c.get("via", "") for c in calls if not is_own_tool(c["function"]["name"])}
    assert by == ({"game"} if mode == "on_demand" else {""})


@pytest.mark.parametrize("strict", [OpenAI], indirect=True)
async def test_schemas_stay_in_view_until_the_turn_ends(
    flyer: Mysis, strict: OpenAI | Anthropic, sandbox: SandboxServer
):
    await in_db(ContextPolicy.objects.filter(name="diet").update)(
        strategy="window", options={"tools": "on_demand", "window": 2}
    )
    await fly_calls(flyer, strict, sandbox, len(PLAN))
    asked = await in_db(Memory.objects.filter(tool_name="game_help").first)()
    assert asked is not None
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    holds = [
        json.dumps(asked.content)[1:-1] in json.dumps((await in_db(render_sent)(one)).messages)
        for one in kept
    ]  # fmt: skip
    # Asked for in the second call of the turn: in all later ones, and no longer.
    first = holds.index(True)
    assert all(holds[first : len(PLAN)])
    assert not any(holds[len(PLAN) + 1 :])


def read_texts(request: Json) -> tuple[str, str]:
    """The system text and the one message of a request."""
    [said] = request["messages"]
    assert said["role"] == "user"
    system, told = (
        part if isinstance(part, str) else "".join(block["text"] for block in part)
        for part in (request["system"], said["content"])
    )
    return system, told


@pytest.mark.parametrize("strict", [Anthropic], indirect=True)
async def test_one_message_tells_what_was_called_on_demand(
    flyer: Mysis, strict: OpenAI | Anthropic, sandbox: SandboxServer
):
    await in_db(ContextPolicy.objects.filter(name="diet").update)(
        strategy="coalesced",
        options={"tools": "on_demand", "tool_call_limit": 4, "keep_results": 1},
    )
    await fly_calls(flyer, strict, sandbox, 2 * len(PLAN))
    assert strict.refused == []
    rows = await in_db(log)(flyer)
    assert_paired(rows)
    helps = [row for row in rows if row.tool_name == "game_help"]
    assert len(helps) == 2
    for at, request in enumerate(strict.requests):
        system, told = read_texts(request)
        assert system.count("\nundock(") == 1
        assert "tool/undock" not in told, "it is in the list already"
        assert "\n(tool/game command arguments) " in told
        assert "\n(tool/zoea_recall " in told
        # Asked for in the second call of the turn: in all later ones, and no longer.
        whole = f"{told}\n".count(f";     {helps[0].content}\n")
        assert whole == (at % len(PLAN) > 1)
        assert "\n;   game(" not in told
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    views = [await in_db(render_sent)(sent) for sent in kept]
    assert all(view.intact for view in views)
    shown_now = [[tool["name"] for tool in view.offered.sent] for view in views]
    assert shown_now == strict.script.offered
    subject = await in_db(lambda: build_subject(kept[-1].mysis))()
    again = await in_db(lambda: assemble_again(load_past_call(kept[-1], subject)))()
    assert again.digest == kept[-1].digest
