"""Windows asked of endpoints over real HTTP, kept, and seen by whoever resolves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.db import connections
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.llm import endpoints
from agents.llm.context_windows import (
    LIMITED_FOR,
    SILENT_FOR,
    TOLD_FOR,
    UNKNOWN,
    read_default_window,
    read_entry_window,
    read_listed_window,
    read_running_window,
    store_limit,
)
from agents.llm.endpoints import resolve, resolve_with_window
from agents.llm.model_types import Endpoint, ModelError
from agents.models import Provider
from agents.models.llm import AskedWindow
from tests.factories import make_provider
from tests.fakes.openai import KEY, FakeProvider, Reply

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = "/v1/models"
ENTRY = {"id": "local-llama", "object": "model", "max_model_len": 24_000}
NAME = "lab:local-llama"


@pytest_asyncio.fixture(autouse=True)
async def _leave_nothing() -> AsyncIterator[None]:
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def lab(provider: FakeProvider) -> Provider:
    """A provider without a window of its own."""
    return make_provider(name="lab", kind="openai", base_url=provider.url, key=KEY)


async def now(name: str = NAME) -> Endpoint:
    """What a page would see."""
    found: Endpoint = await database_sync_to_async(resolve)(name)
    return found


async def change(**values: Any) -> None:
    """Alter what is kept, as time would."""
    await database_sync_to_async(AskedWindow.objects.update)(**values)


async def test_it_is_asked_once_and_kept(provider: FakeProvider, lab: Provider) -> None:
    provider.tell(MODELS, {"object": "list", "data": [ENTRY]})
    before = await now()
    assert (before.window, before.window_source) == (UNKNOWN, "unknown")
    assert before.window_due
    for _ in range(2):
        found = await resolve_with_window(NAME)
        assert found == await now()
        assert (found.window, found.window_due) == (24_000, False)
        assert found.window_source == "endpoint (max_model_len)"
    assert provider.asked == [(MODELS, f"Bearer {KEY}")]


async def test_many_turns_ask_once(provider: FakeProvider, lab: Provider) -> None:
    held = threading.Event()
    body = {"data": [ENTRY]}
    provider.lists[MODELS] = Reply(body=body, wait=held)
    turns = [asyncio.create_task(resolve_with_window(NAME)) for _ in range(8)]
    await asyncio.to_thread(provider.listed.wait, 30)
    # A turn that is stopped does not end the question of the others.
    turns[0].cancel()
    held.set()
    found = await asyncio.gather(*turns[1:])
    assert {endpoint.window for endpoint in found} == {24_000}
    assert len(provider.asked) == 1
    assert not endpoints._under_way


@pytest.mark.parametrize(
    "body",
    ["<html>hello</html>", '{"data": [', {"data": "none"}, {"error": "no"}, "x" * 5_000_000],
)  # fmt: skip
async def test_a_list_that_is_none(
    provider: FakeProvider, lab: Provider, body: Any
) -> None:
    provider.tell(MODELS, body)
    found = await resolve_with_window(NAME)
    assert (found.window, found.window_source) == (UNKNOWN, "unknown")
    # It was asked, and is not asked again with every turn.
    assert not found.window_due
    await change(asked_at=timezone.now() - SILENT_FOR)
    assert (await now()).window_due


async def test_a_silent_endpoint_costs_a_bounded_time(
    provider: FakeProvider, lab: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "SECONDS", 0.2)
    held = threading.Event()
    provider.lists[MODELS] = Reply(body={"data": [ENTRY]}, wait=held)
    assert (await resolve_with_window(NAME)).window == UNKNOWN
    assert not held.is_set()
    held.set()


async def test_what_was_told_stands_while_the_endpoint_is_silent(
    provider: FakeProvider, lab: Provider
) -> None:
    provider.tell(MODELS, {"data": [ENTRY]})
    await resolve_with_window(NAME)
    await change(asked_at=timezone.now() - TOLD_FOR)
    provider.tell(MODELS, {}, 503)
    assert (await now()).window_due
    assert (await resolve_with_window(NAME)).window == 24_000
    assert len(provider.asked) == 2


async def test_a_change_of_the_provider_asks_anew(
    provider: FakeProvider, lab: Provider
) -> None:
    provider.tell(MODELS, {"data": [ENTRY]})
    await resolve_with_window(NAME)
    provider.tell(MODELS, {"data": [{**ENTRY, "max_model_len": 48_000}]})
    await database_sync_to_async(lab.save)()
    assert (await resolve_with_window(NAME)).window == 48_000


async def test_the_providers_own_window_is_not_asked_for(
    provider: FakeProvider, lab: Provider
) -> None:
    lab.window = 12_000
    await database_sync_to_async(lab.save)()
    found = await resolve_with_window(NAME)
    assert (found.window, found.window_source) == (12_000, "provider")
    assert provider.asked == []


async def test_a_refusal_bounds_every_other_source(
    provider: FakeProvider, lab: Provider
) -> None:
    lab.window = 200_000
    await database_sync_to_async(lab.save)()
    await database_sync_to_async(store_limit)(await now(), 131_072)
    found = await now()
    assert (found.window, found.window_source) == (131_072, "refusal")
    await change(limited_at=timezone.now() - LIMITED_FOR - timedelta(seconds=1))
    assert (await now()).window == 200_000
    await database_sync_to_async(store_limit)(found, 131_072)
    # Whoever saves the provider has had a look at it.
    await database_sync_to_async(lab.save)()
    assert (await now()).window == 200_000
    await database_sync_to_async(store_limit)(found, 300_000)
    assert (await now()).window_source == "provider"


async def test_ollama_tells_what_it_runs(provider: FakeProvider, lab: Provider) -> None:
    lab.kind = "ollama"
    await database_sync_to_async(lab.save)()
    info = {"qwen3.context_length": 40_960}
    provider.tell("/api/show", {"parameters": "num_ctx 16384", "model_info": info})
    assert (await resolve_with_window("lab:qwen3:4b")).window == 16_384
    loaded = {"name": "qwen3:4b", "context_length": 4_096}
    provider.tell("/api/ps", {"models": [loaded]})
    await change(asked_at=timezone.now() - TOLD_FOR)
    found = await resolve_with_window("lab:qwen3:4b")
    assert (found.window, found.window_due) == (4_096, False)
    assert found.window_source == "endpoint (/api/ps context_length)"


async def test_a_public_endpoint_is_not_asked(settings: Any) -> None:
    settings.OPENAI_BASE_URL = ""
    settings.OPENAI_API_KEY = "sk-none"
    found = await resolve_with_window("openai:gpt-5-nano")
    assert (found.window, found.window_source) == (400_000, "catalogue")
    assert not found.window_due


async def test_what_resolve_raises(provider: FakeProvider) -> None:
    with pytest.raises(ModelError):
        await resolve_with_window("nowhere:x")


# --- The window in what real servers tell of their models.

VLLM = {"id": "qwen", "object": "model", "max_model_len": 16384}
LLAMA = {"id": "/models/q.gguf", "meta": {"n_ctx": 8192, "n_ctx_train": 40960}}
ROUTER = {
    "id": "a/b",
    "context_length": 131072,
    "top_provider": {"context_length": 32768},
}
STUDIO = {"id": "m", "max_context_length": 183296, "loaded_context_length": 40000}


@pytest.mark.parametrize(
    ("entry", "tokens", "field"),
    [
        (VLLM, 16384, "max_model_len"),
        (LLAMA, 8192, "meta.n_ctx"),
        (ROUTER, 32768, "top_provider.context_length"),
        (
            {**ROUTER, "top_provider": {"context_length": None}},
            131072,
            "context_length",
        ),
        (STUDIO, 40000, "loaded_context_length"),
        ({"context_window": 128000}, 128000, "context_window"),
        ({"max_input_tokens": 200000}, 200000, "max_input_tokens"),
        ({"context_length": "4096"}, 4096, "context_length"),
        ({"context_length": 4096.0}, 4096, "context_length"),
    ],
)
def test_one_entry(entry: dict[str, Any], tokens: int, field: str) -> None:
    assert read_entry_window(entry) == (tokens, field)


@pytest.mark.parametrize("value", [0, -1, None, True, "many", "", 1.5, [], 2**31, {}])
def test_what_is_no_window(value: object) -> None:
    assert read_entry_window({"context_length": value, "meta": value}) is None


def test_the_entry_of_the_model() -> None:
    body = {"object": "list", "data": [{**VLLM, "id": "other"}, ROUTER, VLLM]}
    assert read_listed_window(body, "qwen") == (16384, "max_model_len")
    assert read_listed_window(body, "unheard") is None
    # A server that runs one model answers under any name.
    assert read_listed_window({"data": [LLAMA]}, "gpt-5") == (8192, "meta.n_ctx")
    assert read_listed_window([LLAMA], "gpt-5") == (8192, "meta.n_ctx")


def test_what_ollama_runs_now() -> None:
    loaded = {"name": "qwen3:4b", "model": "qwen3:4b", "context_length": 4096}
    tagged = {"name": "llama3:latest", "context_length": 32768}
    body = {"models": [loaded, tagged]}
    assert read_running_window(body, "qwen3:4b") == (4096, "/api/ps context_length")
    assert read_running_window(body, "llama3") == (32768, "/api/ps context_length")
    assert read_running_window(body, "qwen3") is None
    assert read_running_window({"models": None}, "qwen3") is None


@pytest.mark.parametrize(
    ("parameters", "trained", "found"),
    [
        ("stop <|im_end|>\nnum_ctx                        16384", 40960, 16384),
        ("num_ctx 65536", 40960, 40960),
        ("num_ctx 65536", None, 65536),
        # What it was trained for is not what it runs with.
        ("temperature 0.6", 40960, None),
        ("", 2048, 2048),
        (None, None, None),
    ],
)
def test_what_ollama_would_run(
    parameters: str | None, trained: int | None, found: int | None
) -> None:
    info = {"general.architecture": "qwen3", "qwen3.context_length": trained}
    told = read_default_window({"parameters": parameters, "model_info": info})
    assert (told[0] if told else None) == found


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["data", "models", "id", "name", "meta", "n_ctx", "context_length",
             "model_info", "parameters", "a.context_length", "top_provider"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@given(body=ANYTHING)
def test_any_json_gives_a_window_or_none(body: Any) -> None:
    for found in (
        read_listed_window(body, "x"),
        read_running_window(body, "x"),
        read_default_window(body),
    ):
        assert found is None or 0 < found[0] < 2**31
