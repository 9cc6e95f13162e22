"""Standing orders that no strategy may lose: rendered by code, verbatim, once (I16)."""

from __future__ import annotations

from collections.abc import Iterable

from memory.context.text import clean

HEADER = "## Standing orders"


def with_pins(system: str | None, pins: Iterable[str]) -> str | None:
    """The system message with the pins at its end; None where there is neither.

    A text that ends with this very section already, as in a view that is fed back, is
    left as it is.
    """
    unique = dict.fromkeys(text for text in map(clean, pins) if text.strip())
    if not unique:
        return system
    section = "\n".join([HEADER, *(f"- {text}" for text in unique)])
    if not system:
        return section
    if system.endswith(section):
        return system
    return f"{system}\n\n{section}"
