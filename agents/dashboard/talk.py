"""A conversation as one viewer has it, and what has been written since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from . import fragments, lines
from .lines import Line

LOG_GAP = 200
PENDING = 50


@dataclass(frozen=True, slots=True)
class Of:
    """Whose conversation: of a Mysis, or of one of its turns alone."""

    mysis_id: int
    name: str
    key: str
    turn_id: int | None = None


class Talk:
    """The lines that a viewer has.

    ``after`` is the newest of them, ``pending`` are lines whose answer it still waits
    for; ``after`` None leaves the conversation alone.
    """

    def __init__(self, of: Of, after: int | None, pending: Iterable[int] = ()) -> None:
        self.of = of
        self.after = after
        self.open: dict[int, tuple[object, ...]] = dict.fromkeys(
            list(pending)[:PENDING], ()
        )

    def news(self) -> list[SafeString]:
        """Answers that have come, and the lines since the newest."""
        if self.after is None:
            return []
        of = self.of
        fresh = lines.after(
            of.mysis_id, of.name, self.after, LOG_GAP + 1, turn_id=of.turn_id
        )
        if len(fresh) > LOG_GAP:
            return self._from_newest()
        known = self._answered()
        self._note(fresh)
        if not fresh:
            return known
        added = fragments.log_lines(fresh, of.key)
        return [*known, fragments.appended("log", "beforeend", added)]

    def _from_newest(self) -> list[SafeString]:
        of = self.of
        newest = lines.newest(of.mysis_id, of.name, turn_id=of.turn_id)
        self._note(newest)
        # What is older in the log belongs to other turns.
        log = fragments.log(newest, of.key, whole=of.turn_id is not None)
        return [fragments.swapped(log)]

    def _answered(self) -> list[SafeString]:
        """Lines that were waiting and have their answer now."""
        if not self.open:
            return []
        of = self.of
        found = lines.chosen(of.mysis_id, of.name, list(self.open))
        changed = [line for line in found if self.open.get(line.id) != line.version]
        self._note(changed)
        if not changed:
            return []
        return [fragments.log_lines(changed, of.key, swap=True)]

    def _note(self, seen: Sequence[Line]) -> None:
        for line in seen:
            self.after = max(self.after or 0, line.id)
            if line.waits:
                self.open[line.id] = line.version
            else:
                self.open.pop(line.id, None)
        while len(self.open) > PENDING:
            self.open.pop(next(iter(self.open)))
