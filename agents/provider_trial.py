"""Whether a Mysis could play with a provider: what it answers, and how much it can read.

A model may answer well and still have no room for what every call holds: the prompt and
the tools of the game. That is told here, before a Mysis fails of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents import tool_catalogue
from agents.actions.settings import DEFAULT_PROMPT_NAME
from agents.context_inputs import fit_budget, offer_stored_tools, read_tool_options
from agents.llm.context_windows import is_overflow
from agents.llm.endpoints import resolve_row
from agents.llm.model_types import (
    Endpoint,
    ModelError,
    UnreachableError,
    read_longest_answer,
)
from agents.llm.prompts import DEFAULT_PROMPT, choose_nudge, render_prompt
from agents.llm.provider_check import Check, check_endpoint
from agents.models import ErrorCode, PromptVersion, Provider
from memory.context.assemble import assemble
from memory.context.types import AssemblyRequest
from memory.models import ContextPolicy

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

_TOOLS_UNKNOWN = (
    "The game's tools are not known before a first turn, nor whether they have room."
)
_SET_WINDOW = "Set the window of the provider in the admin to what its model reads"
_LARGER_WINDOW = "Choose a model with a larger window"
_FEWER_TOOLS = 'or give the default policy the option tools "on_demand" or a list of tools to allow.'


def find_lack_of_room(endpoint: Endpoint) -> ModelError | None:
    """Why the smallest request of the default policy does not fit; None where it does.

    It holds the default prompt and the tools that the game offered last, none before a
    first turn.
    """
    policy = ContextPolicy.read_default()
    budget = fit_budget(policy, endpoint, read_longest_answer({}, endpoint))
    offered = offer_stored_tools(
        tool_catalogue.read_text(), options=read_tool_options(policy.options)
    )
    made = assemble(
        AssemblyRequest(
            messages=(),
            system=render_prompt(
                _read_prompt(), name="Mysis", account=None, broadcast=None
            ),
            strategy=policy.strategy,
            options=policy.options,
            budget=budget,
            dialect=endpoint.dialect,
            tools_tokens=offered.tokens,
            offered=offered.tools,
            nudge=choose_nudge(1),
        )
    )
    if made.impossible is None:
        return None
    if endpoint.window > policy.budget_tokens:
        return ModelError(made.reason, code=ErrorCode.CONTEXT)
    assumed = endpoint.window_source == "unknown"
    how = (
        "is assumed, as nobody tells it, and that" if assumed else "is known, and that"
    )
    return ModelError(
        f"A window of {endpoint.window:,} tokens {how} is too small for the prompt and "
        f"the tools of the game: {made.impossible.need:,} tokens are needed where "
        f"{made.impossible.have:,} are left.",
        f"{_SET_WINDOW if assumed else _LARGER_WINDOW}, {_FEWER_TOOLS}",
        code=ErrorCode.CONTEXT,
    )


def game_tools_are_known() -> bool:
    """Whether the game has told its tools: they take most of the smallest request."""
    return bool(tool_catalogue.read_known_tools())


def _read_prompt() -> str:
    """The default prompt as it is now."""
    versions = PromptVersion.objects.filter(prompt__name=DEFAULT_PROMPT_NAME)
    newest = versions.order_by("-number").values_list("text", flat=True).first()
    return DEFAULT_PROMPT if newest is None else newest


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
    # Once more, with what the check has taught of the window.
    known = resolve_row(row)
    if lack := find_lack_of_room(known):
        return ProviderTrial(False, str(lack))
    return ProviderTrial(True, _welcome(row, found, known))


def _welcome(row: Provider, found: Check, known: Endpoint) -> str:
    reads = f"It reads {known.window:,} tokens at once."
    if known.window_source == "unknown":
        reads = (
            f"How much it reads is not known: {known.window:,} tokens are assumed. "
            f"{_SET_WINDOW}."
        )
    unasked = " It asks for no key." if found.key == "unasked" else ""
    tools = "" if game_tools_are_known() else f" {_TOOLS_UNKNOWN}"
    seconds = found.latency_ms / 1000
    return (
        f"Provider {row.name} works: {known.model} answered in {seconds:.1f} s. "
        f"{reads}{unasked}{tools}"
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
