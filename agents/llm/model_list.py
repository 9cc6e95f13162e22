"""Which models a provider has, asked of the provider itself.

Only where somebody chooses a model: asking costs nothing, but takes up to `SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import httpx2

from agents.llm.endpoints import build_key_headers, list_providers, resolve
from agents.llm.model_types import Endpoint, ModelError, UnknownProviderError
from agents.llm.wires import http

log = logging.getLogger(__name__)
SECONDS = 4.0
# Providers that are asked, models of one that are offered, and signs of a name.
MOST_PROVIDERS, MOST_MODELS, LONGEST = 20, 500, 200
# Similar names that a warning says.
NAMED = 3
REFUSED = (401, 403)
OFFICIAL = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}


@dataclass(frozen=True, slots=True)
class ModelList:
    """What a provider said of its models; ``models`` is None where it said nothing.

    ``silent`` means that nobody answered, ``refused`` that the key was not taken.
    """

    provider: str
    models: tuple[str, ...] | None = None
    silent: bool = False
    refused: bool = False

    @property
    def names(self) -> list[str]:
        """The models as a Mysis names them, with their provider."""
        return [f"{self.provider}:{model}" for model in self.models or ()]


def list_models() -> list[ModelList]:
    """Ask all providers at once."""
    return asyncio.run(_ask_all(list_providers()[:MOST_PROVIDERS]))


def find_model_problem(model: str) -> str:
    """Why a model cannot work as its provider says now; empty where it may.

    Raises UnknownProviderError.
    """
    try:
        endpoint = resolve(model)
    except ModelError as error:
        if isinstance(error, UnknownProviderError):
            raise
        return str(error)
    if endpoint.kind == "pilot":
        return ""
    [said] = asyncio.run(_ask_all([endpoint]))
    return _describe_problem(endpoint, said)


def _describe_problem(endpoint: Endpoint, said: ModelList) -> str:
    if said.refused and not endpoint.key:
        return f"{said.provider} asks for a key: give the provider one."
    if said.refused:
        return f"{said.provider} refuses its key: give the provider another one."
    if said.silent:
        return f"{said.provider} does not answer: is it running, at that address?"
    known = said.models
    # Of the longest lists only the beginning is read.
    if known is None or len(known) >= MOST_MODELS:
        return ""
    model = endpoint.model
    if model in known or (endpoint.kind == "ollama" and f"{model}:latest" in known):
        return ""
    similar = get_close_matches(model, known, NAMED, 0.4)
    hint = f" It has {', '.join(similar)}." if similar else ""
    return f"{said.provider} does not list a model {model[:LONGEST]}.{hint}"


async def _ask_all(endpoints: Sequence[Endpoint]) -> list[ModelList]:
    return list(await asyncio.gather(*map(_ask, endpoints)))


async def _ask(endpoint: Endpoint) -> ModelList:
    # A model's name begins with its provider's, which may hold colons too.
    provider = endpoint.name.removesuffix(f":{endpoint.model}")
    try:
        async with asyncio.timeout(SECONDS), http.open_client() as client:
            answer = await client.get(
                _address(endpoint), headers=build_key_headers(endpoint)
            )
            if answer.status_code in REFUSED:
                return ModelList(provider, refused=True)
            found = _read_names(answer.json()) if answer.is_success else None
    except (TimeoutError, httpx2.TimeoutException, httpx2.NetworkError):
        return ModelList(provider, silent=True)
    except Exception as error:
        # Whatever a stranger's list may hold: then nothing is known of its models.
        log.info("%s did not list its models: %r", provider, type(error).__name__)
        return ModelList(provider)
    return ModelList(provider, found)


def _address(endpoint: Endpoint) -> str:
    base = (endpoint.base_url or OFFICIAL[endpoint.kind]).rstrip("/")
    whole = "/v1/models?limit=1000"
    return base + (whole if endpoint.kind == "anthropic" else "/models")


def _read_names(body: object) -> tuple[str, ...] | None:
    data: Any = body.get("data") if isinstance(body, Mapping) else body
    if not isinstance(data, list):
        return None
    names = (one.get("id") for one in data if isinstance(one, Mapping))
    plain = (n for n in names if isinstance(n, str) and 0 < len(n) <= LONGEST)
    return tuple(dict.fromkeys(n for n in plain if n.isprintable()))[:MOST_MODELS]
