"""A context that the provider had no room for: recognise it, and retry with a smaller one.

Every server words the refusal in its own way and few send a code, so it is read from
the text. A limit of tokens per minute reads much the same, but there a smaller request
is no remedy.

A limit that the refusal names is true of the model: every Mysis on it keeps to it from
then on. Where none is named, or our own count was wrong, the smaller view is a guess
from one request: it holds for this Mysis alone, once it was answered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.utils import timezone

from agents.llm.context_windows import LIMITED_FOR, store_limit
from agents.llm.model_types import Endpoint, ModelError
from agents.models import Mysis

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
