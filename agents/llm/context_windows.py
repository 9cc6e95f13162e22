"""How many tokens a model can read, and where that is known from.

The provider's row comes first, then what its endpoint said when it was asked (by
`endpoints`; here nothing is asked, so a page never waits), then the catalogue. A limit
that a refusal named bounds all of them.

What a model was trained for is not what it runs with: where a server names both, the
second counts, and the first alone is only an upper bound.

A context that the provider had no room for is tried once more, smaller. Every server
words that refusal in its own way and few send a code, so it is read from the text. A
limit that it names is true of the model: every Mysis on it keeps to it from then on.
Where none is named, or our own count was wrong, the smaller view is a guess from one
request: it holds for this Mysis alone, once it was answered.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.utils import timezone
from genai_prices.data_snapshot import get_snapshot

from agents.llm.model_types import Endpoint, Kind, ModelError
from agents.models import AskedWindow, Mysis, Provider
from memory.gamestate.values import find_value

log = logging.getLogger(__name__)

# The window of a model that nobody knows: small, but true nearly everywhere.
UNKNOWN = 8_192

PILOT = 128_000

# How long an answer stands: a local server may be started anew with another one.
TOLD_FOR = timedelta(minutes=10)

SILENT_FOR = timedelta(minutes=1)
LIMITED_FOR = timedelta(days=1)

LARGEST = 2**31 - 1

# Its model list names no windows; the catalogue does.
_OFFICIAL = "api.openai.com"

# Of one entry, the truest first. Nested ones are written with a dot.
_FIELDS = (
    "loaded_context_length",
    "meta.n_ctx",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "n_ctx",
)

# OpenRouter's own route may be narrower than the model.
_ROUTE = "top_provider.context_length"

_TRAINED = ".context_length"
Found = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Window:
    """A window in tokens, where it is known from, and whether to ask for it again."""

    tokens: int
    source: str
    due: bool = False


def find_window(kind: Kind, base_url: str, model: str, provider: Provider) -> Window:
    """The window of a model of an endpoint; reads one row, asks nobody.

    ``provider`` is a new one where the endpoint is that of the environment.
    """
    if kind == "pilot":
        told = provider.window
        return Window(told or PILOT, "provider" if told else "pilot")
    rows = AskedWindow.objects.filter(kind=kind, base_url=base_url, model=model)
    row = rows.first() or AskedWindow()
    found = _without_limit(kind, base_url, model, provider, row)
    limited = _still_stands(row.limited_at, LIMITED_FOR, provider)
    if limited and row.limit is not None and row.limit < found.tokens:
        return Window(row.limit, "refusal", found.due)
    # One that is yet to be asked may tell it.
    if found.source == "unknown" and not found.due:
        _warn_once(kind, model)
    return found


def _without_limit(
    kind: Kind, base_url: str, model: str, provider: Provider, row: AskedWindow
) -> Window:
    if provider.window:
        return Window(provider.window, "provider")
    stands = TOLD_FOR if row.tokens else SILENT_FOR
    known = _still_stands(row.asked_at, stands, provider)
    due = names_windows(kind, base_url) and not known
    if row.tokens:
        return Window(row.tokens, f"endpoint ({row.source})", due)
    listed = _look_up_window(kind, model)
    return Window(listed or UNKNOWN, "catalogue" if listed else "unknown", due)


def names_windows(kind: Kind, base_url: str) -> bool:
    """Whether it is any use to ask this endpoint: the public ones do not say."""
    if kind == "ollama":
        return True
    host = urlsplit(base_url).hostname
    return kind != "pilot" and bool(host) and host != _OFFICIAL


def _still_stands(
    since: datetime | None, duration: timedelta, provider: Provider
) -> bool:
    """Whether it is not too old, and the provider was not saved since."""
    if since is None or timezone.now() - since > duration:
        return False
    return provider.changed_at is None or since >= provider.changed_at


def store_window(endpoint: Endpoint, found: Found | None) -> None:
    """Store what an endpoint said; where it said nothing, what it said before stands."""
    said = {"tokens": found[0], "source": found[1]} if found else {}
    _update(endpoint, {**said, "asked_at": timezone.now()})


def store_limit(endpoint: Endpoint, limit: int) -> None:
    """Bound budgets by what a refusal named, for a day or until the provider is saved."""
    _update(endpoint, {"limit": limit, "limited_at": timezone.now()})


def _update(endpoint: Endpoint, values: dict[str, object]) -> None:
    AskedWindow.objects.update_or_create(
        kind=endpoint.kind,
        base_url=endpoint.base_url,
        model=endpoint.model,
        defaults=values,
    )


def _look_up_window(kind: Kind, model: str) -> int | None:
    """What the catalogue says; a local model has the window it was started with."""
    if kind == "ollama":
        return None
    try:
        _, found = get_snapshot().find_provider_model(
            model, provider=None, provider_id=kind, provider_api_url=None
        )
    except LookupError:
        return None
    return found.context_window


@lru_cache(maxsize=1024)
def _warn_once(kind: Kind, model: str) -> None:
    log.warning(
        "The context window of %s model %r is unknown; %s tokens are assumed. "
        "Set the window of its provider in the admin.",
        kind,
        model,
        UNKNOWN,
    )


# --- What servers say of their models


def read_listed_window(body: object, model: str) -> Found | None:
    """The window of a model in an OpenAI-compatible list, with the field's name.

    A server with one model answers under any name, so its only entry counts.
    """
    data = body.get("data") if isinstance(body, Mapping) else body
    entries = _entries(data)
    named = [entry for entry in entries if entry.get("id") == model]
    if not named and len(entries) == 1:
        named = entries
    return read_entry_window(named[0]) if named else None


def read_entry_window(entry: Mapping[str, Any]) -> Found | None:
    """The window in one entry of a list."""
    for field in _FIELDS:
        if tokens := _number(find_value(entry, field)):
            route = _number(find_value(entry, _ROUTE))
            return (route, _ROUTE) if route and route < tokens else (tokens, field)
    return None


def read_running_window(body: object, model: str) -> Found | None:
    """The window with which Ollama runs a model now (``/api/ps``)."""
    tagged = model if ":" in model else f"{model}:latest"
    for entry in _entries(find_value(body, "models")):
        names = (entry.get("name"), entry.get("model"))
        if tagged in names and (tokens := _number(entry.get("context_length"))):
            return tokens, "/api/ps context_length"
    return None


def read_default_window(body: object) -> Found | None:
    """The window that Ollama would run a model with (``/api/show``).

    Without a ``num_ctx`` of its own this depends on the server, and the trained length
    only bounds it: it counts where it is smaller than what is assumed anyway.
    """
    if not isinstance(body, Mapping):
        return None
    trained = _trained(body.get("model_info"))
    for line in str(body.get("parameters") or "").splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and (tokens := _number(value.strip())):
            return min(tokens, trained or tokens), "/api/show num_ctx"
    if trained and trained <= UNKNOWN:
        return trained, "/api/show context_length"
    return None


def _trained(info: object) -> int | None:
    pairs: Iterable[tuple[Any, Any]] = info.items() if isinstance(info, Mapping) else ()
    found = (_number(v) for key, v in pairs if str(key).endswith(_TRAINED))
    return next((tokens for tokens in found if tokens), None)


def _entries(value: object) -> list[Mapping[str, Any]]:
    found = value if isinstance(value, list) else []
    return [entry for entry in found if isinstance(entry, Mapping)]


def _number(value: object) -> int | None:
    """A whole number of tokens; 0 is what servers say before they know."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:12])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= LARGEST else None


# --- What refusals say of a request that was too long

# The part of a refused context that is tried next.
SMALLER = 0.75

# What some servers call it in the ``code`` or ``type`` of an error.
CODES = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "request_too_large",
)

_NUMBER = r"(\d[\d,_]*)"

# With the limit. Every server's own words, most of them seen from several.
_LIMITS = tuple(
    re.compile(pattern.replace("N", _NUMBER), re.IGNORECASE)
    for pattern in (
        # OpenAI, DeepSeek, vLLM, OpenRouter; the limit comes first.
        r"(?:maximum|model's) context length (?:is|of)(?: only)? N",
        r"exceed the configured limit of N tokens",
        # Anthropic: without and with the tokens of the answer.
        r"prompt is too long: \d+ tokens > N",
        r"exceed context limit: \d+ \+ \d+ > N",
        # llama.cpp and what is built on it, Ollama too.
        r"available context size \(N tokens",
        r"\bn_ctx:? N",
        r"exceed context window of N",
        # LM Studio, SGLang.
        r"loaded with context length of only N tokens",
        r"longer than the model's context length \(N tokens",
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
    r"maximum context (?:length|limit)"
    r"|exceeds? (?:the |this model's )?(?:\w+ )?context (?:window|length|size|limit)"
    r"|exceeded max context length"
    # litellm's name for it, whatever the server behind it said.
    r"|context ?window ?exceeded"
    r"|(?:prompt|input) is too long"
    r"|too many (?:input )?tokens"
    r"|string too long\. expected a string with maximum length"
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


@dataclass(frozen=True, slots=True)
class Retry:
    """The most tokens, by our count, of the view that is tried after a refusal.

    ``guess`` says that the refusal itself does not make later views smaller.
    """

    tokens: int
    refusal: ModelError
    guess: bool


def is_overflow(error: ModelError) -> bool:
    """Whether the request was too long for the model, so that a shorter one may do."""
    text = error.detail
    if error.status in _NOT_THESE or _NEVER.search(text):
        return False
    if error.status == _TOO_LARGE:
        return True
    return bool(_WORDS.search(text)) or _limit_in(text) is not None


def read_limit(error: ModelError) -> int | None:
    """The model's window as the refusal names it, in tokens with the answer, or None."""
    return _limit_in(error.detail) if is_overflow(error) else None


def plan_retry(endpoint: Endpoint, refusal: ModelError, estimated: int) -> Retry:
    """Choose a view smaller than the refused one, and keep the limit where it is named."""
    smaller = int(estimated * SMALLER)
    limit = read_limit(refusal)
    if limit is None:
        return Retry(smaller, refusal, guess=True)
    store_limit(endpoint, limit)
    return Retry(min(limit, smaller), refusal, guess=limit >= estimated)


def remember_retry(retry: Retry, *, mysis_id: int, model: str) -> None:
    """Keep a guess that was answered: later turns begin with it."""
    Mysis.objects.filter(pk=mysis_id).update(
        view_tokens=retry.tokens,
        view_model=model,
        view_until=timezone.now() + LIMITED_FOR,
    )


def _limit_in(text: str) -> int | None:
    for pattern in _LIMITS:
        if found := pattern.search(text):
            return int(found[1].replace(",", "").replace("_", "")) or None
    return None
