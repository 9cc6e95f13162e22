"""Who calls one of our own tools, and whose memory is open to them (I27)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from agents.models import Mysis
from memory.owners import find_owner

ANOTHER = (
    "Argument '{argument}' names another Mysis, whose history is its own: {remedy}."
)


class LocalRefusedError(Exception):
    """A call of one of our own tools that cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Who calls. A Mysis reaches itself alone; ``mysis_id`` None reaches all.

    ``by`` is how the log names the caller. ``secret`` are the tools whose calls
    nobody may read.
    """

    by: str
    mysis_id: int | None = None
    secret: frozenset[str] = frozenset()

    def target(
        self, reference: object, *, argument: str = "mysis_id", remedy: str = ""
    ) -> Mysis:
        """The Mysis that is meant; raises LocalRefusedError for another's."""
        if self.mysis_id is None:
            return named(reference, argument)
        own = Mysis.objects.select_related("account").get(pk=self.mysis_id)
        if reference is None or str(reference) in ("", "self", str(own.pk), own.name):
            return own
        raise LocalRefusedError(
            ANOTHER.format(
                argument=argument, remedy=remedy or "leave it out to search yours"
            )
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool of ours answers: as a value, and as texts for a model."""

    value: dict[str, Any]
    blocks: tuple[str, ...]


def told(value: dict[str, Any]) -> Answer:
    """A value as an answer; its text is JSON."""
    return Answer(value, (json.dumps(value, ensure_ascii=False, indent=2),))


def named(reference: object, argument: str = "mysis_id") -> Mysis:
    """The Mysis of a number or a name; raises LocalRefusedError."""
    text = "" if reference is None else str(reference)
    found = find_owner(text) if text else None
    if found is None:
        raise LocalRefusedError(
            f"Argument '{argument}': there is no Mysis {text[:100]!r}. "
            "zoea_list_myses tells their names."
        )
    return cast("Mysis", found)


def secret_tools(policies: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Of tools and their policies, those whose calls nobody may read."""
    return frozenset(name for name, policy in policies if policy == "secret")
