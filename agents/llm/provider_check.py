"""One tiny request to a provider: what of it works, and what to do about the rest."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from importlib import import_module
from urllib.parse import urlsplit, urlunsplit

from agents.llm.complete import WIRES, complete
from agents.llm.context_windows import (
    Found,
    is_overflow,
    names_windows,
    read_limit,
    store_limit,
    store_window,
)
from agents.llm.endpoints import ask_window, resolve, resolve_in, resolve_row
from agents.llm.errors import is_missing_model
from agents.llm.model_types import (
    CompletionRequest,
    Endpoint,
    ModelError,
    ModelTimeoutError,
    OfferedTool,
    UnknownProviderError,
    UnreachableError,
)
from agents.models import Provider

SECONDS = 60.0
HELLO = [{"role": "user", "content": "This is a test. Answer with one word: ready."}]

# A model that reasons needs some room before its first word.
ROOM = 1024

REFUSED = (401, 403)
MISSING = 404

# How long somebody waits in front of a page.
PAGE_SECONDS = 20.0

KEY, ADDRESS, MODEL = "key", "base_url", "default_model"

# Nothing is tried again by itself here, and there is no turn to look at.
_REMEDIES = {
    400: "Check the name of the model, and that it can call tools.",
    429: "The provider limits its callers: wait a moment, then check again.",
}

_FAULT = "The provider has a fault: check again later."

_SLOW = (
    "A local server may still be loading the model: check again in a minute. "
    "Otherwise the address may be wrong."
)


# A tool that a model may call and need not: every turn offers some.
TOOL = OfferedTool(
    "report", "Say that you are ready.", {"type": "object", "properties": {}}
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check; no ``error`` where a Mysis could play with this model."""

    endpoint: Endpoint
    latency_ms: int
    error: ModelError | None

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
        """What became of the key: accepted, refused, none or unknown."""
        status = self.error.status if self.error else None
        if status in REFUSED:
            return "refused"
        if not self.endpoint.key:
            return "none"
        # No status: nobody answered, or something that never looked at a key.
        looked_at = self.error is None or status not in (None, MISSING)
        return "accepted" if looked_at or self.model_found is False else "unknown"


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
    error, latency, found = asyncio.run(_requests(endpoint, seconds))
    if names_windows(endpoint.kind, endpoint.base_url):
        store_window(endpoint, found)
    if error is not None and (limit := read_limit(error)):
        store_limit(endpoint, limit)
    return Check(endpoint, latency, error)


async def _requests(
    endpoint: Endpoint, seconds: float
) -> tuple[ModelError | None, int, Found | None]:
    import_module(WIRES[endpoint.kind])  # A second, which is not the provider's.
    settings = {"max_tokens": ROOM, "timeout": seconds}
    started = time.monotonic()
    error: ModelError | None = None
    try:
        await complete(
            CompletionRequest(endpoint, HELLO, tools=(TOOL,), settings=settings)
        )
    except ModelError as caught:
        error = caught
    latency = round((time.monotonic() - started) * 1000)
    # Afterwards: what a local server runs with is known once it has loaded the model.
    silent = isinstance(error, UnreachableError)
    return error, latency, None if silent else await ask_window(endpoint)


def clean_address(endpoint: Endpoint) -> str:
    """The base URL, without a user and password that may stand in it."""
    parts = urlsplit(endpoint.base_url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


# --- From a page


@dataclass(frozen=True, slots=True)
class ProviderTrial:
    """What a page says of a check: whether a Mysis could play with the provider, and why.

    ``field`` is the one to blame: key, base_url or default_model; empty where none is.
    """

    good: bool
    words: str
    field: str = ""


def try_provider(row: Provider) -> ProviderTrial:
    """Check a row, saved or not; waits half a minute at most, and never names a key."""
    try:
        endpoint = resolve_row(row)
    except ModelError as error:
        if not row.default_model:
            words = "No model is named, so nothing could be asked. Name one."
            return ProviderTrial(False, words, MODEL)
        return ProviderTrial(False, str(error), KEY)
    found = check_endpoint(endpoint, PAGE_SECONDS)
    if found.error is not None:
        words = f"{found.error.detail} {_remedy(found, found.error)}".strip()
        return ProviderTrial(False, words, _blamed(found, found.error))
    return ProviderTrial(True, _welcome(row, found))


def _welcome(row: Provider, found: Check) -> str:
    # Once more, with what the check has taught of the window.
    known = resolve_row(row)
    reads = f"It reads {known.window:,} tokens at once."
    if known.window_source == "unknown":
        reads = (
            f"How much it reads is not known: {known.window:,} tokens are assumed. "
            "Set the window of the provider in the admin."
        )
    seconds = found.latency_ms / 1000
    return (
        f"Provider {row.name} works: {known.model} answered in {seconds:.1f} s. {reads}"
    )


def _remedy(found: Check, error: ModelError) -> str:
    if found.model_found is False or is_overflow(error):
        return error.remedy
    if not found.reachable and not isinstance(error, UnreachableError):
        return _SLOW
    status = error.status or 0
    return _FAULT if status >= 500 else _REMEDIES.get(status, error.remedy)


def _blamed(found: Check, error: ModelError) -> str:
    if found.key == "refused":
        return KEY
    if found.model_found is False:
        return MODEL
    # No status: nobody is there, or something that is no API of models.
    return ADDRESS if error.status in (None, 404) else ""
