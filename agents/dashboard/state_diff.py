"""What a model was told of the game in two requests, fact by fact.

The blocks are read as they were sent: of a past call nothing else is kept that says how
old each fact was to the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.gamestate.render import TITLE

# What stands behind a value in brackets: what it was before, or why it is in doubt.
WAS, DOUBTS = "was ", ("before ", "from an event ", "recharging since")
# How a block goes on after its sections.
ENDS = ("**Note:**", "**Stale data:**", "**Also cached:**")
# Between a thing and how many of it there are.
AMOUNTS = (": ", " x")


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A value of a block; ``doubt`` is why it may not hold, empty where it does."""

    value: str
    doubt: str = ""


@dataclass(slots=True)
class ShownSection:
    """A section of a block, by the call that brought it."""

    heading: str
    age: str
    facts: dict[str, ShownFact] = field(default_factory=dict)

    @property
    def age_number(self) -> int | None:
        """Its age in ticks, or in seconds where no tick was known; None if neither is."""
        first = "0" if self.age.startswith("just now") else self.age.split(" ")[0]
        return int(first) if first.isdecimal() else None

    def add(self, label: str, text: str) -> None:
        value, doubt = _split_doubt(text)
        # Two of one label, as events have it, are two facts.
        number = sum(known.split("\n")[0] == label for known in self.facts)
        key = f"{label}\n{number}" if number else label
        self.facts[key] = ShownFact(value, doubt)


@dataclass(frozen=True, slots=True)
class FactChange:
    """One fact of both: ``kind`` is changed, came, went, aged or renewed."""

    kind: str
    section: str
    label: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class StateChanges:
    """The facts that are others in the later request, and how many are not."""

    facts: tuple[FactChange, ...]
    same: int

    @property
    def counts(self) -> list[tuple[str, int]]:
        return list(Counter(one.kind for one in self.facts).items())


def compare_states(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> StateChanges | None:
    """The state blocks of two requests; None where one of them has none."""
    before, after = find_block(old), find_block(new)
    if before is None or after is None:
        return None
    first, second = read_block(before), read_block(after)
    found = [
        change
        for key in {**second, **first}
        for change in _compare_sections(first.get(key), second.get(key))
    ]
    facts = sum(len(section.facts) for section in second.values())
    told = sum(bool(one.label) and one.kind != "went" for one in found)
    return StateChanges(tuple(found), facts - told)


def find_block(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The text of the newest state block of a request, from its title on."""
    for message in reversed(messages):
        for text in _list_texts(message.get("content")):
            _, title, rest = text.rpartition(TITLE)
            if title:
                return rest
    return None


def _list_texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping):
            yield from _list_texts(part.get("text") or part.get("content"))


def read_block(text: str) -> dict[str, ShownSection]:
    """The sections of a block by their calls, as `memory.gamestate.render` writes it."""
    found: dict[str, ShownSection] = {}
    section, label = None, ""
    for line in text.splitlines():
        if line.startswith(ENDS):
            break
        if line.startswith("### "):
            heading, _, rest = line.removeprefix("### ").partition(" (")
            call, _, age = rest.removesuffix(")").partition(" - ")
            section = found[call] = ShownSection(heading, age)
        elif section and line.startswith("- "):
            label, colon, value = line[2:].partition(": ")
            section.add(label if colon else "", value or line[2:])
        elif section and line.startswith("  - "):
            section.add(*_split_amount(label, line[4:]))
    return found


def _split_amount(label: str, text: str) -> tuple[str, str]:
    for between in AMOUNTS:
        what, found, amount = text.rpartition(between)
        if found:
            return f"{label}: {what}", amount
    return f"{label}: {text}", text


def _split_doubt(text: str) -> tuple[str, str]:
    """A value without the brackets behind it, and what makes it doubtful.

    Which call would mend it is left out: that may differ where nothing else does.
    """
    doubts: list[str] = []
    while text.endswith(")"):
        value, _, inside = text[:-1].rpartition(" (")
        if not inside.startswith((WAS, *DOUBTS)):
            break
        text = value
        doubts += [] if inside.startswith(WAS) else [inside.partition("; ")[0]]
    return text, ", ".join(doubts)


def _compare_sections(
    old: ShownSection | None, new: ShownSection | None
) -> Iterator[FactChange]:
    heading = (new or old or ShownSection("", "")).heading
    if old and new and old.age != new.age:
        was, now = old.age_number, new.age_number
        newer = was is not None and now is not None and now < was
        yield FactChange("renewed" if newer else "aged", heading, "", old.age, new.age)
    first, second = old.facts if old else {}, new.facts if new else {}
    for key in {**second, **first}:
        kind, before, after = _compare_facts(first.get(key), second.get(key))
        if kind:
            label = key.split("\n")[0] or "it"
            yield FactChange(kind, heading, label, before, after)


def _compare_facts(
    old: ShownFact | None, new: ShownFact | None
) -> tuple[str, str, str]:
    """What became of a fact, and what it said then and says now."""
    if old is None or new is None:
        return (
            "came" if old is None else "went",
            old.value if old else "",
            new.value if new else "",
        )
    if old.value != new.value:
        return "changed", old.value, new.value
    if old.doubt == new.doubt:
        return "", "", ""
    return "aged" if new.doubt else "renewed", old.doubt or old.value, new.doubt
