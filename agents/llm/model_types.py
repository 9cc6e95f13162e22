"""What a model call takes and gives, in no provider's format, and its list price."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import genai_prices

from agents.models import ErrorCode
from memory.context.payback import TokenPrices
from memory.context.types import ToolCall

Kind = Literal["openai", "anthropic", "ollama", "pilot"]
Dialect = Literal["openai", "anthropic"]

# One message in the OpenAI chat form (anthropic dialect: in Anthropic's).
ChatMessage = Mapping[str, Any]

# The calls that are taken from one answer.
MOST_CALLS = 32
# Whose calls cost nothing.
FREE: tuple[Kind, ...] = ("pilot", "ollama")
# Tokens of a call whose price is that of the tokens: some prices rise with its size.
PRICED = 10_000
# ``max_tokens`` of Anthropic's requests where the settings of the Mysis name none.
ANTHROPIC_ANSWER = 8_000


class ModelError(Exception):
    """A model call that cannot be made or was refused.

    ``detail`` is one sentence, ``remedy`` what to do about it. ``retryable`` says
    whether the same call may succeed later, ``retry_after`` how many seconds the
    provider asks to wait, ``status`` is its HTTP status where it answered. ``code`` says
    what is to be mended; empty for the settings of the Mysis. ``sent`` is false where
    the request surely never left. Never holds a key.
    """

    sent = True

    def __init__(
        self,
        detail: str,
        remedy: str = "",
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        code: str = ErrorCode.PROVIDER,
    ) -> None:
        super().__init__(f"{detail} {remedy}".strip())
        self.detail = detail
        self.remedy = remedy
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.code = code

    @property
    def surely_free(self) -> bool:
        """Whether nothing was charged for certain: never sent, or refused with 4xx.

        A gateway's 5xx or an answer that broke off may follow a paid generation.
        """
        refused = self.status is not None and 400 <= self.status < 500
        return refused or not self.sent


class ModelTimeoutError(ModelError):
    """A call that took longer than it may; a shorter one may not."""


class UnreachableError(ModelError):
    """Nobody answered at the provider's address, or the answer broke off."""


class UnknownProviderError(ModelError):
    """No provider of that name is configured."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as a model is told of it; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; ``cached`` is the part of ``input`` read from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    ``tool_calls`` hold their arguments as the model wrote them, valid JSON or not; the
    ``signature`` of a reasoning is opaque; ``cost`` is in US dollars, 0 without a price.
    ``dropped`` are calls beyond MOST_CALLS. Where the provider's numbers cannot be true,
    usage and cost are ``estimated``.
    """

    text: str
    reasoning: str = ""
    signature: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    cost: Decimal = Decimal(0)
    finish_reason: str = ""
    model: str = ""
    dropped: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is reached; ``name`` is how the Mysis names it.

    ``window`` is the model's context in tokens, ``window_source`` where it is known
    from, ``window_due`` whether the endpoint should be asked for it. An empty
    ``base_url`` is the provider's own address.
    """

    name: str
    kind: Kind
    model: str
    window: int
    base_url: str = ""
    key: str = field(default="", repr=False)
    window_source: str = ""
    window_due: bool = False

    @property
    def dialect(self) -> Dialect:
        """The form that its messages must have."""
        return "anthropic" if self.kind == "anthropic" else "openai"


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What a model is asked; ``messages`` are in the dialect of the endpoint.

    ``settings`` are the Mysis's own (temperature, max_tokens, timeout in seconds...).
    """

    endpoint: Endpoint
    messages: Sequence[ChatMessage]
    system: str | None = None
    tools: Sequence[OfferedTool] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_longest_answer(settings: Mapping[str, Any], endpoint: Endpoint | None) -> int:
    """The most tokens of an answer that a request asks for; 0 where it does not say.

    Anthropic wants them named in every request.
    """
    most = settings.get("max_tokens")
    if isinstance(most, int) and most > 0:
        return most
    return ANTHROPIC_ANSWER if endpoint and endpoint.kind == "anthropic" else 0


def calculate_price(
    endpoint: Endpoint,
    *,
    input_tokens: int,
    output_tokens: int,
    cached_tokens: int = 0,
    written_tokens: int = 0,
) -> Decimal:
    """US dollars for so many tokens; 0 where no price is known.

    Of the input, those are read from the provider's cache, and those written into it.
    """
    usage = genai_prices.Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cached_tokens,
        cache_write_tokens=written_tokens,
    )
    return _listed(endpoint, usage) or Decimal(0)


def price_usage(endpoint: Endpoint, usage: Usage) -> Decimal | None:
    """US dollars for a call that used so much; None where no price is known."""
    if endpoint.kind in FREE:
        return Decimal(0)
    return _listed(
        endpoint,
        genai_prices.Usage(
            input_tokens=usage.input,
            cache_read_tokens=usage.cached,
            output_tokens=usage.output,
        ),
    )


def read_token_prices(endpoint: Endpoint) -> TokenPrices | None:
    """What a token costs; None where no price is known, or where it costs nothing."""
    return _read_token_prices(endpoint.kind, endpoint.model, endpoint.base_url)


@lru_cache(maxsize=256)
def _read_token_prices(kind: Kind, model: str, base_url: str) -> TokenPrices | None:
    asked = Endpoint("", kind, model, 0, base_url)
    each = (Usage(PRICED), Usage(PRICED, cached=PRICED), Usage(output=PRICED))
    prices = [price_usage(asked, usage) for usage in each]
    if not all(prices):
        return None
    return TokenPrices(*(float(price or 0) / PRICED for price in prices))


def is_priced(endpoint: Endpoint) -> bool:
    """Whether what its calls cost is known; also where they cost nothing."""
    return endpoint.kind in FREE or _listed(endpoint, genai_prices.Usage()) is not None


def _listed(endpoint: Endpoint, usage: genai_prices.Usage) -> Decimal | None:
    for url in dict.fromkeys((endpoint.base_url or None, None)):
        try:
            found = genai_prices.calc_price(usage, endpoint.model, provider_api_url=url)
        except (LookupError, ValueError, AssertionError):
            continue
        return Decimal(found.total_price)
    return None


# A wrong address gives a 404 too, but its page speaks of no model.
_NO_MODEL = re.compile(
    r"404\b.*(?:\bmodel|no endpoints found for)"
    r"|400\b.*(?:invalid model|not a valid model"
    r"|\bmodel\b:? \S{1,200} is not valid"
    r"|\bmodel\b.{0,200}(?:not exist|not found|unknown))",
    re.IGNORECASE,
)


def is_missing_model(detail: str) -> bool:
    """Whether by this detail of a ModelError a provider has no such model."""
    return bool(_NO_MODEL.match(detail.partition(" answered ")[2]))
