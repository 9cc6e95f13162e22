"""What a viewer has on the page already, so that only what differs is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from django.utils import timezone
from django.utils.safestring import SafeString

from . import fragments
from .dirty import Dirty
from .fragments import Fragment


class Sent:
    """Which version of each fragment the viewer has."""

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def news(self, found: Iterable[Fragment]) -> list[SafeString]:
        """The swaps of those fragments that differ."""
        swaps = []
        for fragment in found:
            if self._versions.get(fragment.id) != fragment.version:
                self._versions[fragment.id] = fragment.version
                swaps.append(fragments.swapped(fragment))
        return swaps

    def note(self, found: Iterable[Fragment]) -> None:
        """The viewer has these already, as parts of something bigger."""
        self._versions |= {fragment.id: fragment.version for fragment in found}


class TimedPage:
    """A live page that is looked at as time goes on, whatever happens."""

    def __init__(self, parts: Callable[[datetime], Iterable[Fragment]]) -> None:
        self.parts = parts
        self.sent = Sent()

    def snapshot(self, version: int) -> list[SafeString]:
        """All of it."""
        return self._news()

    def changes(self, dirty: Dirty) -> list[SafeString]:
        """What differs."""
        return self._news()

    def _news(self) -> list[SafeString]:
        return self.sent.news(self.parts(timezone.now()))
