"""What the next call of a Mysis will be sent, and why; and how that is stored.

The turn sends what :func:`prepare_request` gives, and the pages and the API show what it
gives, so a preview cannot differ from the call. It writes nothing. :func:`record_call`
stores a view by reference, so that a call costs little more than its new content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone

from memory.assembly import load
from memory.assembly.hashes import SentPin, check_pins, hash_encoded
from memory.assembly.history_summaries import read_newest_summary
from memory.assembly.log_rows import LAST, NOW, Standing
from memory.assembly.packing import pack_ledger, pack_sources
from memory.assembly.sent_view import (
    LastCall,
    read_last_call,
    refer_text,
    refer_tools,
    refer_view,
    render_messages,
)
from memory.assembly.turn_reads import TurnReads, keep_work, take_work
from memory.calibration import TokenFactor
from memory.context import registry
from memory.context.assemble import assemble
from memory.context.budget import SHORT_STATE_BYTES
from memory.context.result_types import Assembly
from memory.context.types import (
    AssemblyRequest,
    Budget,
    Compaction,
    Dialect,
    Message,
    Note,
    OfferedTools,
    Summary,
)
from memory.gamestate.render import Rendered, render_block
from memory.gamestate.rows import name_handles
from memory.gamestate.types import AccountState
from memory.models import (
    HistorySummary,
    SentContext,
    build_insert,
    fetch_rows,
    list_values,
)
from memory.snapshots.reads import read_account_state

_INSERT = f"""
WITH texts AS (
  INSERT INTO memory_contexttext (digest, text)
  SELECT * FROM unnest(%b::text[], %b::text[]) ON CONFLICT DO NOTHING
)
{build_insert(SentContext)} RETURNING id
"""  # noqa: S608 (no input in the text)


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose context, and by which policy; everything that is not in the log.

    ``pin_hashes`` are what the pins must hash to, "" for any. ``tools_tokens`` is what
    the ``offered`` tools cost. ``username`` is the active game
    account, None where nobody is logged in; ``fetched``: the program asks for its
    events. ``learnt`` is of the model's tokens (A30). What `coalesced` tells beside the
    log: the ``mission`` and its row if it is one, the ids of ``open_orders``, the model
    calls that are left of the turn and those that it may have.
    """

    mysis_id: int
    name: str
    system: str | None
    pins: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    pin_hashes: tuple[str, ...] = ()
    username: str | None = None
    fetched: bool = False
    strategy: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    dialect: Dialect = "openai"
    tool_policy: Mapping[str, str] = field(default_factory=dict)
    tools_tokens: int = 0
    offered: OfferedTools | None = None
    nudge: str | None = None
    model: str = ""
    compaction: Compaction = field(default_factory=Compaction)
    learnt: TokenFactor = field(default_factory=TokenFactor)
    mission: str | None = None
    mission_id: int | None = None
    open_orders: tuple[int, ...] = ()
    turns_left: int | None = None
    max_turns: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A view and how it was made. ``facts`` are the state values it shows.

    ``loaded`` is what was read of the log; the next call of the same strategy begins
    its reading at the same place.
    """

    subject: Subject
    request: AssemblyRequest
    assembly: Assembly
    loaded: load.LoadedTail
    facts: Mapping[str, str]
    digest: str
    pins: tuple[SentPin, ...] = ()


@dataclass(frozen=True, slots=True)
class LogMoment:
    """What a view is made of beside its subject: the log and its state at a moment.

    ``through`` is the newest row, ``sent`` the id that the context of the call would
    have, ``standing`` what was not taken back. ``summary`` is the one in use, ``state`` the
    game's as a text; None: as now. With a text, ``short_state`` is its short form, as far as
    that is known, and ``data`` are the handles of the answers that were kept. ``replaced``
    are messages that stand in the place of the rows of these ids.
    """

    summary: HistorySummary | None
    through: int = LAST
    sent: int = LAST
    standing: Standing = NOW
    state: str | None = None
    short_state: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[int, Message] = field(default_factory=dict)


def prepare_request(
    subject: Subject,
    *,
    now: datetime | None = None,
    before: LogMoment | None = None,
    reads: TurnReads | None = None,
) -> PreparedRequest:
    """Load the tail of the log and assemble it, at the same cost for any length.

    ``before`` is a past moment to do it as of; ``reads`` is what earlier calls of the
    same turn have read, and is brought up to date.
    """
    shown: list[Rendered] = []
    known = reads or TurnReads()
    shares = reads is not None and not reads.apart
    if shares:
        # Where there was no room for it, that of the turn's last call.
        known.work = take_work(subject.mysis_id) or known.work
    work = known.work
    moment = before or LogMoment(read_newest_summary(subject.mysis_id))
    known.last = known.last or read_last_call(
        subject.mysis_id, moment.sent, work.digest, work.messages, moment.standing
    )
    if moment.state is None:
        account = _read_state(subject, known, now)
        state = partial(_render_state, account, shown)
        data = name_handles(account.snapshots)
    else:
        state = partial(_show_fitting, (moment.state, moment.short_state))
        data = dict(moment.data)
    loaded, request = _load_request(subject, moment, known, state)
    request = replace(request, data=data)
    assembly = assemble(request, work.earlier)
    if loaded.cut:
        assembly.warnings.append(
            f"Messages before {loaded.start} were not read: there are too many that no "
            "summary tells."
        )
    pins = check_pins(assembly, subject.pins, subject.pin_hashes)
    assembly.warnings.extend(pin.explain() for pin in pins if not pin.sent)
    prepared = PreparedRequest(
        pins=pins,
        subject=subject,
        request=request,
        assembly=assembly,
        loaded=loaded,
        facts=shown[-1].facts if shown else {},
        digest=hash_encoded(assembly.encoded, assembly.system, subject.offered),
    )
    if shares:
        work.messages, work.digest = assembly.messages, prepared.digest
        keep_work(subject.mysis_id, work, loaded)
    return prepared


def _show_fitting(blocks: tuple[str, ...], max_bytes: int) -> str:
    # They were made in the past, and cannot be made shorter.
    fitting = (block for block in blocks if block and len(block.encode()) <= max_bytes)
    return next(fitting, "")


def _load_request(
    subject: Subject,
    moment: LogMoment,
    reads: TurnReads,
    state: Callable[[int], str],
) -> tuple[load.LoadedTail, AssemblyRequest]:
    before = reads.last
    last = before.sent if before else None
    strategy = subject.strategy or registry.DEFAULT
    row = moment.summary
    loaded = load.load_tail(
        load.TailRequest(
            subject.mysis_id,
            strategy,
            subject.options.get("window"),
            subject.budget,
            row,
            last,
            moment.through,
            moment.standing,
        ),
        reads.tail,
        reads.work.tail,
        reads.shared,
    )
    reads.tail = reads.work.tail = loaded
    same = before is not None and before.sent.dialect == subject.dialect
    if before is not None and same and before.messages is None:
        before.messages = render_messages(before.sent, loaded.rows, before.texts)[0]
    return loaded, AssemblyRequest(
        messages=tuple(moment.replaced.get(m.id, m) for m in loaded.messages)
        if moment.replaced
        else loaded.messages,
        system=subject.system,
        pins=subject.pins,
        notes=subject.notes,
        summary=Summary(row.through_id, row.text, row.generation) if row else None,
        compaction=_add_report(subject, before),
        render_state=state,
        state_bytes=settings.ZOEA_STATE_BLOCK_BYTES,
        tool_policy=subject.tool_policy,
        strategy=strategy,
        options=subject.options,
        budget=subject.budget,
        dialect=subject.dialect,
        calibration=subject.learnt.factor,
        estimate_error=subject.learnt.error,
        tools_tokens=subject.tools_tokens,
        offered=subject.offered,
        mysis=str(subject.mysis_id),
        previous=before.messages if before and same else None,
        nudge=subject.nudge,
        unbroken_from=loaded.start or 0,
        mission=subject.mission,
        mission_id=subject.mission_id,
        open_orders=subject.open_orders,
        turns_left=subject.turns_left,
        max_turns=subject.max_turns,
        show_results=True,
    )


def _add_report(subject: Subject, last: LastCall | None) -> Compaction:
    """The subject's compaction with the last prompt's reported and estimated tokens.

    The difference is what our count misses (L2, A13); it holds for other views too, so
    masks, summaries and other options need no new report (L8).
    """
    # There may be no estimate to compare with, as after an import of an older log.
    counted = last.sent.stats.get("tokens_by_category") if last else None
    if last is None or not last.tokens or not counted:
        return subject.compaction
    if subject.model and last.model != subject.model:
        return subject.compaction
    return replace(
        subject.compaction,
        reported_tokens=last.tokens,
        reported_cached=last.cached,
        reported_estimate=sum(counted.values()),
        reported_through=last.sent.last_id or 0,
    )


def _read_state(
    subject: Subject, reads: TurnReads, now: datetime | None
) -> AccountState:
    """What is known of the game, read once for a view."""
    last = reads.last.sent if reads.last else None
    same = last is not None and last.username == subject.username
    return read_account_state(
        subject.username,
        now=now,
        last_shown=dict(last.facts) if last and same else {},
        newest_only=True,
        fetched=subject.fetched,
        known=reads.snapshots,
    )


def _render_state(state: AccountState, shown: list[Rendered], max_bytes: int) -> str:
    """The block of a state, noted among those ``shown``."""
    shown.append(render_block(state, max_bytes))
    return shown[-1].text


# --- Storing what a call was sent

# What a coalesced view is made of beside log, state and tools.
COALESCED_INPUTS = (
    *("mission", "mission_id", "open_orders"),
    *("turns_left", "max_turns", "data"),
)


def _describe_inputs(request: AssemblyRequest, over_budget: bool) -> dict[str, Any]:
    """What is no figure, but is needed to make the view again, or to judge it."""
    found: dict[str, Any] = {"options": dict(request.options)}
    if over_budget and request.render_state is not None:
        # For which room was kept, whatever the view shows of the state.
        size = min(request.state_bytes, SHORT_STATE_BYTES)
        found["short_state"] = request.render_state(size)
    if request.strategy == "coalesced":
        found["inputs"] = {name: getattr(request, name) for name in COALESCED_INPUTS}
    return found


def record_call(
    *, call_id: int, prepared: PreparedRequest, reads: TurnReads | None = None
) -> SentContext:
    """Store the view of one call, in the caller's transaction.

    Later calls of the turn need not read it: it is the last one of ``reads``, which are
    of no use any more where that transaction is undone.
    """
    assembly = prepared.assembly
    stored = prepared.request.messages
    known = reads or TurnReads()
    references = refer_view(assembly, prepared.loaded.rows, known.work.references)
    texts: dict[str, str] = {}
    for each in references:
        texts |= each.texts
    view = {
        "system": refer_text(assembly.system, texts),
        "sources": pack_sources(assembly.sources),
        "synthetic": [asdict(s) for s in assembly.synthetic],
        "messages": [each.entry for each in references],
        "made_ids": True,
        **refer_tools(assembly.offered, texts),
    }
    sent = SentContext(
        mysis_id=prepared.subject.mysis_id,
        call_id=call_id,
        strategy=assembly.stats["strategy"],
        dialect=prepared.request.dialect,
        view=view,
        ledger=pack_ledger(assembly.ledger),
        # These are no figures, but who reads the figures wants to know them.
        stats=assembly.stats
        | _describe_inputs(prepared.request, assembly.stats["over_budget"])
        | {
            "pins": [asdict(pin) for pin in prepared.pins],
            "warnings": list(assembly.warnings),
        }
        | ({"notes": list(map(asdict, assembly.notes))} if assembly.notes else {}),
        facts=dict(prepared.facts),
        username=prepared.subject.username or "",
        first_id=prepared.loaded.start,
        last_id=stored[-1].id if stored else None,
        digest=prepared.digest,
        created_at=timezone.now(),
    )
    # One statement; its texts in one order, so that two calls with the same ones never
    # wait for each other. Those of the call before are kept as long as it is, and it is
    # until this one stands: the schemas of the tools alone are tens of kilobytes.
    digests = sorted(texts.keys() - known.list_stored())
    new = [digests, [texts[each] for each in digests]]
    ((sent.pk,),) = fetch_rows(_INSERT, [*new, *list_values(sent)], prepare=True)
    known.last = LastCall(sent, prepared.subject.model, 0, assembly.messages)
    known.work.references = {id(each.message): each for each in references}
    known.note_sent(sent, texts)
    return sent
