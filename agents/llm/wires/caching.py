"""Where Anthropic's prompt cache may end: at what the next call sends again.

A mark costs a quarter more for what it adds to the cache, and a hit needs the same
bytes up to a mark of an earlier call. The texts that end the last message change with
every call (the state block, a nudge: CONTEXT.md A26), so a mark there never pays. Two
marks go into the messages, beside those of the tools and of the system text: four, the
most that are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MARK: Mapping[str, str] = {"type": "ephemeral"}
_MARKABLE = ("text", "tool_use", "tool_result")

Json = dict[str, Any]


def marked(messages: Sequence[Json]) -> list[Json]:
    """The messages with their marks; what was given is not changed."""
    out = list(messages)
    for index, kinds in _ends(messages):
        blocks = out[index]["content"]
        place = _last_of(kinds, blocks)
        if place is not None:
            copy = {**blocks[place], "cache_control": dict(MARK)}
            content = [*blocks[:place], copy, *blocks[place + 1 :]]
            out[index] = {**out[index], "content": content}
    return out


def _ends(messages: Sequence[Json]) -> Iterator[tuple[int, Sequence[str]]]:
    """The messages that get a mark, and on which blocks it may stand.

    The first is the end of what is stable. The second stands in the user's message
    before, where the last call had its first: a hit is looked for at most 20 blocks
    before a mark, and one answer with its results may be longer than that.
    """
    last = len(messages) - 1
    if last >= 0 and _last_of(("tool_result",), messages[last]["content"]) is not None:
        yield last, ("tool_result",)
    elif last >= 1:
        yield last - 1, _MARKABLE
    if last >= 2:
        yield last - 2, _MARKABLE


def _last_of(kinds: Sequence[str], blocks: object) -> int | None:
    if not isinstance(blocks, list):
        return None
    places = (i for i in range(len(blocks) - 1, -1, -1) if blocks[i]["type"] in kinds)
    return next(places, None)
