"""Search in messages, reasoning and broadcasts, as tools (W10, W11, W12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agents.search import search_broadcasts
from agents.tools.reach import Answer, LocalRefusedError, Reach, told
from memory.context.types import handle_of
from memory.patience import SlowSearchError
from memory.search import Hit, search_messages

DEFAULT_LIMIT = 20
MOST_HITS = 100
LONGEST_CONTENT = 2000
LONGEST_QUERY = 1000


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched for, and in which way."""

    query: str
    mode: Literal["fts", "exact"]
    limit: int
    ignore_case: bool = False
    stem: bool = False


def messages(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """The newest matches in what was said, oldest first."""
    search = search_of(arguments)
    mysis = reach.target(arguments.get("mysis_id"))
    with _patience():
        hits = search_messages(mysis_id=mysis.pk, **asdict(search))
    return _matches([_message(hit, search) for hit in reversed(hits)])


def reasoning(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """The newest matches in what was thought, oldest first."""
    search = search_of(arguments)
    mysis = reach.target(arguments.get("mysis_id"))
    with _patience():
        hits = search_messages(mysis_id=mysis.pk, reasoning=True, **asdict(search))
    return _matches(
        [
            _message(hit, search)
            | {"reasoning": excerpt(hit.reasoning, search.query, _handle(hit))}
            for hit in reversed(hits)
        ]
    )


def broadcasts(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """The newest matching broadcasts, oldest first; a Mysis finds those it knows."""
    search = search_of(arguments)
    with _patience():
        hits = search_broadcasts(mysis_id=reach.mysis_id, **asdict(search))
    return _matches(
        [
            {
                "broadcast_id": hit.id,
                "sender": hit.sender,
                "content": excerpt(hit.content, search.query),
                "timestamp": _stamp(hit.timestamp),
            }
            for hit in reversed(hits)
        ]
    )


def search_of(arguments: Mapping[str, Any]) -> Search:
    """The search that checked arguments ask for; raises LocalRefusedError."""
    query = arguments["query"].replace("\x00", "")
    if not query.strip():
        raise LocalRefusedError("Argument 'query' is empty: give words to look for.")
    if len(query) > LONGEST_QUERY:
        raise LocalRefusedError(
            f"Argument 'query' is longer than {LONGEST_QUERY} characters: take a part."
        )
    exact = arguments.get("mode") == "exact"
    limit = int(arguments.get("limit", DEFAULT_LIMIT))
    return Search(
        query,
        "exact" if exact else "fts",
        limit,
        ignore_case=arguments.get("ignore_case") is True,
        stem=arguments.get("stem") is True,
    )


def excerpt(text: str, query: str, handle: str = "") -> str:
    """A text short enough for a context: the part around the first word found.

    ``handle`` is named where it brings what is not shown.
    """
    if len(text) <= LONGEST_CONTENT:
        return text
    words = (query, *query.split())
    places = (text.casefold().find(word.casefold()) for word in words)
    at = next((place for place in places if place >= 0), 0)
    start = max(0, min(at - LONGEST_CONTENT // 4, len(text) - LONGEST_CONTENT))
    end = start + LONGEST_CONTENT
    left = len(text) - LONGEST_CONTENT
    lead, tail = "… " if start else "", " …" if end < len(text) else ""
    see = f", see {handle}" if handle else ""
    return f"{lead}{text[start:end]}{tail} ({left} characters not shown{see})"


def _message(hit: Hit, search: Search) -> dict[str, Any]:
    return {
        "memory_id": hit.memory_id,
        "role": hit.role,
        "source": hit.origin,
        "content": excerpt(hit.content, search.query, _handle(hit)),
        "timestamp": _stamp(hit.timestamp),
    }


def _handle(hit: Hit) -> str:
    return handle_of(str(hit.mysis), hit.memory_id)


@contextmanager
def _patience() -> Iterator[None]:
    """A search that takes too long is refused, and the text says what to do."""
    try:
        yield
    except SlowSearchError as error:
        raise LocalRefusedError(f"Argument 'query': {error.detail}") from error


def _matches(found: list[dict[str, Any]]) -> Answer:
    return told({"count": len(found), "matches": found})


def _stamp(moment: Any) -> str:
    return str(moment.isoformat(timespec="seconds"))
