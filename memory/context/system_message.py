"""The system message: the prompt, the list of the game's tools, the standing orders.

A text that has one of these sections already, as in a view that is fed back, gets no
second one.
"""

from __future__ import annotations

from collections.abc import Iterable

HEADER = "## Standing orders"
_CATALOGUE_START = """\
## Tools of the game

Call one of them with `game`: its name as `command`, what it takes as `arguments`; what
stands in [] may be left out. `game_help` gives the full schemas of up to 20 of them.

"""


# --- The list of the game's tools, before the standing orders


def add_catalogue(prompt: str, catalogue: str) -> str:
    """The prompt with the tools at its end; it may end with older ones, and with pins."""
    if not catalogue:
        return prompt
    base, section = _split_section(prompt)
    base = drop_catalogue(base.removesuffix("\n\n") if section else base)
    listed = f"{_CATALOGUE_START}{catalogue}"
    text = f"{base}\n\n{listed}" if base else listed
    return f"{text}\n\n{HEADER}{section}" if section else text


def drop_catalogue(prompt: str) -> str:
    """A prompt without the tools at its end."""
    base, start, _ = prompt.rpartition(_CATALOGUE_START)
    return base.removesuffix("\n\n") if start else prompt


# --- Standing orders: verbatim, each once (I16)


def add_pins(system: str, pins: Iterable[str]) -> str:
    """The system message with the pins at its end; empty where there is neither.

    A text that ends with such a section already, as in a view that is fed back, only
    gets the pins that this section lacks.
    """
    unique = dict.fromkeys(text for text in pins if text.strip())
    base, section = _split_section(system)
    lines = [f"\n- {text}" for text in unique if f"\n- {text}\n" not in f"{section}\n"]
    if not lines:
        return system
    added = "".join(lines)
    if section:
        return f"{system}{added}"
    return f"{base}\n\n{HEADER}{added}" if base else f"{HEADER}{added}"


def split_pins(system: str) -> tuple[str, tuple[str, ...]]:
    """A system message as its text and its pins; `add_pins` joins them again."""
    base, section = _split_section(system)
    pins = tuple(section.split("\n- ")[1:])
    return (base.removesuffix("\n\n") if pins else base), pins


def _split_section(system: str) -> tuple[str, str]:
    """What stands before the standing orders at the end of a text, and these."""
    base, header, section = system.rpartition(HEADER)
    if header and section.startswith("\n- ") and (not base or base.endswith("\n\n")):
        return base, section
    return system, ""
