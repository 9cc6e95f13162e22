"""Standing orders that no strategy may lose: rendered by code, verbatim, once (I16)."""

from __future__ import annotations

from collections.abc import Iterable

HEADER = "## Standing orders"


def with_pins(system: str | None, pins: Iterable[str]) -> str | None:
    """The system message with the pins at its end; None where there is neither.

    A text that ends with such a section already, as in a view that is fed back, only
    gets the pins that this section lacks.
    """
    unique = dict.fromkeys(text for text in pins if text.strip())
    base, section = _split(system or "")
    lines = [f"\n- {text}" for text in unique if f"\n- {text}\n" not in f"{section}\n"]
    if not lines:
        return system
    added = "".join(lines)
    if section:
        return f"{system}{added}"
    return f"{base}\n\n{HEADER}{added}" if base else f"{HEADER}{added}"


def apart(system: str) -> tuple[str, tuple[str, ...]]:
    """A system message as its text and its pins; `with_pins` puts it together again."""
    base, section = _split(system)
    pins = tuple(section.split("\n- ")[1:])
    return (base.removesuffix("\n\n") if pins else base), pins


def _split(system: str) -> tuple[str, str]:
    """What stands before the standing orders at the end of a text, and these."""
    base, header, section = system.rpartition(HEADER)
    if header and section.startswith("\n- ") and (not base or base.endswith("\n\n")):
        return base, section
    return system, ""
