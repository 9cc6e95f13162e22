"""What our own tools answer, and whose memory is open to their caller (I27).

Those that write to others, and those for orders, stand in `message_answers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from agents.actions.base import ActionError
from agents.actions.notes import forget_note, save_note
from agents.broadcast_search import SCHEME as BROADCAST_SCHEME
from agents.broadcast_search import read_broadcast, search_broadcasts
from agents.models import Mysis
from memory.context.types import (
    NOTE_SCHEME,
    build_handle,
    build_note_handle,
)
from memory.gamestate.rows import SCHEME as STATE_SCHEME
from memory.handles import (
    LARGEST_PART,
    RecallError,
    cut_part,
    find_owner,
    parse_handle,
    parse_note_handle,
    read_message,
    read_note,
)
from memory.notes import NoteHit, search_notes
from memory.problems import SlowSearchError
from memory.redaction import hide_secrets
from memory.search.results import Hit, search_messages
from memory.snapshots import reads

DEFAULT_LIMIT = 20
MOST_HITS = 100
LONGEST_CONTENT = 2000
LONGEST_QUERY = 1000
DEFAULT_LISTED = 50
MOST_LISTED = 200


class LocalRefusedError(Exception):
    """A call of one of our own tools that cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Who calls. A Mysis reaches itself alone; ``mysis_id`` None reaches all.

    ``by`` is the caller in the log; ``secret`` are tools whose calls nobody may read,
    ``hidden`` texts that are never stored.
    """

    by: str
    mysis_id: int | None = None
    secret: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()

    @property
    def is_mysis(self) -> bool:
        """Whether a Mysis calls: what was taken back is not there for it."""
        return self.mysis_id is not None

    def find_target(
        self,
        reference: object,
        *,
        argument: str = "mysis_id",
        remedy: str = "leave it out to search yours",
    ) -> Mysis:
        """The Mysis that is meant; raises LocalRefusedError for another's."""
        if self.mysis_id is None:
            return find_mysis(reference, argument)
        own = Mysis.objects.select_related("account").get(pk=self.mysis_id)
        if reference is None or str(reference) in ("", "self", str(own.pk), own.name):
            return own
        raise LocalRefusedError(
            f"Argument '{argument}' names another Mysis, whose history is its own: "
            f"{remedy}."
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one of our tools: as a value, and as texts for a model."""

    value: dict[str, Any]
    blocks: tuple[str, ...]


def make_answer(value: dict[str, Any]) -> Answer:
    """A value with its JSON text."""
    return Answer(value, (json.dumps(value, ensure_ascii=False, indent=2),))


@contextmanager
def refuse_failures() -> Iterator[None]:
    """Raise LocalRefusedError for what the answer to a call may fail with."""
    try:
        yield
    except SlowSearchError as error:
        raise LocalRefusedError(f"Argument 'query': {error.detail}") from error
    except (ActionError, RecallError) as error:
        raise LocalRefusedError(str(error)) from error


def find_mysis(reference: object, argument: str = "mysis_id") -> Mysis:
    """The Mysis of a number or a name; raises LocalRefusedError."""
    text = "" if reference is None else str(reference)
    found = find_owner(text) if text else None
    if found is None:
        raise LocalRefusedError(
            f"Argument '{argument}': there is no Mysis {text[:100]!r}. "
            "zoea_list_myses tells their names."
        )
    return cast("Mysis", found)


def read_members(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Group or tag of the arguments; raises LocalRefusedError for both at once."""
    given = {name: str(arguments.get(name) or "") for name in ("group", "tag")}
    found = {name: word for name, word in given.items() if word}
    if len(found) > 1:
        raise LocalRefusedError("Arguments 'group' and 'tag': give one of them.")
    return found


def find_sender(scope: Scope) -> Mysis | None:
    """The Mysis that calls, None for a program."""
    own = scope.mysis_id
    return None if own is None else Mysis.objects.get(pk=own)


# --- Handles


def answer_recall(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """The stored text of a handle, in parts where it is long (I21)."""
    handle = str(arguments["handle"]).strip()
    if handle.startswith(STATE_SCHEME):
        text = _recalled_state(handle, scope.find_target(arguments.get("mysis_id")))
    elif handle.startswith(NOTE_SCHEME):
        named, note = parse_note_handle(handle)
        text = read_note(_find_owner_in_handle(named, scope).pk, note)
    elif handle.startswith(BROADCAST_SCHEME):
        text = read_broadcast(handle, find_sender(scope))
    else:
        named, message_id = parse_handle(handle)
        owner = _find_owner_in_handle(named, scope)
        text = read_message(
            owner.pk, message_id, secret=scope.secret, standing=scope.is_mysis
        )
    # Cleaned as a whole: a secret must not slip through where it is cut.
    found = cut_part(
        hide_secrets(text),
        offset=int(arguments.get("offset", 0)),
        limit=int(arguments.get("limit", LARGEST_PART)),
    )
    value = {
        "handle": handle,
        "content": found.text,
        "offset": found.offset,
        "total": found.total,
        "next_offset": found.next,
    }
    if found.offset == 0 and found.next is None:
        return Answer(value, (found.text,))
    end = found.offset + len(found.text)
    more = f"; go on with offset {found.next}" if found.next is not None else ""
    note = f"[characters {found.offset} to {end} of {found.total}{more}]"
    return Answer(value, (found.text, note))


def _find_owner_in_handle(named: str, scope: Scope) -> Mysis:
    return scope.find_target(
        named,
        argument="handle",
        remedy="only handles out of your own context can be recalled",
    )


def _recalled_state(handle: str, owner: Mysis) -> str:
    username = owner.account.username if owner.account else None
    try:
        return reads.recall_snapshot(username, handle)
    except (ValueError, LookupError) as error:
        raise LocalRefusedError(str(error.args[0])) from error


# --- Search


def answer_search_messages(
    arguments: Mapping[str, Any], scope: Scope, *, reasoning: bool = False
) -> Answer:
    """The newest matches in what was said (W10) or thought (W12), oldest first."""
    search = read_search(arguments)
    mysis = scope.find_target(arguments.get("mysis_id"))
    hits = search_messages(
        mysis_id=mysis.pk, reasoning=reasoning, standing=scope.is_mysis, **search
    )
    notes = [] if reasoning else search_notes(mysis_id=mysis.pk, **search)
    return list_matches(
        (
            _message_hit(hit, search["query"], reasoning=reasoning)
            for hit in reversed(hits)
        ),
        [_note_hit(hit, search["query"]) for hit in reversed(notes)],
    )


answer_search_reasoning = partial(answer_search_messages, reasoning=True)


def answer_search_broadcasts(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """The newest matching broadcasts, oldest first; a Mysis finds those for it (W11)."""
    search = read_search(arguments)
    hits = search_broadcasts(reader=find_sender(scope), **search)
    return list_matches(
        {
            "broadcast_id": hit.id,
            "sender": hit.sender,
            "content": make_excerpt(
                hit.content, search["query"], f"{BROADCAST_SCHEME}{hit.id}"
            ),
            "timestamp": hit.timestamp.isoformat(timespec="seconds"),
        }
        for hit in reversed(hits)
    )


def read_search(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a search; raises LocalRefusedError."""
    query = arguments["query"].replace("\x00", "")
    if not query.strip():
        raise LocalRefusedError("Argument 'query' is empty: give words to look for.")
    if len(query) > LONGEST_QUERY:
        raise LocalRefusedError(
            f"Argument 'query' is longer than {LONGEST_QUERY} characters: take a part."
        )
    return {
        "query": query,
        "mode": "exact" if arguments.get("mode") == "exact" else "fts",
        "limit": int(arguments.get("limit", DEFAULT_LIMIT)),
        "ignore_case": arguments.get("ignore_case") is True,
        "stem": arguments.get("stem") is True,
    }


def make_excerpt(text: str, query: str, handle: str = "") -> str:
    """The part of a long text around the first word found; ``handle`` brings the rest."""
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


def _message_hit(hit: Hit, query: str, *, reasoning: bool) -> dict[str, Any]:
    handle = build_handle(str(hit.mysis), hit.memory_id)
    found = {
        "memory_id": hit.memory_id,
        "role": hit.role,
        "source": hit.origin,
        "content": make_excerpt(hit.content, query, handle),
        "timestamp": hit.timestamp.isoformat(timespec="seconds"),
    }
    if hit.taken_back:
        found["taken_back"] = True
    if reasoning:
        found["reasoning"] = make_excerpt(hit.reasoning, query, handle)
    return found


def _note_hit(hit: NoteHit, query: str) -> dict[str, Any]:
    return {
        "note": hit.name,
        "text": make_excerpt(hit.text, query, hit.handle),
        "handle": hit.handle,
        "timestamp": hit.timestamp.isoformat(timespec="seconds"),
    }


def list_matches(
    found: Iterable[dict[str, Any]], notes: Sequence[dict[str, Any]] = ()
) -> Answer:
    """The matches; notes that match stand apart from messages, where there are any."""
    matches = list(found)
    more = {"notes": list(notes)} if notes else {}
    return make_answer({"count": len(matches), "matches": matches, **more})


# --- Notes


def answer_note(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Make or replace a note of the caller."""
    mysis = scope.find_target(None)
    note = save_note(
        mysis=mysis,
        name=arguments["name"],
        text=arguments["text"],
        by=scope.by,
        secrets=scope.hidden,
    )
    handle = build_note_handle(str(mysis.pk), note.name)
    return make_answer({"noted": note.name, "version": note.version, "handle": handle})


def answer_forget(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Take a note of the caller out of use."""
    mysis = scope.find_target(None)
    note = forget_note(mysis=mysis, name=arguments["name"], by=scope.by)
    return make_answer({"forgotten": note.name})
