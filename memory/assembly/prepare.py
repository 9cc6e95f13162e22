"""What the next call of a Mysis will be sent, and why: one function for all.

The turn sends what :func:`prepare` gives, the pages and the API show what it
gives; so a preview cannot differ from the call. It writes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection
from django.utils import timezone

from memory.assembly import load
from memory.assembly.load import LAST, Entry, wire_of
from memory.assembly.sent_view import digest_of, pack, rows_of, view_of
from memory.context import registry
from memory.context.assemble import assemble
from memory.context.types import (
    Assembly,
    AssemblyRequest,
    Budget,
    Compaction,
    Dialect,
    Summary,
)
from memory.gamestate.render import Rendered, render
from memory.models import HistorySummary, SentContext
from memory.snapshots.reads import account_state

LAST_SENT = """
SELECT sent.id, sent.mysis_id, sent.call_id, strategy, dialect, view, stats, facts,
  username, first_id, last_id, call.input_tokens AS reported, call.model AS counted_by
FROM memory_sentcontext AS sent JOIN agents_modelcall AS call ON call.id = sent.call_id
WHERE sent.mysis_id = %s AND sent.id < %s ORDER BY sent.id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose context, and by which policy; everything that is not in the log.

    ``tools_tokens`` is what the tool schemas cost. ``username`` is the active
    game account, None where nobody is logged in; ``fetched`` says that its events
    are asked for by the program. ``calibration`` and
    ``estimate_error`` are what is known of the model's tokens (A30).
    """

    mysis_id: int
    name: str
    system: str | None
    pins: tuple[str, ...] = ()
    username: str | None = None
    fetched: bool = False
    strategy: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    dialect: Dialect = "openai"
    tool_policy: Mapping[str, str] = field(default_factory=dict)
    tools_tokens: int = 0
    nudge: str | None = None
    model: str = ""
    compaction: Compaction = field(default_factory=Compaction)
    calibration: float = 1.0
    estimate_error: float | None = None


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A view with its account. ``facts`` are the state values it shows.

    ``loaded`` is what was read of the log; the next call of the same strategy begins
    its reading at the same place.
    """

    subject: Subject
    request: AssemblyRequest
    assembly: Assembly
    loaded: load.Tail
    facts: Mapping[str, str]
    digest: str


@dataclass(frozen=True, slots=True)
class Before:
    """What a view is made of beside its subject: the log and its state at a moment.

    ``through`` is the newest row that there is, ``sent`` the id that the context of
    the call would have. ``summary`` is the one in use, ``state`` the game's as a text;
    None: as it is known now.
    """

    summary: HistorySummary | None
    through: int = LAST
    sent: int = LAST
    state: str | None = None


def prepare_request(
    subject: Subject, *, now: datetime | None = None, before: Before | None = None
) -> PreparedRequest:
    """Load the tail of the log and assemble it. Costs the same at any length.

    ``before`` is another moment than this one.
    """
    shown: list[Rendered] = []
    moment = before or Before(load.newest_summary(subject.mysis_id))
    last = _last_call(subject, moment)
    state = _state_renderer(subject, last.sent if last else None, shown, now)
    if moment.state is not None:
        state = _as_shown(moment.state)
    loaded, request = _request(subject, moment, last, state)
    assembly = assemble(request)
    if loaded.cut:
        assembly.warnings.append(
            f"Messages before {loaded.start} were not read: there are too many that no "
            "summary tells."
        )
    return PreparedRequest(
        subject=subject,
        request=request,
        assembly=assembly,
        loaded=loaded,
        facts=shown[-1].facts if shown else {},
        digest=digest_of(assembly.messages, assembly.system),
    )


class _Last(NamedTuple):
    """The call before: what was sent, by which model, and its tokens as that counted."""

    sent: SentContext
    model: str
    tokens: int


def _last_call(subject: Subject, moment: Before) -> _Last | None:
    """The call before this one, without its long account."""
    found: Any
    wanted = [subject.mysis_id, moment.sent]
    for found in SentContext.objects.raw(LAST_SENT, wanted):
        return _Last(found, found.counted_by, found.reported)
    return None


def _request(
    subject: Subject,
    moment: Before,
    before: _Last | None,
    state: Callable[[int], str],
) -> tuple[load.Tail, AssemblyRequest]:
    last = before.sent if before else None
    strategy = subject.strategy or registry.DEFAULT
    summary = moment.summary
    loaded = load.load(
        load.Wish(
            subject.mysis_id,
            strategy,
            subject.options.get("window"),
            subject.budget,
            summary,
            last,
            moment.through,
        )
    )
    same = last is not None and last.dialect == subject.dialect
    return loaded, AssemblyRequest(
        messages=loaded.messages,
        system=subject.system,
        pins=subject.pins,
        summary=_summary(summary),
        compaction=_reported(subject, before),
        render_state=state,
        state_bytes=settings.ZOEA_STATE_BLOCK_BYTES,
        tool_policy=subject.tool_policy,
        strategy=strategy,
        options=subject.options,
        budget=subject.budget,
        dialect=subject.dialect,
        calibration=subject.calibration,
        estimate_error=subject.estimate_error,
        tools_tokens=subject.tools_tokens,
        mysis=str(subject.mysis_id),
        previous=view_of(last, loaded.rows)[0] if last and same else None,
        nudge=subject.nudge,
        unbroken_from=loaded.start or 0,
    )


def _reported(subject: Subject, last: _Last | None) -> Compaction:
    """With what the provider counted for the last prompt, beside our count (L2, A13).

    The difference is what our count misses; it holds for other views too, so masks,
    summaries and other options need no new report (L8).
    """
    if last is None or not last.tokens:
        return subject.compaction
    if subject.model and last.model != subject.model:
        return subject.compaction
    counted = last.sent.stats.get("tokens_by_category")
    if not counted:
        # Nothing to lay beside it, as after an import of an older log.
        return subject.compaction
    return replace(
        subject.compaction,
        reported_tokens=last.tokens,
        reported_estimate=sum(counted.values()),
        reported_through=last.sent.last_id or 0,
    )


def _summary(row: HistorySummary | None) -> Summary | None:
    return Summary(row.through_id, row.text, row.generation) if row else None


def _state_renderer(
    subject: Subject,
    last: SentContext | None,
    shown: list[Rendered],
    now: datetime | None,
) -> Callable[[int], str]:
    # Read once; the core may ask again for a shorter block.
    state = account_state(
        subject.username,
        now=now,
        last_shown=_facts(subject, last),
        newest_only=True,
        fetched=subject.fetched,
    )

    def block(max_bytes: int) -> str:
        rendered = render(state, max_bytes)
        shown.append(rendered)
        return rendered.text

    return block


def _as_shown(text: str) -> Callable[[int], str]:
    """A block that was made already; it cannot be made shorter."""
    return lambda most: text if len(text.encode()) <= most else ""


def _facts(subject: Subject, last: SentContext | None) -> Mapping[str, str]:
    """The state values that the last call showed, if it was of this account."""
    if last is None or subject.username is None or last.username != subject.username:
        return {}
    return dict(last.facts)


# SECTION What a call was sent, kept by reference; ``shown`` renders it again.
#
# A message that stands for a stored row is kept as that row's id, plus only what
# the view changed of it; texts that recur (system prompts, stubs) are kept once
# under their hash. So a call costs little more than its new content.

LONG_TEXT = 400
COLUMNS = (
    "mysis_id",
    "call_id",
    "strategy",
    "dialect",
    "view",
    "ledger",
    "stats",
    "facts",
    "username",
    "first_id",
    "last_id",
    "digest",
    "created_at",
)
JSON = frozenset({"view", "ledger", "stats", "facts"})
KEEP = f"""
WITH texts AS (
  INSERT INTO memory_contexttext (digest, text)
  SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT DO NOTHING
)
INSERT INTO memory_sentcontext ({", ".join(COLUMNS)})
VALUES ({", ".join(["%s"] * len(COLUMNS))}) RETURNING id
"""  # noqa: S608 (no input in the text)


def record(*, call_id: int, prepared: PreparedRequest) -> SentContext:
    """Keep the view of one call, in the caller's transaction."""
    assembly = prepared.assembly
    stored = prepared.request.messages
    rows = rows_of(assembly.sources, prepared.loaded.rows)
    texts: dict[str, str] = {}
    view = {
        "system": _kept(assembly.system, texts),
        "sources": assembly.sources,
        "synthetic": [asdict(s) for s in assembly.synthetic],
        "messages": [
            _reference(message, rows.get(_single(source)), texts)
            for message, source in zip(assembly.messages, assembly.sources, strict=True)
        ],
    }
    return _kept_with(
        texts,
        mysis_id=prepared.subject.mysis_id,
        call_id=call_id,
        strategy=assembly.stats["strategy"],
        dialect=prepared.request.dialect,
        view=view,
        ledger=pack(assembly.ledger),
        # What it was made with is no figure, but who asks for these wants to know.
        stats=assembly.stats | {"options": dict(prepared.request.options)},
        facts=dict(prepared.facts),
        username=prepared.subject.username or "",
        first_id=prepared.loaded.start,
        last_id=stored[-1].id if stored else None,
        digest=prepared.digest,
        created_at=timezone.now(),
    )


def _single(source: Any) -> int:
    # A message joined from several rows stands for none of them alone.
    return source if isinstance(source, int) else 0


def _reference(
    message: Mapping[str, Any], row: Entry | None, texts: dict[str, str]
) -> dict[str, Any]:
    plain = wire_of(row) if row is not None else {}
    changed = {
        key: _kept(value, texts)
        for key, value in message.items()
        if key not in plain or plain[key] != value
    }
    gone = [key for key in plain if key not in message]
    other = changed or gone or list(plain) != list(message)
    entry: dict[str, Any] = {"order": list(message)} if other else {}
    if row is not None:
        entry["m"] = row.pk
    if changed:
        entry["set"] = changed
    return entry


def _kept(value: Any, texts: dict[str, str]) -> Any:
    if not isinstance(value, str) or len(value) < LONG_TEXT:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    texts[digest] = value
    return {"text": digest}


def _kept_with(texts: Mapping[str, str], **values: Any) -> SentContext:
    """Write the row, and in the same statement the texts that are not kept yet.

    In one order, so that two who keep the same texts never wait for each other.
    """
    digests = sorted(texts)
    row = [
        json.dumps(values[name]) if name in JSON else values[name] for name in COLUMNS
    ]
    with connection.cursor() as cursor:
        cursor.execute(KEEP, [digests, [texts[each] for each in digests], *row])
        (number,) = cursor.fetchone()
    return SentContext(pk=number, **values)
