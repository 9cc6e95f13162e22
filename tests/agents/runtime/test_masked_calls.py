"""What a model calls reaches the game as it was said; only what is kept is masked."""

from __future__ import annotations

import json

import pytest

from agents.models import Mysis
from memory.models import Memory
from memory.redaction import HIDDEN
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import in_db, log
from tests.fakes.openai import FakeProvider, call, completion

SAID = "the access key is keycard9 and {password: swordfish77}"


def _arguments(rows: list[Memory], name: str) -> list[str]:
    calls = [one["function"] for row in rows for one in row.tool_calls]
    return [one["arguments"] for one in calls if one["name"] == name]


async def test_the_game_gets_the_arguments_as_the_model_gave_them(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
) -> None:
    joins = json.dumps({"username": "Eve", "empire": "solarian"})
    provider.answer(completion(None, tool_calls=[call("register", joins)]))
    said = json.dumps({"entry": SAID})
    provider.answer(completion(None, tool_calls=[call("captains_log_add", said, "c2")]))
    provider.answer(completion("Done."))
    await fly(eve, "start")
    assert SAID in json.dumps(sandbox.answer("Eve", "captains_log_list"))
    [kept] = _arguments(await in_db(log)(eve), "captains_log_add")
    assert "keycard9" not in kept
    assert HIDDEN in json.loads(kept)["entry"]


@pytest.mark.parametrize("name", ["mine", "spacemolt", "game"])
async def test_calls_with_half_a_surrogate_pair_are_kept(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, name: str
) -> None:
    inner = r'{"action": "mine", "\ud800": ["\udc00x", "ä"], "password": "swordfish7"}'
    said = (
        f'{{"command": "spacemolt", "arguments": {inner}}}' if name == "game" else inner
    )
    provider.answer(completion(None, tool_calls=[call(name, said)]))
    provider.answer(completion("Done."))
    assert (await fly(eve, "start")).last_error == ""
    rows = await in_db(log)(eve)
    [result] = [row for row in rows if row.role == "tool"]
    assert "swordfish7" not in json.dumps([row.tool_calls for row in rows])
    assert "\ufffd" in result.args
