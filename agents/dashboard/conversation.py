"""Stored messages as lines of a conversation, bounded in size.

A tool result may have hundreds of kilobytes: the database cuts it, and the page
says how long the whole is and where to read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Case, OuterRef, QuerySet, Subquery, When
from django.db.models.functions import Left, Length

from agents.actions import messages
from agents.actions.messages import DeliveryStatus
from agents.models import ModelCall, Mysis, Turn
from agents.order_status import RecipientStatus, read_statuses_of
from memory.gamestate.values import parse_text
from memory.models import Branch, Memory, Origin, Role
from memory.models.secret_tools import read_secret_tools
from memory.redaction import hide_secrets, hide_secrets_in_value

# Characters of a text, of an argument and of an excerpt.
SHOWN = 4_000
ARGUMENT = 200
GIST = 140
# Characters that are read beyond those: a secret must not slip through where it is cut.
MARGIN = 4_000
# Characters of a whole message told in one line.
WORDS = 300
# Lines of a page.
PAGE = 50
# What tells most of an answer, if it is there.
TELLING = ("message", "error", "detail", "status", "action")

# Columns that a line shows as they are stored, and others that it is made of.
AS_STORED = (
    "id", "turn_id", "role", "origin", "is_error", "pending", "tick", "tokens",
)  # fmt: skip
MADE_OF = (
    "mysis_id", "sender", "tool_calls", "tool_name", "created_at", "branch_id",
)  # fmt: skip

TOLD = frozenset({Origin.HUMAN, Origin.BROADCAST})
# States of a message that another one follows.
OPEN = frozenset({"queued", "shown"})

# How lines are headed that no person and no Mysis wrote.
WHO: Mapping[str, str] = {
    Origin.NUDGE: "Nudge",
    Origin.PROMPT: "System prompt",
    Origin.SUMMARY: "Summary",
    Origin.STATE: "State",
    Origin.FILLER: "Filler",
    Origin.WARNING: "Warning",
}


# What a Mysis does when a message of this origin goes into its memory.
GETS: Mapping[str, str] = {
    Origin.AGENT: "says",
    Origin.HUMAN: "gets a message",
    Origin.BROADCAST: "gets a broadcast",
    Origin.NUDGE: "is nudged",
    Origin.WARNING: "is warned",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as ``name(args)``."""

    name: str
    args: str


@dataclass(frozen=True, slots=True)
class Line:
    """One message. Sizes count characters of the whole, texts may be cut."""

    id: int
    turn_id: int | None
    role: str
    origin: str
    who: str
    body: str
    size: int
    reasoning: str
    reasoning_size: int
    calls: tuple[Call, ...]
    is_error: bool
    pending: bool
    tick: int | None
    tokens: int
    at: datetime
    # The number of the model call of its turn that wrote it.
    call: int | None = None
    reach: DeliveryStatus | None = None
    order: int | None = None
    status: RecipientStatus | None = None
    # The branch that took it back, and the one that it is the correction of.
    taken_by: int | None = None
    corrects: int | None = None

    @property
    def waits(self) -> bool:
        """Whether what is shown of it can still change."""
        on_the_way = self.reach is not None and self.reach.state in OPEN
        is_open = self.status is not None and self.status.is_open
        return self.pending or on_the_way or is_open

    @property
    def clipped(self) -> bool:
        return self.size > SHOWN

    @property
    def gist(self) -> str:
        return excerpt_answer(self.body)

    @property
    def musing(self) -> str:
        """The beginning of the reasoning, in one line."""
        return _first_words(self.reasoning)

    @property
    def acts(self) -> bool:
        """Whether it only calls tools: such a line needs no room for a text."""
        return bool(self.calls) and not self.body.strip()

    @property
    def version(self) -> tuple[object, ...]:
        """What can change after a row is stored: a pending answer arrives."""
        how_far = self.reach.state if self.reach else ""
        told = self.status and (
            self.status.state,
            self.status.note,
            self.status.overdue,
        )
        own = (self.pending, self.is_error, self.size, len(self.calls), self.taken_by)
        return (*own, how_far, told)


def select_columns(
    memories: QuerySet[Memory], shown: int = SHOWN, *, more: Sequence[str] = ()
) -> Iterable[dict[str, Any]]:
    """The columns that lines are made of, and ``more``; the database cuts long texts."""
    found: Iterable[dict[str, Any]] = memories.annotate(
        head=Left("content", shown + MARGIN),
        size=Length("content"),
        thought=Left("reasoning", shown + MARGIN),
        thought_size=Length("reasoning"),
    ).values(*AS_STORED, *MADE_OF, *more, "head", "size", "thought", "thought_size")
    return found


def make_line(row: Mapping[str, Any], name: str) -> Line:
    """A row of `select_columns` as a line; ``name`` is the Mysis's."""
    body = hide_secrets(row["head"])[:SHOWN]
    pretty = _pretty(body) if row["role"] == Role.TOOL and row["size"] <= SHOWN else ""
    return Line(
        **{column: row[column] for column in (*AS_STORED, "size")},
        who=_name_author(row, name),
        body=pretty or body,
        reasoning=hide_secrets(row["thought"])[:SHOWN],
        reasoning_size=row["thought_size"],
        calls=tuple(read_calls(row["tool_calls"])),
        at=row["created_at"],
        call=row.get("call"),
        corrects=row.get("corrects"),
        taken_by=row["branch_id"],
    )


def _name_author(row: Mapping[str, Any], name: str) -> str:
    origin, role = str(row["origin"]), str(row["role"])
    if role == Role.TOOL:
        return str(row["tool_name"] or "Tool result")
    if origin == Origin.AGENT:
        return name
    who = read_sender_name(row["sender"])
    if origin == Origin.BROADCAST:
        return f"Broadcast from {who}" if who else "Broadcast"
    if origin == Origin.HUMAN:
        return who or "Operator"
    return WHO.get(origin, role)


def read_sender_name(sender: str) -> str:
    """The name in "operator:ann" or "mysis:Ada"; other senders as they are."""
    kind, colon, name = sender.partition(":")
    return name if colon and kind in ("operator", "mysis", "token") else sender


def read_calls(stored: object) -> Iterable[Call]:
    """Stored tool calls in the chat format, whatever a model made of them."""
    for call in stored if isinstance(stored, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            name = str(function.get("name") or "unnamed")
            yield Call(name, format_arguments(function.get("arguments")))


def format_arguments(given: object) -> str:
    """Arguments as ``a="x", b=2``, each bounded."""
    value = parse_text(given or "{}") if isinstance(given, str) else given
    if isinstance(value, str):
        return clip_text(hide_secrets(value))
    given = hide_secrets_in_value(value)
    if not isinstance(given, dict):
        return clip_text(json.dumps(given, ensure_ascii=False))
    return ", ".join(
        f"{key}={clip_text(json.dumps(value, ensure_ascii=False))}"
        for key, value in given.items()
    )


def clip_text(text: str, most: int = ARGUMENT) -> str:
    """At most ``most`` characters, the cut marked."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _pretty(text: str) -> str:
    value = parse_text(text)
    if isinstance(value, str):
        return ""
    return json.dumps(value, indent=2, ensure_ascii=False)


def excerpt_answer(body: str) -> str:
    """What an answer says: its own message, or its first plain values."""
    found = parse_text(body)
    if not isinstance(found, dict):
        return _first_words(body)
    for key in TELLING:
        if isinstance(found.get(key), str) and found[key].strip():
            return clip_text(" ".join(found[key].split()), GIST)
    plain = [
        f"{key} {value}"
        for key, value in found.items()
        if isinstance(value, str | int | float) and value != ""
    ]
    return clip_text(", ".join(plain[:5]) or ", ".join(found), GIST)


def _first_words(text: str) -> str:
    return " ".join(text[: 2 * GIST].split())[:GIST]


def load_newest_lines(
    mysis: Mysis, limit: int = PAGE, *, before: int | None = None
) -> list[Line]:
    """The newest lines, or those just before a memory, oldest first.

    By index, at any depth.
    """
    found = _select_memories(mysis).order_by("-id")
    found = found if before is None else found.filter(id__lt=before)
    return _make_lines(found[:limit], mysis)[::-1]


def load_turn_lines(
    turn: Turn,
    limit: int,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[Line]:
    """The newest lines of a turn, oldest first; of a span of it if its ends are named."""
    found = _select_memories(turn.mysis, turn.pk).order_by("-id")
    found = found if since is None else found.filter(created_at__gte=since)
    found = found if until is None else found.filter(created_at__lt=until)
    return _make_lines(found[:limit], turn.mysis)[::-1]


def load_lines_around(mysis: Mysis, memory_id: int) -> list[Line]:
    """The lines up to a memory, and some after it, for links to the place."""
    half = PAGE // 2
    later = load_lines_after(mysis, memory_id, half)
    return [*load_newest_lines(mysis, half, before=memory_id + 1), *later]


def load_lines_after(
    mysis: Mysis,
    memory_id: int,
    limit: int,
    *,
    turn_id: int | None = None,
    upto: int | None = None,
) -> list[Line]:
    """Up to ``limit`` lines after a memory, oldest first; of one turn if named.

    None of them is newer than the memory ``upto``.
    """
    later = _select_memories(mysis, turn_id).filter(id__gt=memory_id).order_by("id")
    later = later if upto is None else later.filter(id__lte=upto)
    return _make_lines(later[:limit], mysis)


def load_lines(mysis: Mysis, ids: Sequence[int]) -> list[Line]:
    found = _select_memories(mysis).filter(id__in=ids).order_by("id")
    return _make_lines(found, mysis)


def _select_memories(mysis: Mysis, turn_id: int | None = None) -> QuerySet[Memory]:
    found = Memory.objects.filter(mysis=mysis)
    return found if turn_id is None else found.filter(turn_id=turn_id)


def _make_lines(found: QuerySet[Memory], mysis: Mysis) -> list[Line]:
    """Rows as lines; those that were told to the Mysis with how far they have come."""
    beside = {"call": _find_writer(), "corrects": _find_corrected()}
    rows = select_columns(found.annotate(**beside), more=[*beside])
    page = [make_line(row, mysis.name) for row in rows]
    told = [one.id for one in page if one.origin in TOLD and one.role == Role.USER]
    # Read anew: what it heard goes on while a page is looked at.
    now = Mysis.objects.filter(pk=mysis.pk).first() if told else None
    if now is None:
        return page
    reach = messages.read_delivery_statuses(now, told)
    ordered = read_statuses_of(told)
    return [_add_status(one, reach.get(one.id), ordered.get(one.id)) for one in page]


def _find_writer() -> Case:
    """The number of the call that wrote an answer: the last one opened before it."""
    calls = ModelCall.objects.filter(
        turn=OuterRef("turn"),
        kind=ModelCall.Kind.TURN,
        created_at__lte=OuterRef("created_at"),
    )
    number = Subquery(calls.order_by("-number").values("number")[:1])
    return Case(When(role=Role.ASSISTANT, turn__isnull=False, then=number))


def _find_corrected() -> Case:
    """The branch that a message of a person is the correction of."""
    branches = Branch.objects.filter(
        mysis=OuterRef("mysis"), correction_id=OuterRef("pk")
    )
    number = Subquery(branches.values("pk")[:1])
    return Case(When(role=Role.USER, origin=Origin.HUMAN, then=number))


def _add_status(
    line: Line,
    reach: DeliveryStatus | None,
    ordered: tuple[int, RecipientStatus] | None,
) -> Line:
    order, status = ordered or (None, None)
    return replace(line, reach=reach, order=order, status=status)


# --- A message in one line


def describe_messages(ids: Iterable[int]) -> dict[int, str]:
    """What these messages say, by their numbers, in two queries; without secrets."""
    wanted = list(ids)
    if not wanted:
        return {}
    secret = read_secret_tools()
    rows = select_columns(Memory.objects.filter(pk__in=wanted), WORDS)
    return {row["id"]: _describe(row, secret) for row in rows}


def _describe(row: Mapping[str, Any], secret: frozenset[str]) -> str:
    words = _say_answer if row["role"] == Role.TOOL else _say_text
    # Cleaned as a whole: a secret must not slip through where it is cut.
    return clip_text(hide_secrets(words(row, secret)), WORDS)


def _say_answer(row: Mapping[str, Any], secret: frozenset[str]) -> str:
    tool = str(row["tool_name"])
    gist = (
        ""
        if tool in secret or row["pending"]
        else excerpt_answer(hide_secrets(row["head"]))
    )
    does = f"gets the result of {tool}" if tool else name_message(Role.TOOL, "")
    return f"{does}: {gist}" if gist else does


def _say_text(row: Mapping[str, Any], secret: frozenset[str]) -> str:
    text, thought = (
        " ".join(hide_secrets(row[key]).split()) for key in ("head", "thought")
    )
    calls = ", ".join(
        f"{call.name}({'' if call.name in secret else call.args})"
        for call in read_calls(row["tool_calls"])
    )
    if not text and (calls or thought):
        return f"calls {calls}" if calls else f"thinks: {thought}"
    does = name_message(row["role"], row["origin"])
    who = read_sender_name(row["sender"]) if row["origin"] in TOLD else ""
    does = f"{does} from {who}" if who else does
    return f"{does}: {text}" if text else does


def name_message(role: str, origin: str) -> str:
    """What a Mysis does when such a message goes into its log."""
    if role == Role.TOOL:
        return "gets a tool result"
    other = f"gets a message ({origin})" if origin else "gets a message"
    return GETS.get(origin, other)
