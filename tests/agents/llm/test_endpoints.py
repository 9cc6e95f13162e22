"""From a model's name to its endpoint, with rows and environment."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from agents.llm.context_windows import PILOT, UNKNOWN
from agents.llm.endpoints import resolve
from agents.llm.model_types import ModelError, UnknownProviderError
from agents.models import Provider
from tests.factories import make_provider

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def environment(settings: Any) -> Any:
    """Nothing but an OpenAI key, whatever the machine has."""
    settings.OPENAI_BASE_URL = ""
    settings.OPENAI_API_KEY = "sk-env-openai"
    settings.ANTHROPIC_API_KEY = ""
    settings.OLLAMA_BASE_URL = ""
    return settings


def add(name: str, **fields: Any) -> Provider:
    key = fields.pop("key", "")
    return make_provider(name=name, **{"kind": "openai", **fields}, key=key)


def test_the_pilot_needs_nothing() -> None:
    found = resolve("pilot")
    assert (found.kind, found.window, found.dialect) == ("pilot", PILOT, "openai")


def test_a_model_of_the_environment() -> None:
    found = resolve("openai:gpt-5-nano")
    assert found.name == "openai:gpt-5-nano"
    assert (found.kind, found.model, found.base_url) == ("openai", "gpt-5-nano", "")
    assert (found.key, found.window) == ("sk-env-openai", 400_000)


def test_the_environments_address(environment: Any) -> None:
    environment.OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    environment.OPENAI_API_KEY = ""
    found = resolve("openai:local")
    assert (found.base_url, found.key) == ("http://127.0.0.1:9/v1", "")


def test_anthropic(environment: Any) -> None:
    environment.ANTHROPIC_API_KEY = "sk-ant"
    found = resolve("anthropic:claude-haiku-4-5")
    assert (found.dialect, found.window) == ("anthropic", 200_000)


@pytest.mark.parametrize(
    ("configured", "used"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("http://gpu:11434", "http://gpu:11434/v1"),
        ("http://gpu:11434/", "http://gpu:11434/v1"),
        ("http://gpu/api/v1", "http://gpu/api/v1"),
    ],
)
def test_ollama_and_its_address(environment: Any, configured: str, used: str) -> None:
    environment.OLLAMA_BASE_URL = configured
    found = resolve("ollama:qwen3:4b")
    assert (found.model, found.base_url, found.window) == ("qwen3:4b", used, UNKNOWN)


def test_a_row_wins_over_the_environment() -> None:
    add("openai", base_url="http://proxy/v1", key="sk-row", window=32_000)
    found = resolve("openai:gpt-5-nano")
    assert (found.base_url, found.key) == ("http://proxy/v1", "sk-row")
    assert found.window == 32_000


def test_a_row_never_takes_the_environments_key_to_another_address() -> None:
    add("openai", base_url="http://elsewhere/v1")
    assert resolve("openai:gpt-5-nano").key == ""


def test_a_row_without_an_address_is_the_environments_own() -> None:
    add("work", default_model="gpt-5-nano")
    found = resolve("work")
    assert (found.model, found.key) == ("gpt-5-nano", "sk-env-openai")


def test_a_row_by_its_own_name_with_colons() -> None:
    add("lab:a", base_url="http://a/v1")
    add("lab", base_url="http://b/v1")
    assert resolve("lab:a:llama:8b").base_url == "http://a/v1"
    assert resolve("lab:a:llama:8b").model == "llama:8b"
    assert resolve("lab:b").base_url == "http://b/v1"


def test_a_row_of_kind_pilot() -> None:
    add("autopilot", kind="pilot")
    assert resolve("autopilot").kind == "pilot"


@pytest.mark.parametrize("name", ["mistral:large", "gpt-5-nano", "", ":x", "OpenAI:x"])
def test_an_unknown_provider(name: str) -> None:
    with pytest.raises(UnknownProviderError) as caught:
        resolve(name)
    assert not caught.value.retryable
    assert "openai" in caught.value.remedy


@pytest.mark.parametrize("name", ["openai", "openai:", "openai: "])
def test_no_model(name: str) -> None:
    with pytest.raises(ModelError, match="no model"):
        resolve(name)


@pytest.mark.parametrize("name", ["openai:gpt-5-nano", "anthropic:claude-haiku-4-5"])
def test_no_key(environment: Any, name: str) -> None:
    environment.OPENAI_API_KEY = ""
    with pytest.raises(ModelError) as caught:
        resolve(name)
    assert f"{name.partition(':')[0].upper()}_API_KEY" in caught.value.remedy


def test_a_key_that_cannot_be_read(environment: Any) -> None:
    add("work", base_url="http://a/v1", key="sk-row")
    environment.ZOEA_KEYS = ["another key than before"]
    with pytest.raises(ModelError, match="work") as caught:
        resolve("work:x")
    assert "ZOEA_SECRET_KEY" in caught.value.remedy


def test_no_key_in_any_representation() -> None:
    found = resolve("openai:gpt-5-nano")
    assert "sk-env-openai" not in f"{found!r} {found}"


def test_an_unknown_window_is_small_and_nothing_is_said_before_it_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    add("lab", base_url="http://a/v1", key="k", window=None)
    with caplog.at_level(logging.WARNING, "agents.llm"):
        assert resolve("lab:never-heard-of-1").window == UNKNOWN
    assert caplog.messages == []
