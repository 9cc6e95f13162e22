"""What the summary tells of each tool's snapshot (GAME_STATE.md section 3).

One function per tool, content in, facts out. A fact names the JSON paths it was
read from, so that the confidence of those paths is the confidence of the line.
Shapes of several server versions are read; what is missing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from memory.gamestate.sections.account import cargo, missions, ship, skills, status
from memory.gamestate.sections.fact import Fact, View, fact
from memory.gamestate.sections.place import base, galaxy, market, nearby, poi, system
from memory.gamestate.text import line, quantity

__all__ = ["CURATED", "Fact", "View", "generic", "read"]
MAX_SCALARS = 50

Builder = Callable[[View], Iterable[Fact]]

CURATED: Mapping[str, tuple[str, Builder]] = {
    "get_status": ("Status", status),
    "get_ship": ("Ship", ship),
    "get_cargo": ("Cargo", cargo),
    "get_system": ("System", system),
    "get_poi": ("POI", poi),
    "get_base": ("Base", base),
    "get_nearby": ("Nearby", nearby),
    "view_market": ("Market", market),
    "get_map": ("Map", galaxy),
    "get_skills": ("Skills", skills),
    "get_active_missions": ("Missions", missions),
}
"""Heading and reader of each curated section, in the order they are shown."""


def generic(content: object) -> Iterator[Fact]:
    """Any other snapshot: scalars at the top, sizes of lists, lines of a text."""
    if isinstance(content, str):
        for text in content[:4000].splitlines():
            if line(text):
                yield Fact("", line(text, 100))
        return
    if isinstance(content, list):
        yield Fact("Entries", quantity(len(content)))
        return
    if not isinstance(content, Mapping):
        yield from fact("Value", line(content))
        return
    for key, value in islice(content.items(), MAX_SCALARS):
        label = line(str(key).replace("_", " "), 40).capitalize()
        if isinstance(value, (list, Mapping)):
            yield Fact(label, f"{quantity(len(value))} entries", (str(key),))
        elif value is not None:
            yield from fact(label, line(value), str(key))


def read(tool: str, view: View, content: object) -> list[Fact]:
    """The facts of a snapshot by its tool's reader, else by the general one.

    A curated reader that finds nothing in a content of another shape gives way to
    the general one too.
    """
    if tool in CURATED and isinstance(content, Mapping):
        facts = list(CURATED[tool][1](view))
        if facts:
            return facts
    return list(generic(content))
