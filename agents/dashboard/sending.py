"""What a viewer has on the page already, so that only what differs is sent."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.safestring import SafeString

from . import fragments
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
