"""Whether a provider refused a request because it was too long, and how long it may be.

Every server words this in its own way and few send a code, so it is read from the
text. A limit of tokens per minute reads much the same, but there a smaller request is
no remedy.
"""

from __future__ import annotations

import re

from agents.llm.types import ModelError

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
