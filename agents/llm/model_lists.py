"""The window in what servers tell of their models.

What a model was trained for is not what it runs with: where a server tells both, the
second counts, and the first alone is only an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agents.llm.windows import UNKNOWN

LARGEST = 2**31 - 1
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


def in_list(body: object, model: str) -> Found | None:
    """The window of a model in an OpenAI-compatible list, with the field's name.

    A server with one model answers under any name, so its only entry counts.
    """
    data = body.get("data") if isinstance(body, Mapping) else body
    entries = _entries(data)
    named = [entry for entry in entries if entry.get("id") == model]
    if not named and len(entries) == 1:
        named = entries
    return in_entry(named[0]) if named else None


def in_entry(entry: Mapping[str, Any]) -> Found | None:
    """The window in one entry of a list."""
    for field in _FIELDS:
        if tokens := _number(_at(entry, field)):
            route = _number(_at(entry, _ROUTE))
            return (route, _ROUTE) if route and route < tokens else (tokens, field)
    return None


def running(body: object, model: str) -> Found | None:
    """The window with which Ollama runs a model now (``/api/ps``)."""
    models = body.get("models") if isinstance(body, Mapping) else None
    for entry in _entries(models):
        names = (entry.get("name"), entry.get("model"))
        if _tagged(model) in names and (tokens := _number(entry.get("context_length"))):
            return tokens, "/api/ps context_length"
    return None


def shown(body: object) -> Found | None:
    """The window that Ollama would run a model with (``/api/show``).

    Without a ``num_ctx`` of its own this depends on the server, and the trained length
    only bounds it: it is told where it is smaller than what is assumed anyway.
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


def _tagged(model: str) -> str:
    return model if ":" in model else f"{model}:latest"


def _at(entry: Mapping[str, Any], path: str) -> object:
    value: object = entry
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


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
