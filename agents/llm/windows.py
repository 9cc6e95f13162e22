"""How many tokens a model can read."""

from __future__ import annotations

import logging
from functools import lru_cache

from genai_prices.data_snapshot import get_snapshot

from agents.llm.types import Kind

log = logging.getLogger(__name__)

UNKNOWN = 8_192
"""The window of a model that nobody knows: small, but true nearly everywhere."""

PILOT = 128_000


def context_window(kind: Kind, model: str, told: int | None) -> int:
    """The window in tokens: as told, else from the catalogue, else `UNKNOWN`.

    The catalogue is not asked about models that run locally: there the window is
    what the server was started with, not what the model was trained for.
    """
    if told:
        return told
    if kind == "pilot":
        return PILOT
    known = None if kind == "ollama" else _catalogued(kind, model)
    if known is None:
        _warn(kind, model)
    return known or UNKNOWN


def _catalogued(kind: Kind, model: str) -> int | None:
    try:
        _, found = get_snapshot().find_provider_model(
            model, provider=None, provider_id=kind, provider_api_url=None
        )
    except LookupError:
        return None
    return found.context_window


@lru_cache(maxsize=1024)
def _warn(kind: Kind, model: str) -> None:
    """Once per model and process, not once per call."""
    log.warning(
        "The context window of %s model %r is unknown; %s tokens are assumed. "
        "Set the window of its provider in the admin.",
        kind,
        model,
        UNKNOWN,
    )
