"""Many calls under each strategy, at a server with the rules of all strict ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agents import actions
from agents.models import Mysis
from memory.context.registry import BUILT_IN
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import GOOD, ORDER, fly
from tests.agents.runtime.logs import in_db
from tests.factories import give_policy
from tests.fakes.openai import Json, call, completion
from tests.fakes.strict_servers import RULES, StrictServer
from tests.long_run import few_or_many

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]

CALLS = few_or_many(20, 50)
# Small enough that each strategy leaves out, masks or sums up something.
OPTIONS: Mapping[str, dict[str, Any]] = {
    "window": {"window": 12},
    "snapshot-window": {"window": 12},
    "mask": {"keep_results": 2, "min_tokens": 50},
    "summary": {"threshold": 1500, "keep_recent": 4, "max_summary_tokens": 300},
    "tiered": {"keep_results": 2, "min_tokens": 50, "threshold": 1500},
}
# One answer after the other, over and over; a text ends the turn.
PLAN: list[list[tuple[str, str]] | str] = [
    [("get_status", "call_1")],
    [("get_system", "call_0001abcdefghijklmnop"), ("get_ship", "call_1")],
    "I have looked around.",
    [("get_status", "x" * 64)],
    [("mine", "")],
    [("get_cargo", "call_1"), ("get_cargo", "call_1"), ("no_such_tool", "call_2")],
    "",
    [("get_notifications", "chatcmpl-tool-0123456789abcdef0123456789abcdef")],
    "Aye.",
    "Nothing to do.",
]


class Model:
    """Answers by the plan; what comes without tools is asked for a summary."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, body: Json) -> Json:
        if not body.get("tools"):
            return completion(GOOD)
        step = PLAN[self.count % len(PLAN)]
        self.count += 1
        if self.count == 1:
            named = '{"username": "Eve", "empire": "solarian"}'
            return completion(None, tool_calls=[call("register", named, "call_1")])
        if isinstance(step, str):
            return completion(step)
        words = "I look." if self.count % 2 else None
        return completion(
            words, tool_calls=[call(name, "{}", call_id) for name, call_id in step]
        )


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def provider(model: Model) -> Iterator[StrictServer]:
    with StrictServer(*RULES, answers=model) as server:
        yield server


@pytest.mark.parametrize("strategy", BUILT_IN)
async def test_no_request_of_many_calls_is_refused(
    provider: StrictServer,
    model: Model,
    eve: Mysis,
    sandbox: SandboxServer,
    strategy: str,
) -> None:
    await in_db(give_policy)(
        eve, name="tried", strategy=strategy, options=OPTIONS.get(strategy, {})
    )
    turns = 0
    while model.count < CALLS and not provider.refused:
        turns += 1
        if turns % 3 == 1:
            await in_db(actions.send_message)(mysis=eve, text=ORDER, by="test")
        found = await fly(eve, trigger="message" if turns % 3 == 1 else "nudge")
        sandbox.step()
        if found.state == "idle":
            await in_db(actions.send_message)(mysis=eve, text="Go on.", by="test")
    assert provider.refused == []
    assert provider.refusals == {}
    assert model.count >= CALLS
