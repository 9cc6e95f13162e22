"""One command for several Myses: what can be done is done, the rest is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agents.actions import ActionError
from agents.models import Mysis

NAMED = 3


@dataclass(frozen=True, slots=True)
class Done:
    """How many took it, and the words of those that did not."""

    count: int
    refused: tuple[str, ...]

    @property
    def why(self) -> str:
        """The first refusals in words, the others counted."""
        rest = len(self.refused) - NAMED
        more = f" And {rest} more." if rest > 0 else ""
        return f"{len(self.refused)} refused: {' '.join(self.refused[:NAMED])}{more}"


def apply(myses: Iterable[Mysis], act: Callable[[Mysis], object]) -> Done:
    """Do it to each; one that refuses stops no other."""
    count, refused = 0, []
    for mysis in myses:
        try:
            act(mysis)
        except ActionError as error:
            refused.append(error.detail)
        else:
            count += 1
    return Done(count, tuple(refused))


def counted(count: int) -> str:
    """A number of Myses in words."""
    return f"{count} {'Mysis' if count == 1 else 'Myses'}"
