"""Whether a provider refused a request because it was too long, and how long it may be.

Every server words this in its own way and few send a code, so it is read from the
text. A limit of tokens per minute reads much the same, but there a smaller request is
no remedy.
"""

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

from agents.llm.model_types import Endpoint, ModelError, UnreachableError
from agents.llm.wires.http import RedirectedError, TooLargeError
from agents.models import ErrorCode
from memory.gamestate.values import clean_text

CODES = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "request_too_large",
)
"""What some servers call it in the ``code`` or ``type`` of an error."""

_NUMBER = r"(\d[\d,_]*)"
# With the limit. Every server's own words, most of them seen from several.
_LIMITS = tuple(
    re.compile(pattern.replace("N", _NUMBER), re.IGNORECASE)
    for pattern in (
        # OpenAI, DeepSeek, vLLM, OpenRouter; the limit comes first.
        r"(?:maximum|model's) context length (?:is|of)(?: only)? N",
        # Anthropic: without and with the tokens of the answer.
        r"prompt is too long: \d+ tokens > N",
        r"exceed context limit: \d+ \+ \d+ > N",
        # llama.cpp and what is built on it, Ollama too.
        r"available context size \(N tokens",
        r"\bn_ctx:? N",
        r"exceed context window of N",
        # vLLM's engine, text-generation-inference, Mistral, xAI, Google.
        r"maximum (?:model|input|prompt) length (?:is|of)(?: only)? N",
        r"too long and exceeds limit of N",
        r"tokens? \+ `?max_new_tokens`? must be <= N",
        r"too large for model with N maximum context length",
        r"exceeds the maximum number of tokens allowed \(N\)",
    )
)
# Without any limit in the text.
_WORDS = re.compile(
    r"maximum context length"
    r"|exceeds? (?:the |this model's )?(?:\w+ )?context (?:window|length|size|limit)"
    r"|exceeded max context length"
    r"|(?:prompt|input) is too long"
    r"|input length exceeds"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|context window exceeds limit"
    r"|greater than the context length"
    r"|request exceeds the maximum size"
    rf"|{'|'.join(CODES)}",
    re.IGNORECASE,
)
# A budget of tokens over time, a key, an account: nothing that less text would mend.
_NEVER = re.compile(
    r"rate.?limit|per.?min(?:ute)?\b|\b[TR]P[MD]\b|quota|per day|api key", re.IGNORECASE
)
_NOT_THESE = (401, 402, 403, 404, 408, 429)
_TOO_LARGE = 413


def is_overflow(error: ModelError) -> bool:
    """Whether the request was too long for the model, so that a shorter one may do."""
    text = error.detail
    if error.status in _NOT_THESE or _NEVER.search(text):
        return False
    if error.status == _TOO_LARGE:
        return True
    return bool(_WORDS.search(text)) or _limit_in(text) is not None


def limit_of(error: ModelError) -> int | None:
    """The model's window in tokens as the refusal names it; None where it does not.

    The answer's own tokens count towards it.
    """
    return _limit_in(error.detail) if is_overflow(error) else None


def _limit_in(text: str) -> int | None:
    for pattern in _LIMITS:
        if found := pattern.search(text):
            return int(found[1].replace(",", "").replace("_", "")) or None
    return None


# SECTION What a provider says in the body of an error, however it is wrapped.

_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_DEEPEST = 6


def provider_text(body: object, depth: int = 0) -> str:
    """The provider's own sentence, with what tells an operator more than that.

    A router's "Provider returned error" is followed by what that provider said, a
    refusal for its length by the sizes that stand beside it.
    """
    if isinstance(body, str):
        return page_text(body)
    if not isinstance(body, Mapping) or depth > _DEEPEST:
        return ""
    for key in ("error", "message", "detail"):
        if found := provider_text(body.get(key), depth + 1):
            return " ".join([found, *_beside(found, body, depth)])
    return ""


def page_text(text: str) -> str:
    """A page of HTML as its title; any other text as it is."""
    if not _PAGE.match(text):
        return text
    title = _TITLE.search(text)
    return f'an HTML page, "{title[1].strip()}"' if title else "an HTML page"


def _beside(found: str, body: Mapping[str, object], depth: int) -> list[str]:
    metadata = body.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    inner = provider_text(_parsed(raw), depth + 1)
    codes = [body.get("code"), body.get("type")]
    sizes = [(key, body.get(key)) for key in ("n_prompt_tokens", "n_ctx")]
    told = [f"{key} {size}" for key, size in sizes if isinstance(size, int)]
    told += [str(code) for code in codes if code in CODES and str(code) not in found]
    return [*([inner] if inner else []), *([f"({', '.join(told)})"] if told else [])]


def _parsed(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


# SECTION What a provider's refusals mean for us.

ErrorT = TypeVar("ErrorT", bound=Exception)

LONGEST = 500
"""Characters of a provider's own words that are kept."""

NOT_SENT = ("pool", "connect")
"""Phases of a connection in which a request has not left."""

# Providers repeat a refused key, mostly shortened by stars.
_GOT = re.compile(r"Expected a JSON response, got: ['\"]?")
_MANUAL = re.compile(r" *For further information visit \S+")
_KEY = re.compile(r"\b(?:sk|key|pk)-[\w*.…-]{4,}")

_REMEDIES = {
    400: "Look at the request that was sent, in the turn's context.",
    401: "Check the API key of the provider.",
    402: "Check the balance of the provider's account.",
    403: "Check what the API key of the provider is allowed to do.",
    404: "Check the name of the model and the base URL of the provider.",
    413: "Choose a smaller budget in the context policy.",
    429: "The provider limits its callers; it is tried again later.",
}
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


def as_model_error(endpoint: Endpoint, error: Exception) -> ModelError:
    """Turn whatever a call raised into a ModelError without any key in it."""
    if isinstance(error, ModelHTTPError):
        return _refused(endpoint, error)
    said = _clean(endpoint, str(error) or type(error).__name__)
    if redirected := _caused_by(error, RedirectedError):
        return ModelError(
            f"{endpoint.name} redirects to {redirected.origin}, where no key is sent.",
            "Set the base URL of the provider to the address that is meant.",
        )
    if large := _caused_by(error, TooLargeError):
        return ModelError(
            f"{endpoint.name} answered {large}, and the rest was not read.",
            "Limit the answers by max_tokens in the model settings, and check the base "
            "URL of the provider.",
            retryable=True,
        )
    if isinstance(error, (ModelConnectionError, ModelRequestTimeout)):
        return UnreachableError(
            f"{endpoint.name} could not be reached: {said}.",
            "Check that the provider is up and its base URL is right.",
            retryable=True,
            sent=getattr(error, "phase", None) not in NOT_SENT,
        )
    if isinstance(error, UserError):
        return ModelError(
            f"The call of {endpoint.name} could not be made: {said}.",
            "Check the model settings of the Mysis and the provider.",
        )
    if isinstance(error, ModelAPIError) and not _is_undecoded(error):
        return ModelError(f"{endpoint.name} failed: {said}.", _SERVER, retryable=True)
    return ModelError(
        f"{endpoint.name} answered something that is no completion: {said}.",
        f"Check that the base URL is that of its API ({_ENDING[endpoint.kind]}).",
        retryable=True,
    )


def _caused_by(error: BaseException | None, kind: type[ErrorT]) -> ErrorT | None:
    """The libraries wrap what our client raised, each in its own way."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _is_undecoded(error: ModelAPIError) -> bool:
    """Whether the answer came, but was not JSON."""
    return isinstance(error.__cause__, ValueError) or bool(_GOT.match(str(error)))


def _refused(endpoint: Endpoint, error: ModelHTTPError) -> ModelError:
    status = error.status_code
    said = _clean(endpoint, provider_text(error.body))
    retryable = status == 429 or status >= 500
    refusal = ModelError(
        f"{endpoint.name} answered {status}{f': {said}' if said else ''}.",
        _SERVER if status >= 500 else _REMEDIES.get(status, _REMEDIES[400]),
        retryable=retryable,
        retry_after=retry_after(error.headers or {}) if retryable else None,
        status=status,
    )
    refusal = _too_long(refusal) if is_overflow(refusal) else refusal
    refusal.code = _code(refusal)
    return refusal


def _code(refusal: ModelError) -> str:
    """What is to be mended, as the remedy of the refusal says."""
    status = refusal.status or 0
    if status == 400:
        return ErrorCode.REQUEST
    if refusal.remedy in (_OVERFLOW, _REMEDIES[_TOO_LARGE]):
        return ErrorCode.CONTEXT
    if status in (401, 402, 403):
        return ErrorCode.KEY
    known = status >= 500 or status in _REMEDIES
    return ErrorCode.PROVIDER if known else ErrorCode.REQUEST


def _too_long(error: ModelError) -> ModelError:
    """The same request never passes, even where a server calls it a fault of its own."""
    return ModelError(error.detail, _OVERFLOW, status=error.status)


def retry_after(headers: Mapping[str, str]) -> float | None:
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
    """One bounded line without the key, without a full stop at its end."""
    if endpoint.key:
        text = text.replace(endpoint.key, "[key]")
    text = page_text(_GOT.sub("", _MANUAL.sub("", text[: LONGEST * 20])))
    text = " ".join(clean_text(_KEY.sub("[key]", text)).split())
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    return text.rstrip(". ")
