"""What a call will cost at list prices, before it is made."""

from __future__ import annotations

from decimal import Decimal

from genai_prices import Usage, calc_price

from agents.llm.types import Endpoint

FREE = ("pilot", "ollama")
"""Kinds of endpoints that charge nobody."""


def price(endpoint: Endpoint, *, input_tokens: int, output_tokens: int) -> Decimal:
    """US dollars for so many tokens, none of them cached; 0 where no price is known."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    return _listed(endpoint, usage) or Decimal(0)


def is_priced(endpoint: Endpoint) -> bool:
    """Whether what its calls cost is known; also where they cost nothing."""
    return endpoint.kind in FREE or _listed(endpoint, Usage()) is not None


def _listed(endpoint: Endpoint, usage: Usage) -> Decimal | None:
    for url in dict.fromkeys((endpoint.base_url or None, None)):
        try:
            found = calc_price(usage, endpoint.model, provider_api_url=url)
        except (LookupError, ValueError, AssertionError):
            continue
        return Decimal(found.total_price)
    return None
