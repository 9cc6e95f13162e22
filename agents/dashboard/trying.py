"""A provider, tried from a page: one tiny request, and what came of it in words."""

from __future__ import annotations

from dataclasses import dataclass

from agents.llm.checking import Check, check
from agents.llm.endpoints import resolve_row
from agents.llm.overflow import is_overflow
from agents.llm.types import ModelError, UnreachableError
from agents.models import Provider

#: How long somebody waits in front of a page.
SECONDS = 20.0
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


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it: whether a Mysis could play with it, and a sentence or two.

    ``field`` is the one whose value is to blame: key, base_url or default_model;
    empty where it is none of them.
    """

    good: bool
    words: str
    field: str = ""


def try_provider(row: Provider) -> Trial:
    """Ask its default model for one word; waits half a minute at most.

    The row need not be saved. Nothing that is said holds a key.
    """
    try:
        endpoint = resolve_row(row)
    except ModelError as error:
        if not row.default_model:
            words = "No model is named, so nothing could be asked. Name one."
            return Trial(False, words, MODEL)
        return Trial(False, str(error), KEY)
    found = check(endpoint, SECONDS)
    if found.error is not None:
        return Trial(False, _said(found, found.error), _blamed(found, found.error))
    return Trial(True, _welcome(row, found))


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


def _said(found: Check, error: ModelError) -> str:
    return f"{error.detail} {_remedy(found, error)}".strip()


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
