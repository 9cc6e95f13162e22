"""What Daphne's HTTP lacks here: an end to what it takes in.

Daphne keeps a whole request on disk before anybody looks at it, also a stranger's. This
keeps no more than the largest body that any route takes, and one byte, by which the
route sees that there was more. The rest is read and let go of: who would be cut off in
the middle of sending could not read the answer that says why.
"""

from __future__ import annotations

from daphne import http_protocol

from .bodies import LARGEST


class BoundedRequest(http_protocol.WebRequest):  # type: ignore[misc]
    """A Daphne request of which only so much is kept."""

    kept = 0

    def handleContentChunk(self, data: bytes) -> None:
        """Keep what there is room for."""
        room = LARGEST + 1 - self.kept
        if room > 0:
            self.kept += min(room, len(data))
            super().handleContentChunk(data[:room])


def install() -> None:
    """Let every Daphne of this process take in requests so."""
    http_protocol.WebRequest = BoundedRequest
