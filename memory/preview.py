"""What the next call of a Mysis will be sent, and why: one function for all.

The turn sends what :func:`prepare` gives, the pages and the API show what it
gives; so a preview cannot differ from the call. It writes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from .context.assemble import assemble
from .context.types import (
    Assembly,
    AssemblyRequest,
    Budget,
    Dialect,
    Message,
    Summary,
)
from .gamestate.render import Rendered, render
from .history import messages_of
from .models import HistorySummary, Memory, Role, SentContext
from .state import account_state

# Rows read for one assembly: enough that a window of the default size shows
# what it left out, few enough that the cost does not grow with the history.
TAIL_ROWS = 120
ROWS_PER_WINDOW = 4
UNREAD_COLUMNS = ("content_vector", "reasoning_vector")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose context, and by which policy; everything that is not in the log.

    ``tools_tokens`` is what the tool schemas cost. ``username`` is the active
    game account, None where nobody is logged in.
    """

    mysis_id: int
    name: str
    system: str | None
    pins: tuple[str, ...] = ()
    username: str | None = None
    strategy: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    dialect: Dialect = "openai"
    tool_policy: Mapping[str, str] = field(default_factory=dict)
    tools_tokens: int = 0
    nudge: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A view with its account. ``facts`` are the state values it shows."""

    subject: Subject
    request: AssemblyRequest
    assembly: Assembly
    facts: Mapping[str, str]
    digest: str


def prepare(subject: Subject, *, now: datetime | None = None) -> Prepared:
    """Load the tail of the log and assemble it. Costs the same at any length."""
    shown: list[Rendered] = []
    request = _request(subject, _state_renderer(subject, shown, now))
    assembly = assemble(request)
    return Prepared(
        subject=subject,
        request=request,
        assembly=assembly,
        facts=shown[-1].facts if shown else {},
        digest=digest_of(assembly.messages, assembly.system),
    )


def digest_of(messages: list[dict[str, Any]], system: str | None = None) -> str:
    """SHA-256 of a view as canonical JSON; equal digests are equal payloads."""
    body = {"system": system, "messages": messages}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _request(subject: Subject, state: Callable[[int], str]) -> AssemblyRequest:
    chosen: dict[str, Any] = {"strategy": subject.strategy} if subject.strategy else {}
    return AssemblyRequest(
        messages=load_tail(subject),
        system=subject.system,
        pins=subject.pins,
        summary=_summary(subject.mysis_id),
        render_state=state,
        state_bytes=settings.ZOEA_STATE_BLOCK_BYTES,
        tool_policy=subject.tool_policy,
        options=subject.options,
        budget=subject.budget,
        dialect=subject.dialect,
        tools_tokens=subject.tools_tokens,
        mysis=str(subject.mysis_id),
        nudge=subject.nudge,
        **chosen,
    )


def load_tail(subject: Subject) -> tuple[Message, ...]:
    """The newest rows, and the newest intent where it lies further back."""
    window = subject.options.get("window")
    wanted = window * ROWS_PER_WINDOW if isinstance(window, int) else 0
    log = Memory.objects.defer(*UNREAD_COLUMNS)
    limit = max(TAIL_ROWS, wanted)
    rows = log.tail(subject.mysis_id, limit)
    if len(rows) == limit:
        rows = _from_a_whole_unit(subject.mysis_id, rows)
    intent = log.newest_intent(subject.mysis_id)
    if intent is not None and rows and intent.pk < rows[0].pk:
        rows.insert(0, intent)
    return messages_of(rows)


def _from_a_whole_unit(mysis_id: int, rows: list[Memory]) -> list[Memory]:
    """With the call of the results at the cut, and what lies between."""
    if rows[0].role != Role.TOOL:
        return rows
    older = Memory.objects.defer(*UNREAD_COLUMNS).filter(
        mysis_id=mysis_id, pk__lt=rows[0].pk
    )
    call = older.filter(role=Role.ASSISTANT).order_by("-pk").first()
    if call is None:
        return rows
    return [*older.filter(pk__gte=call.pk).order_by("pk")[:TAIL_ROWS], *rows]


def _summary(mysis_id: int) -> Summary | None:
    newest = (
        HistorySummary.objects.filter(
            mysis_id=mysis_id, status=HistorySummary.Status.ACTIVE
        )
        .order_by("-through_id")
        .first()
    )
    if newest is None:
        return None
    return Summary(newest.through_id, newest.text, newest.generation)


def _state_renderer(
    subject: Subject, shown: list[Rendered], now: datetime | None
) -> Callable[[int], str]:
    # Read once; the core may ask again for a shorter block.
    state = account_state(
        subject.username, now=now, last_shown=last_shown(subject), newest_only=True
    )

    def block(max_bytes: int) -> str:
        rendered = render(state, max_bytes)
        shown.append(rendered)
        return rendered.text

    return block


def last_shown(subject: Subject) -> Mapping[str, str]:
    """The state values that the last call of this account showed."""
    if subject.username is None:
        return {}
    newest = (
        SentContext.objects.filter(mysis_id=subject.mysis_id)
        .order_by("-id")
        .values_list("username", "facts")
        .first()
    )
    if newest is None or newest[0] != subject.username:
        return {}
    return dict(newest[1])
