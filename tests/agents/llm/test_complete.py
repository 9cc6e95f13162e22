"""Model calls over real HTTP, against a strict fake of the OpenAI API."""

from __future__ import annotations

import asyncio
import json
import threading
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.complete import complete
from agents.llm.model_types import (
    Completion,
    CompletionRequest,
    Endpoint,
    ModelError,
    OfferedTool,
    Usage,
)
from memory.context.types import ToolCall
from tests.agents.llm.anthropic import make_endpoint
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.openai import KEY, FakeProvider, Reply, call, completion

TRAVEL = OfferedTool(
    "travel",
    "Fly to a place.",
    {
        "type": "object",
        "properties": {"target_poi": {"type": "string", "title": "Target"}},
        "required": ["target_poi"],
    },
)
HELLO = [{"role": "user", "content": "Hello"}]
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You are Ada. <|im_start|>"},
    {"role": "user", "content": "first"},
    {"role": "user", "content": "second [INST] <start_of_turn>"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            call("get_ship", '{ "b" : 1,  "a": [ ] }', "x"),
            call("get_cargo", "{}", "y"),
        ],
    },
    {"role": "tool", "tool_call_id": "y", "content": "Error: not_docked: Not docked"},
    {"role": "tool", "tool_call_id": "x", "content": '{"hull": 85}'},
    {"role": "assistant", "content": "Fine."},
    {"role": "user", "content": "Go on: é \u200d 漢字"},
]


def endpoint(provider: FakeProvider, **changes: Any) -> Endpoint:
    values: dict[str, Any] = {
        "name": "openai:gpt-5-nano",
        "kind": "openai",
        "model": "gpt-5-nano",
        "window": 400_000,
        "base_url": provider.url,
        "key": KEY,
    }
    return Endpoint(**{**values, **changes})


async def ask(where: Endpoint, **changes: Any) -> Completion:
    return await complete(CompletionRequest(where, **{"messages": HELLO, **changes}))


async def failing(where: Endpoint, **changes: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(where, **changes)
    return caught.value


async def test_what_is_sent_is_what_was_given(provider: FakeProvider) -> None:
    await ask(endpoint(provider), messages=TALK)
    assert provider.messages == TALK


async def test_no_key_follows_a_redirect_to_another_origin(
    provider: FakeProvider, anthropic: FakeAnthropic
) -> None:
    """Neither as ``Authorization`` nor as ``x-api-key``, nor what was said."""
    with FakeProvider() as stranger:
        for home, where in (
            (provider, endpoint(provider)),
            (anthropic, make_endpoint(anthropic)),
        ):
            home.answer({}, 307, Location=f"{stranger.url}/chat/completions")
            error = await failing(where)
            assert f"redirects to {stranger.url}/chat/completions;" in error.detail
            assert not error.retryable
        assert stranger.raw == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_within_an_origin_is_not_followed(
    provider: FakeProvider, status: int
) -> None:
    provider.answer("", status, Location="/v2/chat/completions?token=secret")
    provider.answer(completion("Here."))
    error = await failing(endpoint(provider))
    moved = provider.url.replace("/v1", "/v2")
    assert f"redirects to {moved}/chat/completions; redirects are not" in error.detail
    assert "base URL" in error.remedy
    assert "secret" not in error.detail
    assert not error.retryable
    assert len(provider.raw) == 1


@st.composite
def talks(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Valid histories with odd texts, white space in arguments and parallel calls."""
    words = st.text(min_size=1, max_size=30).filter(str.strip)
    words = words.map(lambda t: t.encode("utf-8", "ignore").decode() or "x")
    tokens = st.sampled_from(
        ["<|im_end|>", "[/INST]", "<end_of_turn>", "\uff5cUser\uff5c"]
    )
    said = st.one_of(words, tokens)
    values = st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=2)
    spaced = st.builds(
        lambda v, i: json.dumps(v, indent=i), values, st.none() | st.just(3)
    )
    messages = [{"role": "user", "content": draw(said)}]
    for turn in range(draw(st.integers(0, 4))):
        calls = draw(st.lists(spaced, max_size=3))
        ids = [f"c{turn}_{index}" for index in range(len(calls))]
        assistant: dict[str, Any] = {"role": "assistant", "content": draw(said)}
        if calls:
            assistant["tool_calls"] = [
                call("tool", arguments, call_id)
                for arguments, call_id in zip(calls, ids, strict=True)
            ]
        messages.append(assistant)
        for call_id in draw(st.permutations(ids)):
            result = {"role": "tool", "tool_call_id": call_id, "content": draw(said)}
            messages.append(result)
        messages.append({"role": "user", "content": draw(said)})
    return messages


@given(talk=talks())
async def test_any_valid_history_goes_out_unchanged(
    provider: FakeProvider, talk: list[dict[str, Any]]
) -> None:
    await ask(endpoint(provider), messages=talk)
    assert provider.messages == talk


async def test_a_system_text_beside_the_messages_comes_first(
    provider: FakeProvider,
) -> None:
    await ask(endpoint(provider), system="Be brief.")
    assert provider.messages == [{"role": "system", "content": "Be brief."}, *HELLO]


async def test_tools_and_settings_are_sent(provider: FakeProvider) -> None:
    wanted = {"max_tokens": 500, "reasoning_effort": "low", "seed": None, "timeout": 9}
    await ask(endpoint(provider), tools=(TRAVEL,), settings=wanted)
    sent = provider.requests[-1]
    function = sent["tools"][0]["function"]
    assert function["name"] == "travel"
    assert function["description"] == "Fly to a place."
    assert function["parameters"]["properties"]["target_poi"]["type"] == "string"
    assert "strict" not in function
    assert sent["max_completion_tokens"] == 500
    assert sent["reasoning_effort"] == "low"
    assert "seed" not in sent
    assert not sent.get("stream")


async def test_a_body_that_is_no_object_is_one_clear_error(
    provider: FakeProvider,
) -> None:
    error = await failing(endpoint(provider), settings={"extra_body": ["top_k"]})
    assert "\n" not in str(error)
    assert provider.requests == []


async def test_a_text_answer(provider: FakeProvider) -> None:
    answer = await ask(endpoint(provider))
    assert answer.text == "Aye."
    assert answer.tool_calls == ()
    assert answer.usage == Usage(input=1000, output=200, cached=600)
    assert answer.finish_reason == "stop"
    assert answer.model == "gpt-5-nano-2025-08-07"
    assert answer.signature is None


async def test_the_price_is_the_list_price(provider: FakeProvider) -> None:
    answer = await ask(endpoint(provider))
    # 400 new tokens at 0.05, 600 cached at 0.005, 200 written at 0.40 per million.
    assert answer.cost == Decimal("0.000103")


async def test_an_unknown_price_is_zero(provider: FakeProvider) -> None:
    provider.answer({**completion(), "model": "local-llama"})
    answer = await ask(endpoint(provider, model="local-llama"))
    assert answer.cost == 0
    assert answer.usage.input == 1000


async def test_calls_keep_their_ids_order_and_bad_arguments(
    provider: FakeProvider,
) -> None:
    calls = [call("travel", '{"target_poi": ', "a"), call("mine", "", "b")]
    provider.answer(completion(None, tool_calls=calls))
    answer = await ask(endpoint(provider), tools=(TRAVEL,))
    assert answer.text == ""
    assert answer.tool_calls == (
        ToolCall("a", "travel", '{"target_poi":'),
        ToolCall("b", "mine", "{}"),
    )
    assert answer.finish_reason == "tool_call"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_kept_apart(provider: FakeProvider, field: str) -> None:
    provider.answer(completion("Aye.", **{field: "The belt is rich."}))
    answer = await ask(endpoint(provider))
    assert (answer.text, answer.reasoning) == ("Aye.", "The belt is rich.")


async def test_thoughts_in_tags_are_reasoning_too(provider: FakeProvider) -> None:
    provider.answer(completion("<think>Hm.</think>Aye."))
    answer = await ask(endpoint(provider))
    assert (answer.text, answer.reasoning) == ("Aye.", "Hm.")


async def test_a_refusal_is_the_text(provider: FakeProvider) -> None:
    provider.answer(completion(None, refusal="I cannot help with that."))
    answer = await ask(endpoint(provider))
    assert answer.text == "I cannot help with that."
    assert answer.finish_reason == "content_filter"


async def test_an_answer_without_usage_counts_nothing(provider: FakeProvider) -> None:
    body = completion()
    del body["usage"]
    provider.answer(body)
    answer = await ask(endpoint(provider))
    assert (answer.usage, answer.cost) == (Usage(), Decimal(0))


async def test_ollama_speaks_the_same(provider: FakeProvider) -> None:
    provider.answer({**completion(), "model": "gpt-oss:20b"})
    local = endpoint(provider, kind="ollama", model="gpt-oss:20b")
    answer = await ask(local, messages=TALK)
    assert provider.messages == TALK
    assert (answer.text, answer.cost) == ("Aye.", Decimal(0))


# -- failures --------------------------------------------------------------


async def test_an_unknown_model_tells_the_providers_text(
    provider: FakeProvider,
) -> None:
    error = await failing(endpoint(provider, model="gpt-99"))
    assert "The model `gpt-99` does not exist" in error.detail
    assert "404" in error.detail
    assert "name of the model" in error.remedy
    assert not error.retryable
    assert len(provider.requests) == 1


async def test_a_refused_key_is_in_no_text(provider: FakeProvider) -> None:
    wrong = "sk-wrong-key-9876543210"
    error = await failing(endpoint(provider, key=wrong))
    assert "401" in error.detail
    assert not error.retryable
    seen: BaseException | None = error
    while seen is not None:
        assert "9876543210" not in f"{seen!r} {seen}"
        seen = seen.__cause__
    assert "9876543210" not in repr(endpoint(provider, key=wrong))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_what_may_pass_is_retryable_and_sent_once(
    provider: FakeProvider, status: int
) -> None:
    provider.refuse(status, "Slow down.", Retry_After="7")
    error = await failing(endpoint(provider))
    assert (error.retryable, error.retry_after) == (True, 7.0)
    assert "Slow down" in error.detail
    assert len(provider.requests) == 1


async def test_a_date_and_milliseconds_to_wait(provider: FakeProvider) -> None:
    provider.refuse(429, "Later.", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")
    assert (await failing(endpoint(provider))).retry_after == 0
    provider.refuse(429, "Later.", Retry_After_Ms="1500")
    assert (await failing(endpoint(provider))).retry_after == 1.5
    provider.refuse(429, "Later.", Retry_After="soon")
    assert (await failing(endpoint(provider))).retry_after is None


@pytest.mark.parametrize("status", [400, 403, 408, 409, 422, 425])
async def test_other_refusals_are_final(provider: FakeProvider, status: int) -> None:
    provider.refuse(status, "No.", Retry_After="7")
    error = await failing(endpoint(provider))
    assert (error.retryable, error.retry_after) == (False, None)


async def test_a_view_that_the_api_refuses(provider: FakeProvider) -> None:
    dangling = [*HELLO, {"role": "assistant", "tool_calls": [call("mine")]}, *HELLO]
    error = await failing(endpoint(provider), messages=dangling)
    assert "must be followed by tool messages" in error.detail
    assert not error.retryable


@pytest.mark.parametrize(
    "body",
    [
        "<html>Bad gateway</html>",
        {"choices": []},
        {"choices": None, "usage": 3},
        {**completion(), "choices": [{"index": 0, "message": {"role": "assistant"}}]},
        {},
    ],
)
async def test_a_broken_answer_is_one_clear_error(
    provider: FakeProvider, body: Any
) -> None:
    provider.answer(body)
    try:
        answer = await ask(endpoint(provider))
    except ModelError as error:
        assert error.retryable
        assert "no completion" in error.detail
    else:
        assert (answer.text, answer.tool_calls) == ("", ())


async def test_too_slow(provider: FakeProvider) -> None:
    held = threading.Event()
    provider.answers.append(Reply(body=completion(), wait=held))
    error = await failing(endpoint(provider), settings={"timeout": 0.2})
    held.set()
    assert error.retryable
    assert "0.2 seconds" in error.detail


async def test_a_cancelled_call_ends_at_once(provider: FakeProvider) -> None:
    held = threading.Event()
    provider.answers.append(Reply(body=completion(), wait=held))
    task = asyncio.create_task(ask(endpoint(provider)))
    await asyncio.to_thread(provider.arrived.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert not held.is_set()
    held.set()


@pytest.mark.parametrize("seconds", ["soon", 0, -1, True])
async def test_a_timeout_that_is_none(provider: FakeProvider, seconds: object) -> None:
    error = await failing(endpoint(provider), settings={"timeout": seconds})
    assert "timeout" in error.detail
    assert not error.retryable


async def test_what_else_the_settings_put_in_the_body_is_sent_too(
    provider: FakeProvider,
) -> None:
    provider.answer(completion("Aye."))
    await ask(endpoint(provider), settings={"extra_body": {"top_k": 5}})
    assert provider.requests[0]["top_k"] == 5
    assert provider.requests[0]["messages"] == HELLO


async def test_our_name_prices_a_model_that_the_server_names_oddly(
    provider: FakeProvider,
) -> None:
    provider.answer({**completion(), "model": "proxy-7"})
    assert (await ask(endpoint(provider))).cost == Decimal("0.000103")
