"""One tiny request to a provider: what of it works, and what to do about the rest."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from importlib import import_module
from urllib.parse import urlsplit, urlunsplit

from agents.llm.complete import WIRES, complete
from agents.llm.context_windows import (
    Found,
    names_windows,
    read_limit,
    store_limit,
    store_window,
)
from agents.llm.endpoints import ask_window, resolve, resolve_in
from agents.llm.model_types import (
    CompletionRequest,
    Endpoint,
    ModelError,
    ModelTimeoutError,
    OfferedTool,
    UnknownProviderError,
    UnreachableError,
    is_missing_model,
)

SECONDS = 60.0
# For the same request without the key: a refusal comes soon.
KEYLESS_SECONDS = 5.0
HELLO = [{"role": "user", "content": "This is a test. Answer with one word: ready."}]

# A model that reasons needs some room before its first word.
ROOM = 1024

REFUSED = (401, 403)
# From a proxy or the network: nobody has looked at the key.
UNSEEN = (407, 408)
MISSING = 404

# A tool that a model may call and need not: every turn offers some.
TOOL = OfferedTool(
    "report", "Say that you are ready.", {"type": "object", "properties": {}}
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check; no ``error`` where the model answered.

    ``asks_key``: whether it makes a difference that a key is sent; None where that was
    not found out.
    """

    endpoint: Endpoint
    latency_ms: int
    error: ModelError | None
    asks_key: bool | None = None

    @property
    def reachable(self) -> bool:
        return not isinstance(self.error, (UnreachableError, ModelTimeoutError))

    @property
    def model_found(self) -> bool | None:
        """Whether the provider has the model; None where that was not found out."""
        if self.error is None:
            return True
        return False if is_missing_model(self.error.detail) else None

    @property
    def key(self) -> str:
        """What became of the key: accepted, refused, none, unasked or unknown."""
        if self.error is not None and self.error.status in REFUSED:
            return "refused"
        if not self.endpoint.key:
            return "none"
        return {True: "accepted", False: "unasked", None: "unknown"}[self.asks_key]


def find_endpoint(name: str, model: str) -> Endpoint:
    """The endpoint of a provider's model, or of a full name; raises as `resolve`."""
    try:
        return resolve_in(name, model)
    except UnknownProviderError:
        if model or ":" not in name:
            raise
        return resolve(name)


def check_endpoint(endpoint: Endpoint, seconds: float = SECONDS) -> Check:
    """Make the request, within these seconds and a few more, and keep its window."""
    found, window = asyncio.run(_check(endpoint, seconds))
    if names_windows(endpoint.kind, endpoint.base_url):
        store_window(endpoint, window)
    if found.error is not None and (limit := read_limit(found.error)):
        store_limit(endpoint, limit)
    return found


async def _check(endpoint: Endpoint, seconds: float) -> tuple[Check, Found | None]:
    import_module(WIRES[endpoint.kind])  # A second, which is not the provider's.
    started = time.monotonic()
    error = await _request(endpoint, seconds)
    latency = round((time.monotonic() - started) * 1000)
    asks_key = await _asks_key(endpoint, error)
    # Afterwards: what a local server runs with is known once it has loaded the model.
    silent = isinstance(error, UnreachableError)
    window = None if silent else await ask_window(endpoint)
    return Check(endpoint, latency, error, asks_key), window


async def _request(endpoint: Endpoint, seconds: float) -> ModelError | None:
    settings = {"max_tokens": ROOM, "timeout": seconds}
    try:
        await complete(
            CompletionRequest(endpoint, HELLO, tools=(TOOL,), settings=settings)
        )
    except ModelError as error:
        return error
    return None


async def _asks_key(endpoint: Endpoint, error: ModelError | None) -> bool | None:
    """Whether another answer came with the key than comes without it."""
    status = error.status if error else None
    # Of nobody, and of a page that is no API, there is nothing to compare.
    unknown = error is not None and (
        status is None or (status == MISSING and not is_missing_model(error.detail))
    )
    if not endpoint.key or status in REFUSED or unknown:
        return None
    if not endpoint.base_url:
        # The provider's own address, which refuses every request without a key.
        looked_at = status is None or (400 <= status < 500 and status not in UNSEEN)
        return True if looked_at else None
    keyless = await _request(replace(endpoint, key=""), KEYLESS_SECONDS)
    other = keyless.status if keyless else None
    if keyless is None:
        return False
    if other in REFUSED or (error is None and 400 <= (other or 0) < 429):
        return True
    return None


def clean_address(endpoint: Endpoint) -> str:
    """The base URL, without a user and password that may stand in it."""
    parts = urlsplit(endpoint.base_url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
