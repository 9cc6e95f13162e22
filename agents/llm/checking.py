"""One tiny request to a provider: what of it works, and what to do about the rest."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from importlib import import_module
from urllib.parse import urlsplit, urlunsplit

from agents.llm.asking import ask
from agents.llm.endpoints import resolve, resolve_in
from agents.llm.model import WIRES, complete
from agents.llm.model_lists import Found
from agents.llm.overflow import limit_of
from agents.llm.types import (
    Endpoint,
    ModelError,
    ModelTimeoutError,
    UnknownProviderError,
    UnreachableError,
)
from agents.llm.windows import keep, learn, tells

SECONDS = 60.0
HELLO = [{"role": "user", "content": "This is a test. Answer with one word: ready."}]
# A model that reasons needs some room before its first word.
ROOM = 1024
REFUSED = (401, 403)
MISSING = 404
# A wrong address gives a 404 too, but its page speaks of no model.
_NO_MODEL = re.compile(
    r"404\b.*\bmodel|400\b.*\bmodel.*(?:not exist|not found|unknown|invalid)"
    r"|400\b.*not a valid model",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that a model may call and need not: every turn offers some."""

    name: str
    description: str
    parameters: dict[str, object]


TOOL = Offered(
    "report", "Say that you are ready.", {"type": "object", "properties": {}}
)


@dataclass(frozen=True, slots=True)
class Check:
    """What came of it. None means that it could not be found out.

    ``key`` is accepted, refused, none or unknown; ``latency_ms`` that of the whole
    request. ``error`` is None where a Mysis could play with this model.
    """

    endpoint: Endpoint
    reachable: bool
    key: str
    model_found: bool | None
    latency_ms: int
    error: ModelError | None

    @property
    def address(self) -> str:
        """Where it was asked, without any password in it."""
        return address_of(self.endpoint)


def find(name: str, model: str) -> Endpoint:
    """The endpoint of a provider, or of a full model name where no model is given.

    Raises UnknownProviderError, and ModelError where a model or a key is missing.
    """
    try:
        return resolve_in(name, model)
    except UnknownProviderError:
        if model or ":" not in name:
            raise
        return resolve(name)


def check(endpoint: Endpoint, seconds: float = SECONDS) -> Check:
    """Make the request, and keep what is learnt of the window.

    Waits so many seconds at most, and a few more for what the model can read.
    """
    error, latency, found = asyncio.run(_requests(endpoint, seconds))
    if tells(endpoint.kind, endpoint.base_url):
        keep(endpoint, *(found or (None, "")))
    if error is not None and (limit := limit_of(error)):
        learn(endpoint, limit)
    return Check(
        endpoint,
        reachable=not isinstance(error, (UnreachableError, ModelTimeoutError)),
        key=_key(endpoint, error),
        model_found=_model_found(error),
        latency_ms=latency,
        error=error,
    )


async def _requests(
    endpoint: Endpoint, seconds: float
) -> tuple[ModelError | None, int, Found | None]:
    import_module(WIRES[endpoint.kind])  # A second, which is not the provider's.
    settings = {"max_tokens": ROOM, "timeout": seconds}
    started = time.monotonic()
    error: ModelError | None = None
    try:
        await complete(
            endpoint, messages=HELLO, system=None, tools=(TOOL,), settings=settings
        )
    except ModelError as caught:
        error = caught
    latency = round((time.monotonic() - started) * 1000)
    # Afterwards: what a local server runs with is known once it has loaded the model.
    silent = isinstance(error, UnreachableError)
    return error, latency, None if silent else await ask(endpoint)


def _key(endpoint: Endpoint, error: ModelError | None) -> str:
    if error is not None and error.status in REFUSED:
        return "refused"
    if not endpoint.key:
        return "none"
    # No status: nobody answered, or something that never looked at a key.
    looked_at = error is None or error.status not in (None, MISSING)
    return "accepted" if looked_at or _model_found(error) is False else "unknown"


def _model_found(error: ModelError | None) -> bool | None:
    if error is None:
        return True
    said = error.detail.partition(" answered ")[2]
    return False if _NO_MODEL.match(said) else None


def address_of(endpoint: Endpoint) -> str:
    """The base URL, without a user and password that may stand in it."""
    parts = urlsplit(endpoint.base_url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
