"""A past call, assembled again: with the log, the settings and the state of its moment.

What it was sent is stored byte for byte (`sent_view`). Under other settings it can only
be made again: from the rows up to its newest one, the summary that was in use, and what
its own view shows of prompt, standing orders and game state. What is not stored is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from django.db.models import QuerySet

from memory.assembly.load import LoadedTail
from memory.assembly.log_rows import Standing
from memory.assembly.prepare import (
    COALESCED_INPUTS,
    LogMoment,
    PreparedRequest,
    Subject,
)
from memory.assembly.sent_view import RenderedView, render_sent
from memory.calibration import TokenFactor
from memory.context.result_types import Assembly, LedgerLine, Synthetic
from memory.context.sections import drop_catalogue, split_pins
from memory.context.types import (
    CRITICAL_REMINDERS,
    NUDGE_TEXT,
    AssemblyRequest,
    Budget,
    Compaction,
    Message,
    Note,
    Role,
    split_nudge,
)
from memory.gamestate.render import split_state
from memory.models import Branch, HistorySummary, Memory, SentContext
from memory.notes import read_note_versions, read_notes_at

Wire = Mapping[str, Any]
Status = HistorySummary.Status
NO_STATE = (
    "The game state of then is kept only where a call showed it in a block of its own. "
    "This one did not, so there is none in what is assembled here."
)
NO_NOTES = (
    "The notes of then are not all kept as this call had them: of each note the newest "
    "versions are. Those that are kept are taken."
)
NO_OPTIONS = (
    "The options of then are not kept with a call this old: those of today's policy are "
    "taken, or the defaults."
)
NO_BUDGET = "The budget of then is not kept with this call: today's is taken."
NO_TOOLS = "What its tools cost is not kept with this call: today's count is taken."
NO_SHORT_STATE = (
    "Its budget left older messages out, and how much room that kept for a short form of "
    "the game's state is not kept with this call."
)
NO_INPUTS = (
    "The mission, the open orders and the turns that were left are not kept with this "
    "call: today's are taken."
)


@dataclass(frozen=True, slots=True)
class PastCall:
    """A past call: its subject under its own settings, and what stood before it.

    ``unknown`` says in sentences what is not stored of its moment.
    """

    sent: SentContext
    subject: Subject
    before: LogMoment
    shown: RenderedView
    unknown: tuple[str, ...]


def load_past_call(sent: SentContext, now: Subject) -> PastCall:
    """A call with all that is stored of its moment; the rest is as it is ``now``."""
    standing = find_standing(sent.last_id or 0, list_branches(sent.mysis_id))
    shown = render_sent(sent)
    return build_past_call(sent, now, shown, _find_summary(sent), standing)


def build_past_call(
    sent: SentContext,
    now: Subject,
    shown: RenderedView,
    summary: HistorySummary | None,
    standing: Standing,
) -> PastCall:
    """`load_past_call` where its view, its summary and what stood were read already."""
    texts = _read_synthetic_texts(sent, shown)
    before = LogMoment(
        summary=summary,
        through=sent.last_id or 0,
        sent=sent.pk,
        standing=standing,
        state=texts.get("state", ""),
        short_state=sent.stats.get("short_state", ""),
        data=sent.stats.get("inputs", {}).get("data", {}),
    )
    subject = _past_subject(
        sent, shown, replace(now, nudge=texts.get("nudge", now.nudge))
    )
    known = {NO_STATE: "state" in texts, NO_NOTES: _are_same_notes(sent, subject)}
    known[NO_INPUTS] = sent.strategy != "coalesced" or "inputs" in sent.stats
    unknown = tuple(words for words, is_known in known.items() if not is_known)
    return PastCall(sent, subject, before, shown, unknown)


def rebuild_as_sent(past: PastCall) -> PreparedRequest:
    """The call as it was sent, in the form of a view made now."""
    sent, shown = past.sent, past.shown
    ids = [line["id"] for line in shown.ledger]
    roles = Memory.objects.filter(pk__in=ids).order_by("pk").values_list("pk", "role")
    messages = tuple(
        Message(number, cast("Role", role), "agent", "") for number, role in roles
    )
    assembly = Assembly(
        status=sent.stats.get("status", "unchanged"),
        reason=sent.stats.get("reason", ""),
        messages=shown.messages,
        sources=shown.sources,
        synthetic=[Synthetic(**each) for each in sent.view.get("synthetic", [])],
        ledger=[LedgerLine(**line) for line in shown.ledger],
        stats=sent.stats,
        warnings=list(sent.stats.get("warnings", ())),
        system=shown.system,
        dialect=past.subject.dialect,
        offered=shown.offered,
    )
    return PreparedRequest(
        subject=past.subject,
        request=AssemblyRequest(messages=messages),
        assembly=assembly,
        loaded=LoadedTail(messages, {}, sent.first_id),
        facts=sent.facts,
        digest=sent.digest,
    )


def list_guesses(past: PastCall) -> tuple[str, ...]:
    """What is not stored of the call and was replaced by today's, in sentences."""
    stats = past.sent.stats
    known = {
        NO_OPTIONS: "options" in stats,
        NO_BUDGET: "budget" in stats and "reserve" in stats,
        NO_TOOLS: "tools" in _categories(stats),
        NO_SHORT_STATE: not stats.get("over_budget") or "short_state" in stats,
    }
    found = [guess for guess, is_known in known.items() if not is_known]
    ids = [line["id"] for line in past.shown.ledger]
    if gone := len(ids) - Memory.objects.filter(pk__in=ids).count():
        found.append(f"{gone} of the messages it considered are no longer kept.")
    return tuple(found)


def _past_subject(sent: SentContext, shown: RenderedView, now: Subject) -> Subject:
    stats = sent.stats
    system, pins = split_pins(_read_system(shown))
    if shown.offered is not None and shown.offered.catalogue:
        system = drop_catalogue(system)
    same = now.strategy == sent.strategy
    return replace(
        now,
        system=system,
        pins=pins,
        notes=_read_notes(sent),
        pin_hashes=(),
        username=sent.username or None,
        strategy=sent.strategy,
        options=stats.get("options", now.options if same else {}),
        budget=Budget(
            stats.get("budget", now.budget.tokens),
            stats.get("reserve", now.budget.reserve),
        ),
        dialect="anthropic" if sent.dialect == "anthropic" else "openai",
        tools_tokens=_categories(stats).get("tools", now.tools_tokens),
        offered=shown.offered,
        model=sent.call.model,
        compaction=Compaction(
            prompt=now.compaction.prompt, prices=now.compaction.prices
        ),
        learnt=TokenFactor(stats.get("calibration", 1.0), stats.get("estimate_error")),
        **_read_inputs(stats),
    )


def _are_same_notes(sent: SentContext, subject: Subject) -> bool:
    """Whether the notes that are kept are those that the call had."""
    then = [(each["name"], each.get("version")) for each in _list_notes(sent)]
    kept = [(note.name, note.version) for note in subject.notes]
    if None in (version for _, version in then):
        return {name for name, _ in then} == {name for name, _ in kept}
    return then == kept


def _read_notes(sent: SentContext) -> tuple[Note, ...]:
    """The very versions that the call had; those of its moment where it tells none."""
    then = [(each["name"], each.get("version")) for each in _list_notes(sent)]
    if any(version is None for _, version in then):
        return read_notes_at(sent.mysis_id, sent.created_at)
    known = [(name, version) for name, version in then if version is not None]
    return read_note_versions(sent.mysis_id, known, sent.created_at)


def _list_notes(sent: SentContext) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = sent.stats.get("notes", [])
    return found


def _read_inputs(stats: Mapping[str, Any]) -> dict[str, Any]:
    """What a coalesced call was made of, as far as a subject has it."""
    kept = stats.get("inputs", {})
    names = [name for name in COALESCED_INPUTS if name in kept and name != "data"]
    found = {name: kept[name] for name in names}
    if "open_orders" in found:
        found["open_orders"] = tuple(found["open_orders"])
    return found


def _categories(stats: Mapping[str, Any]) -> Mapping[str, int]:
    found = stats.get("tokens_by_category")
    return found if isinstance(found, Mapping) else {}


def _read_system(shown: RenderedView) -> str:
    if shown.system is not None:
        return shown.system
    first = shown.messages[0] if shown.messages else {}
    return str(first["content"]) if first.get("role") == "system" else ""


def _read_synthetic_texts(sent: SentContext, shown: RenderedView) -> dict[str, str]:
    """The texts at the end of the view that stand for no stored message, by kind."""
    last = len(shown.messages) - 1
    made = sent.view.get("synthetic", [])
    kinds = [s["kind"] for s in made if s["position"] == last]
    found = dict(zip(reversed(kinds), _texts_from_end(shown.messages), strict=False))
    if "coalesced" in found:
        found |= _split_coalesced(found["coalesced"])
    if sent.dialect == "openai" and "state" in found:
        text, found["state"] = split_state(found["state"])
        # Before the block was joined to another text, it was a message of its own.
        before = [s for s in made if s["position"] == last - 1] if not text else []
        if before:
            found[before[-1]["kind"]] = str(shown.messages[last - 1]["content"])
        elif "nudge" in kinds:
            found["nudge"] = text
    return found


def _split_coalesced(text: str) -> dict[str, str]:
    """The state block and the nudge at the end of a view that is one message."""
    found = {}
    body = text
    if text.endswith(CRITICAL_REMINDERS):
        body, words, orders = split_nudge(text)
        # Where none was due, its words were not said, whichever they were.
        parts = (words or NUDGE_TEXT, orders, CRITICAL_REMINDERS)
        found["nudge"] = "\n\n".join(filter(None, parts))
    if state := split_state(body)[1]:
        found["state"] = state
    return found


def _texts_from_end(messages: Sequence[Wire]) -> list[str]:
    """The texts of the last message, its last block first."""
    content = messages[-1]["content"] if messages else ""
    if isinstance(content, str):
        return [content]
    texts = [block["text"] for block in content or () if block.get("type") == "text"]
    return texts[::-1]


def list_branches(mysis_id: int) -> list[Branch]:
    """The branches of a Mysis that can count for a call, the newest first."""
    rows = Branch.objects.filter(mysis_id=mysis_id).order_by("-pk")
    return list(rows.only("first_id", "through_id", "correction_id", "undone_at"))


def find_standing(through: int, branches: Sequence[Branch]) -> Standing:
    """What stood for a call whose newest message is this one.

    The newest branch counts that had taken something back by then.
    """
    for branch in branches:
        # One that was imported has no correction: it came with its first message.
        if branch.first_id > through or branch.correction_id > through:
            continue
        # `explain_no_undo` refuses an undo once something came after the correction, so a
        # call whose newest message that is was made before the undo, and no other was.
        if branch.undone_at is not None and branch.correction_id == through:
            return Standing(branch.pk - 1, branch.first_id, branch.through_id)
        return Standing(branch.pk)
    return Standing(0)


def _find_summary(sent: SentContext) -> HistorySummary | None:
    """The summary that the call had; it is stored even if it was reverted since."""
    generation = sent.stats.get("generation", 0)
    rows = select_used(sent.mysis_id).filter(
        generation=generation, created_at__lte=sent.created_at
    )
    return rows.order_by("-id").first() if generation else None


def select_used(mysis_id: int) -> QuerySet[HistorySummary]:
    """The summaries that calls of a Mysis can have had."""
    used = (Status.ACTIVE, Status.REPLACED, Status.REVERTED)
    return HistorySummary.objects.filter(mysis_id=mysis_id, status__in=used)
