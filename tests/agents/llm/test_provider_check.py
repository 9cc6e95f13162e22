"""`manage.py check_provider`: what it tells, over real HTTP, and what it never tells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from agents.llm.context_windows import _warn_once
from agents.llm.endpoints import resolve
from agents.models import Provider, ToolCatalogue
from agents.provider_trial import try_provider
from memory.models import ContextPolicy
from tests.factories import make_provider
from tests.fakes.anthropic import KEY as ANTHROPIC_KEY
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.openai import KEY, FakeProvider

pytestmark = pytest.mark.django_db


@dataclass
class Ended:
    """What the command wrote, and its status."""

    status: int
    out: str
    err: str

    @property
    def found(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; whatever it wrote holds no key."""

    def run(*arguments: str) -> Ended:
        status = 0
        said = ""
        try:
            call_command("check_provider", *arguments)
        except CommandError as error:
            status, said = error.returncode, str(error)
        except SystemExit as error:
            status = int(str(error.code))
        out, err = capsys.readouterr()
        for key in (KEY, ANTHROPIC_KEY, "hunter2", "sk-wrong-0123456789"):
            assert key not in out + err + said
        return Ended(status, out, err + said)

    return run


def add(url: str, key: str = KEY, **fields: Any) -> Provider:
    """A provider named lab."""
    values = {"kind": "openai", "default_model": "gpt-5-nano", **fields}
    return make_provider(name="lab", base_url=url, **values, key=key)


def test_all_is_well(run: Any, provider: FakeProvider, settings: Any) -> None:
    add(provider.url)
    offer(settings.SPACEMOLT_MCP_URL, TOOLS[:3])
    entry = {"id": "gpt-5-nano", "context_length": 65_536}
    provider.tell("/v1/models", {"data": [entry]})
    ended = run("lab")
    assert (ended.status, ended.err) == (0, "")
    for line in (
        f"provider   lab (openai, {provider.url})",
        "reachable  yes",
        "key        accepted",
        "model      gpt-5-nano: there",
        "window     65,536 tokens, told by the endpoint (context_length)",
    ):
        assert line in ended.out.splitlines()
    assert " ms" in ended.out
    # As small as it can be, with a tool as every turn has some; then without the key.
    assert len(provider.requests) == 2
    assert len(provider.raw[0]) < 600
    assert provider.refused == ["Incorrect API key provided: none."]
    # What was told is kept: the next turn assembles for it.
    assert resolve("lab").window == 65_536


def test_as_json(run: Any, provider: FakeProvider, settings: Any) -> None:
    offer(settings.SPACEMOLT_MCP_URL, TOOLS[:3])
    add(provider.url)
    ended = run("lab", "--json")
    found = ended.found
    assert ended.status == 0
    assert found.pop("latency_ms") >= 0
    assert found == {
        "provider": "lab",
        "ok": True,
        "kind": "openai",
        "base_url": provider.url,
        "model": "gpt-5-nano",
        "reachable": True,
        "key": "accepted",
        "model_found": True,
        "window": {"tokens": 400_000, "source": "catalogue", "enough": True},
        "error": None,
    }


def test_anthropic(run: Any, anthropic: FakeAnthropic) -> None:
    add(
        anthropic.url,
        ANTHROPIC_KEY,
        kind="anthropic",
        default_model="claude-haiku-4-5",
    )
    found = run("lab", "--json").found
    assert (found["ok"], found["key"]) == (True, "accepted")
    assert found["window"] == {
        "tokens": 200_000,
        "source": "endpoint (max_input_tokens)",
        "enough": None,
    }


def test_a_refused_key(run: Any, provider: FakeProvider) -> None:
    add(provider.url, "sk-wrong-0123456789")
    ended = run("lab")
    assert ended.status == 1
    assert "key        refused" in ended.out
    assert "model      gpt-5-nano: not known" in ended.out
    assert "401" in ended.err
    assert "Check the API key" in ended.err


def test_a_model_that_is_not_there(run: Any, provider: FakeProvider) -> None:
    add(provider.url)
    ended = run("lab", "--model", "gpt-99")
    assert ended.status == 1
    assert "key        accepted" in ended.out
    assert "model      gpt-99: not there" in ended.out
    assert "does not exist" in ended.err


def test_an_address_that_is_wrong(run: Any, provider: FakeProvider) -> None:
    add(provider.url.removesuffix("/v1"))
    provider.answer("<html><title>Welcome</title></html>")
    ended = run("lab", "--json")
    assert ended.status == 1
    assert (ended.found["reachable"], ended.found["ok"]) == (True, False)
    assert ended.found["key"] == "unknown"
    assert "/v1" in ended.found["error"]["remedy"]


def test_nobody_there(run: Any) -> None:
    add("http://ann:hunter2@127.0.0.1:1/v1")
    ended = run("lab")
    assert ended.status == 1
    assert "reachable  no" in ended.out
    assert "key        not known" in ended.out
    assert "could not be reached" in ended.err
    assert "http://127.0.0.1:1/v1" in ended.out


def test_a_key_that_nobody_looked_at_was_not_accepted(run: Any) -> None:
    with FakeProvider() as careless:
        careless.stranger = None
        add(careless.url)
        ended = run("lab")
        assert ended.status == 0
        assert "key        no key asked for" in ended.out
        assert run("lab", "--json").found["key"] == "unasked"
        # Of a server that refuses everybody alike nothing is known.
        careless.models = ()
        assert run("lab", "--json").found["key"] == "unknown"


def test_a_key_without_which_the_answer_is_another_was_accepted(
    run: Any, provider: FakeProvider
) -> None:
    """Also where a stranger is refused by another status than 401."""
    add(provider.url)
    provider.stranger = 400
    assert run("lab", "--json").found["key"] == "accepted"


@pytest.mark.parametrize(
    ("status", "key"),
    [
        *((each, "unknown") for each in (407, 408, 500, 503, 529)),
        *((each, "accepted") for each in (200, 400, 429)),
        (403, "refused"),
    ],
)
def test_at_the_providers_own_address_the_key_is_judged_by_the_answer(
    run: Any,
    provider: FakeProvider,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    key: str,
) -> None:
    """Nobody is let in there without a key, so no second request is made."""
    settings.OPENAI_BASE_URL = ""
    monkeypatch.setattr("agents.llm.wires.openai.OFFICIAL", provider.url)
    add("")
    if status != 200:
        provider.refuse(status, "Not now.")
    assert run("lab", "--json").found["key"] == key
    assert len(provider.requests) == 1


def test_a_window_counts_as_unknown_only_once_the_endpoint_was_asked(
    run: Any, provider: FakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.models = ("told", "untold")
    told = {"id": "told", "max_model_len": 32_000}
    provider.tell("/v1/models", {"data": [told, {"id": "untold"}]})
    _warn_once.cache_clear()
    add(provider.url, default_model="told")
    ended = run("lab")
    assert "32,000 tokens" in ended.out
    assert "max_model_len" in ended.out
    assert caplog.messages == []
    ended = run("lab", "--model", "untold")
    assert "nobody tells it" in ended.out
    [message] = caplog.messages
    assert "'untold' is unknown; 8192 tokens are assumed" in message


def test_before_a_first_turn_it_says_that_the_tools_are_not_known(
    run: Any, provider: FakeProvider
) -> None:
    add(provider.url)
    found = run("lab", "--json").found
    assert (found["ok"], found["window"]["enough"]) == (True, None)
    words = "400,000 tokens, room for the game's tools not known before a first turn"
    assert words in run("lab").out
    assert (
        "The game's tools are not known" in try_provider(Provider.objects.get()).words
    )


TOOLS = [
    {
        "name": f"do_{number}",
        "description": "Does it. " * 40,
        "parameters": {"type": "object", "properties": {}},
        "policy": "query",
        "read_only": True,
    }
    for number in range(100)
]


def offer(url: str, tools: list[dict[str, Any]]) -> None:
    """Store tools as the game's."""
    ToolCatalogue.objects.create(url=url, tools=tools)


def offer_many(url: str) -> None:
    """Tools of the game that take more than the smallest windows hold."""
    offer(url, TOOLS)


def test_a_window_that_nobody_knows_is_too_small_for_the_tools(
    run: Any, provider: FakeProvider, settings: Any
) -> None:
    offer_many(settings.SPACEMOLT_MCP_URL)
    row = add(provider.url, default_model="local-llama")
    ended = run("lab")
    assert ended.status == 1
    assert "key        accepted" in ended.out
    assert "8,192 tokens, too few, nobody tells it" in ended.out
    assert "too small for the prompt and the tools" in ended.err
    assert "Set the window of the provider in the admin" in ended.err
    found = run("lab", "--json").found
    assert (found["ok"], found["window"]["enough"]) == (False, False)
    assert "on_demand" in found["error"]["remedy"]
    # What it says mends it, one as well as the other.
    row.window = 64_000
    row.save()
    assert run("lab").status == 0
    row.window = None
    row.save()
    policy = {"strategy": "window", "options": {"tools": "on_demand"}}
    ContextPolicy.objects.create(name="few", is_default=True, **policy)
    assert run("lab").status == 0


def test_a_window_that_is_known_is_too_small_for_the_tools(
    run: Any, provider: FakeProvider, settings: Any
) -> None:
    offer_many(settings.SPACEMOLT_MCP_URL)
    add(provider.url, window=9_000)
    ended = run("lab")
    assert ended.status == 1
    assert "Choose a model with a larger window" in ended.err


def test_a_budget_that_is_too_small_for_the_tools(
    run: Any, provider: FakeProvider, settings: Any
) -> None:
    offer_many(settings.SPACEMOLT_MCP_URL)
    add(provider.url)
    ContextPolicy.objects.create(
        name="tiny",
        strategy="window",
        is_default=True,
        budget_tokens=6_000,
        budget_reserve=900,
    )
    ended = run("lab")
    assert ended.status == 1
    assert "Raise the budget" in ended.err


def test_a_limit_that_is_too_small_is_learnt(run: Any, provider: FakeProvider) -> None:
    add(provider.url, window=64_000)
    message = "This model's maximum context length is 64 tokens. However, you ..."
    provider.refuse(400, message)
    ended = run("lab", "--json")
    assert ended.status == 1
    window = {"tokens": 64, "source": "refusal", "enough": None}
    assert ended.found["window"] == window
    assert ended.found["reachable"]


@pytest.mark.parametrize("arguments", [("nowhere",), ("nowhere:x",), ("lab", "--json")])
def test_a_name_that_is_unknown(run: Any, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert ended.status == 2
    assert ended.out == ""
    assert f'No provider is named "{arguments[0].partition(":")[0]}"' in ended.err


def test_no_model_and_no_key(run: Any, provider: FakeProvider, settings: Any) -> None:
    add(provider.url, default_model="")
    ended = run("lab")
    assert (ended.status, ended.out) == (1, "")
    assert "no model" in ended.err
    ended = run("lab", "--json")
    assert "no model" in ended.found["error"]["reason"]
    settings.OPENAI_BASE_URL = settings.OPENAI_API_KEY = ""
    assert "OPENAI_API_KEY" in run("openai", "--model", "gpt-5-nano").err


def test_a_full_name_and_the_pilot(run: Any, provider: FakeProvider) -> None:
    add(provider.url, default_model="")
    assert run("lab:gpt-5-nano", "--json").found["model"] == "gpt-5-nano"
    found = run("pilot", "--json").found
    assert (found["ok"], found["key"]) == (True, "none")
    assert found["window"]["source"] == "pilot"
