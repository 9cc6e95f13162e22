"""How much JSON is parsed at most, counted over its bytes before it is parsed.

A parsed list or object takes some hundred bytes, however short it is written: 16 MB that
are five million of them would take 1.4 GB. For `manage.py assemble` this needs no Django.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_DEPTH = 64

# A string (also an unclosed one), a bracket, another value, or the end, after what stands
# between two of them. Possessive, and one follows right after the other, so that nothing
# is scanned twice: neither strings nor millions of commas.
_TOKEN = re.compile(
    rb'[\s:,]*+("(?:[^"\\]++|\\.)*+"?|[\[\]{}]|[^\s\[\]{}:,"]++|\Z)', re.DOTALL
)


class TooMuchJsonError(ValueError):
    """More than is parsed; the text names the bound: "more than 100,000 messages"."""


class TooDeepJsonError(ValueError):
    """Nested deeper than MAX_DEPTH levels."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {MAX_DEPTH} levels")


@dataclass(frozen=True, slots=True)
class JsonBounds:
    """How many of each a document may hold.

    ``containers``: lists and objects. ``messages``: objects in the list ``messages`` of
    a history. ``values``: names, texts, numbers and the like.
    """

    containers: int
    messages: int
    values: int

    def check(self, data: bytes) -> None:
        """Raise TooMuchJsonError or TooDeepJsonError for what is not to be parsed."""
        opened = data.count(b"[") + data.count(b"{")
        signs = opened + data.count(b",")
        # Signs inside of texts are counted too, so this is an upper bound.
        few = opened <= min(self.containers, self.messages)
        if not few or signs > self.values // 2:
            self._count(data)

    def _count(self, data: bytes) -> None:
        opened = messages = values = depth = 0
        for token in _TOKEN.finditer(data):
            start = token.start(1)
            if start == len(data):
                return
            sign = data[start]
            if sign in b"[{":
                opened += 1
                depth += 1
                if depth > MAX_DEPTH:
                    raise TooDeepJsonError
                # {"messages": [{...
                messages += sign in b"{" and depth == 3
            elif sign in b"]}":
                depth -= 1
                if depth < 0:
                    # No parser gets past this.
                    return
            else:
                values += 1
            if opened > self.containers:
                raise TooMuchJsonError(
                    f"more than {self.containers:,} lists and objects"
                )
            if messages > self.messages:
                raise TooMuchJsonError(f"more than {self.messages:,} messages")
            if values > self.values:
                raise TooMuchJsonError(f"more than {self.values:,} names and values")
