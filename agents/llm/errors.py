"""What a provider's refusals mean: its own words, cleaned of keys, and what to do about them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRequestTimeout,
    UserError,
)

from agents.llm.context_windows import CODES, is_overflow
from agents.llm.model_types import (
    Endpoint,
    ModelError,
    UnreachableError,
    is_missing_model,
)
from agents.llm.wires.http import RedirectedError, TooLargeError
from agents.models import ErrorCode
from memory.gamestate.values import repair_text

ErrorT = TypeVar("ErrorT", bound=Exception)

_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_DEEPEST = 6

# Characters of a provider's own words that are kept.
LONGEST = 500

# Phases of a connection in which a request has not left.
NOT_SENT = ("pool", "connect")

_GOT = re.compile(r"Expected a JSON response, got: ['\"]?")
_MANUAL = re.compile(r" *For further information visit \S+")

# Providers repeat a refused key, mostly shortened by stars.
_KEY = re.compile(r"\b(?:sk|key|pk)-[\w*.…-]{4,}")

# What to do about a status, and where that is done.
_REMEDIES = {
    401: ("Check the API key of the provider.", ErrorCode.KEY),
    402: ("Check the balance of the provider's account.", ErrorCode.KEY),
    403: ("Check what the API key of the provider is allowed to do.", ErrorCode.KEY),
    404: (
        "Check the name of the model and the base URL of the provider.",
        ErrorCode.PROVIDER,
    ),
    413: ("Choose a smaller budget in the context policy.", ErrorCode.CONTEXT),
    429: (
        "The provider limits its callers; it is tried again later.",
        ErrorCode.PROVIDER,
    ),
}

_REQUEST = (
    "Look at the request that was sent, in the turn's context.",
    ErrorCode.REQUEST,
)

_SERVER = "The provider has a fault; it is tried again later."

_ENDING = {
    "openai": "it mostly ends in /v1",
    "ollama": "it mostly ends in :11434",
    "anthropic": "it has no /v1 at its end",
    "pilot": "it needs none",
}

_OVERFLOW = (
    "Choose a smaller budget in the context policy, or give the provider the window "
    "that its model really has."
)


def make_model_error(endpoint: Endpoint, error: Exception) -> ModelError:
    """Turn whatever a call raised into a ModelError without any key in it."""
    if isinstance(error, ModelHTTPError):
        return _refused(endpoint, error)
    said = _clean(endpoint, str(error) or type(error).__name__)
    if redirected := _caused_by(error, RedirectedError):
        return ModelError(
            f"{endpoint.name} redirects to {redirected.address[:LONGEST] or 'no address'}"
            "; redirects are not followed.",
            "Set the base URL of the provider to where its API is.",
        )
    if large := _caused_by(error, TooLargeError):
        return ModelError(
            f"{endpoint.name} answered {large}, and the rest was not read.",
            "Limit the answers by max_tokens in the model settings, and check the base "
            "URL of the provider.",
            retryable=True,
        )
    if isinstance(error, (ModelConnectionError, ModelRequestTimeout)):
        unreachable = UnreachableError(
            f"{endpoint.name} could not be reached: {said}.",
            "Check that the provider is up and its base URL is right.",
            retryable=True,
        )
        unreachable.sent = getattr(error, "phase", None) not in NOT_SENT
        return unreachable
    if isinstance(error, UserError):
        return ModelError(
            f"The call of {endpoint.name} could not be made: {said}.",
            "Check the model settings of the Mysis and the provider.",
        )
    # With one of these the answer came, but was not JSON.
    undecoded = isinstance(error.__cause__, ValueError) or _GOT.match(str(error))
    if isinstance(error, ModelAPIError) and not undecoded:
        return ModelError(f"{endpoint.name} failed: {said}.", _SERVER, retryable=True)
    return ModelError(
        f"{endpoint.name} answered something that is no completion: {said}.",
        f"Check that the base URL is that of its API ({_ENDING[endpoint.kind]}).",
        retryable=True,
    )


def _refused(endpoint: Endpoint, error: ModelHTTPError) -> ModelError:
    status = error.status_code
    said = _clean(endpoint, read_provider_text(error.body))
    retryable = status == 429 or status >= 500
    remedy, code = _REMEDIES.get(status, _REQUEST)
    detail = f"{endpoint.name} answered {status}{f': {said}' if said else ''}."
    if status >= 500:
        remedy, code = _SERVER, ErrorCode.PROVIDER
    elif is_missing_model(detail):
        remedy, code = _REMEDIES[404]
    refusal = ModelError(
        detail,
        remedy,
        retryable=retryable,
        retry_after=read_retry_after(error.headers or {}) if retryable else None,
        status=status,
        code=code,
    )
    if not is_overflow(refusal):
        return refusal
    # The same request never passes, even where a server calls it its own fault. After a
    # 400 the request is what to look at first, whatever its words say.
    code = ErrorCode.REQUEST if status == 400 else ErrorCode.CONTEXT
    return ModelError(refusal.detail, _OVERFLOW, status=status, code=code)


def _caused_by(error: BaseException | None, kind: type[ErrorT]) -> ErrorT | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a provider asks to wait, None where it does not."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        return _until(value)


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _clean(endpoint: Endpoint, text: str) -> str:
    """One bounded line without the key and without a full stop at its end."""
    if endpoint.key:
        text = text.replace(endpoint.key, "[key]")
    text = shorten_page(_GOT.sub("", _MANUAL.sub("", text[: LONGEST * 20])))
    text = " ".join(repair_text(_KEY.sub("[key]", text)).split())
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    return text.rstrip(". ")


def read_provider_text(body: object, depth: int = 0) -> str:
    """The provider's own sentence, with what helps an operator beside it.

    A router's "Provider returned error" is followed by what that provider said, a
    refusal for its length by the sizes that stand beside it.
    """
    if isinstance(body, str):
        return shorten_page(body)
    if not isinstance(body, Mapping) or depth > _DEEPEST:
        return ""
    for key in ("error", "message", "detail"):
        if found := read_provider_text(body.get(key), depth + 1):
            return " ".join([found, *_beside(found, body, depth)])
    return ""


def _beside(found: str, body: Mapping[str, object], depth: int) -> list[str]:
    metadata = body.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    inner = read_provider_text(_parsed(raw), depth + 1)
    codes = [body.get("code"), body.get("type")]
    sizes = [(key, body.get(key)) for key in ("n_prompt_tokens", "n_ctx")]
    more = [f"{key} {size}" for key, size in sizes if isinstance(size, int)]
    more += [str(code) for code in codes if code in CODES and str(code) not in found]
    return [*([inner] if inner else []), *([f"({', '.join(more)})"] if more else [])]


def _parsed(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def shorten_page(text: str) -> str:
    """A page of HTML as its title; any other text as it is."""
    if not _PAGE.match(text):
        return text
    title = _TITLE.search(text)
    return f'an HTML page, "{title[1].strip()}"' if title else "an HTML page"
