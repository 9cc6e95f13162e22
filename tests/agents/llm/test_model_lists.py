"""The window in what real servers tell of their models."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.context_windows import (
    ollama_default_window,
    ollama_running_window,
    window_in_entry,
    window_in_list,
)

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
    assert window_in_entry(entry) == (tokens, field)


@pytest.mark.parametrize("value", [0, -1, None, True, "many", "", 1.5, [], 2**31, {}])
def test_what_is_no_window(value: object) -> None:
    assert window_in_entry({"context_length": value, "meta": value}) is None


def test_the_entry_of_the_model() -> None:
    body = {"object": "list", "data": [{**VLLM, "id": "other"}, ROUTER, VLLM]}
    assert window_in_list(body, "qwen") == (16384, "max_model_len")
    assert window_in_list(body, "unheard") is None
    # A server that runs one model answers under any name.
    assert window_in_list({"data": [LLAMA]}, "gpt-5") == (8192, "meta.n_ctx")
    assert window_in_list([LLAMA], "gpt-5") == (8192, "meta.n_ctx")


def test_what_ollama_runs_now() -> None:
    loaded = {"name": "qwen3:4b", "model": "qwen3:4b", "context_length": 4096}
    tagged = {"name": "llama3:latest", "context_length": 32768}
    body = {"models": [loaded, tagged]}
    assert ollama_running_window(body, "qwen3:4b") == (4096, "/api/ps context_length")
    assert ollama_running_window(body, "llama3") == (32768, "/api/ps context_length")
    assert ollama_running_window(body, "qwen3") is None
    assert ollama_running_window({"models": None}, "qwen3") is None


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
    told = ollama_default_window({"parameters": parameters, "model_info": info})
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
        window_in_list(body, "x"),
        ollama_running_window(body, "x"),
        ollama_default_window(body),
    ):
        assert found is None or 0 < found[0] < 2**31
