"""The game-state block: shortened first, then left out, when room is scarce."""

from __future__ import annotations

from collections.abc import Callable

from memory.context.tokens import Counter

#: Below this many bytes a state block says nothing worth sending.
SMALLEST = 64
_TRIES = 6


def fit_state(
    render: Callable[[int], str], size: int, room: int, count: Counter
) -> tuple[str, bool]:
    """The block within `size` bytes and `room` tokens, and whether it was cut for it.

    The text is empty where there is no state or no room for one.
    """
    text = render(size).strip()
    if not text:
        return "", False
    tokens = count(text)
    if tokens <= room:
        return text, False
    size = min(size, len(text.encode()))
    for _ in range(_TRIES):
        size = min(size - 1, size * max(0, room) // tokens)
        if size < SMALLEST:
            break
        text = render(size).strip()
        tokens = count(text)
        if text and tokens <= room:
            return text, True
        if not text:
            break
    return "", True
