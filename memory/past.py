"""A call that was made, assembled again: the log, settings and state of then.

What it was sent is kept byte for byte. Under other settings it can only be made again:
from the rows up to its newest one, the summary that was in use, and what its own view
shows of prompt, standing orders and game state. What of that is not kept is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from .context.pins import apart
from .context.types import (
    Assembly,
    AssemblyRequest,
    Budget,
    Compaction,
    LedgerLine,
    Message,
    Role,
    Synthetic,
)
from .models import HistorySummary, Memory, SentContext
from .preview import Before, Prepared, Subject
from .shown import Shown, show
from .tail import Tail

Wire = Mapping[str, Any]
Status = HistorySummary.Status

NO_STATE = (
    "The game state of then is kept only where a call showed it in a block of its own. "
    "This one did not, so there is none in what is assembled here."
)
NO_OPTIONS = (
    "The options of then are not kept with a call this old: those of today's policy are "
    "taken, or the defaults."
)
NO_BUDGET = "The budget of then is not kept with this call: today's is taken."
NO_TOOLS = "What its tools cost is not kept with this call: today's count is taken."


@dataclass(frozen=True, slots=True)
class Past:
    """A past call: its subject under its own settings, and what stood before it.

    ``unknown`` tells in sentences what of then is not kept.
    """

    sent: SentContext
    subject: Subject
    before: Before
    shown: Shown
    unknown: tuple[str, ...]


def past_of(sent: SentContext, now: Subject) -> Past:
    """A call with all that is kept of its moment; the rest is as it is ``now``."""
    shown = show(sent)
    texts = _made_up(sent, shown)
    before = Before(
        summary=_summary_of(sent),
        through=sent.last_id or 0,
        sent=sent.pk,
        state=texts.get("state", ""),
    )
    subject = _subject(sent, shown, replace(now, nudge=texts.get("nudge", now.nudge)))
    unknown = () if "state" in texts else (NO_STATE,)
    return Past(sent, subject, before, shown, unknown)


def _subject(sent: SentContext, shown: Shown, now: Subject) -> Subject:
    stats = sent.stats
    system, pins = apart(_system(shown))
    same = now.strategy == sent.strategy
    return replace(
        now,
        system=system,
        pins=pins,
        username=sent.username or None,
        strategy=sent.strategy,
        options=stats.get("options", now.options if same else {}),
        budget=Budget(
            stats.get("budget", now.budget.tokens),
            stats.get("reserve", now.budget.reserve),
        ),
        dialect="anthropic" if sent.dialect == "anthropic" else "openai",
        tools_tokens=_categories(stats).get("tools", now.tools_tokens),
        model=sent.call.model,
        compaction=Compaction(prompt=now.compaction.prompt),
        calibration=stats.get("calibration", 1.0),
        estimate_error=stats.get("estimate_error"),
    )


def _categories(stats: Mapping[str, Any]) -> Mapping[str, int]:
    found = stats.get("tokens_by_category")
    return found if isinstance(found, Mapping) else {}


def _system(shown: Shown) -> str:
    if shown.system is not None:
        return shown.system
    first = shown.messages[0] if shown.messages else {}
    return str(first["content"]) if first.get("role") == "system" else ""


def _made_up(sent: SentContext, shown: Shown) -> dict[str, str]:
    """The texts at the end of the view that stand for no stored message, by kind."""
    last = len(shown.messages) - 1
    made = sent.view.get("synthetic", [])
    kinds = [s["kind"] for s in made if s["position"] == last]
    found = dict(zip(reversed(kinds), _texts_from_end(shown.messages), strict=False))
    before = [s for s in made if s["position"] == last - 1]
    if sent.dialect == "openai" and "state" in found and before:
        found[before[-1]["kind"]] = str(shown.messages[last - 1]["content"])
    return found


def _texts_from_end(messages: Sequence[Wire]) -> list[str]:
    """What the last message says, from its last block back."""
    content = messages[-1]["content"] if messages else ""
    if isinstance(content, str):
        return [content]
    texts = [block["text"] for block in content or () if block.get("type") == "text"]
    return texts[::-1]


def _summary_of(sent: SentContext) -> HistorySummary | None:
    """The summary that the call had; what was taken back since is still kept."""
    generation = sent.stats.get("generation", 0)
    rows = HistorySummary.objects.filter(
        mysis_id=sent.mysis_id,
        generation=generation,
        created_at__lte=sent.created_at,
        status__in=(Status.ACTIVE, Status.REPLACED, Status.REVERTED),
    )
    return rows.order_by("-id").first() if generation else None


def guessed(past: Past) -> tuple[str, ...]:
    """In sentences, for what of then another thing stands: wrong or right."""
    return tuple(_guessed(past.sent, past.shown))


def _guessed(sent: SentContext, shown: Shown) -> Iterator[str]:
    if "options" not in sent.stats:
        yield NO_OPTIONS
    if "budget" not in sent.stats or "reserve" not in sent.stats:
        yield NO_BUDGET
    if "tools" not in _categories(sent.stats):
        yield NO_TOOLS
    gone = _gone(shown)
    if gone:
        yield f"{gone} of the messages it considered are no longer kept."


def _gone(shown: Shown) -> int:
    ids = [line["id"] for line in shown.ledger]
    return len(ids) - Memory.objects.filter(pk__in=ids).count()


def as_sent(past: Past) -> Prepared:
    """The call as it was sent, in the form of a view that was made now."""
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
        warnings=[],
        system=shown.system,
        dialect=past.subject.dialect,
    )
    return Prepared(
        subject=past.subject,
        request=AssemblyRequest(messages=messages),
        assembly=assembly,
        loaded=Tail(messages, {}, sent.first_id),
        facts=sent.facts,
        digest=sent.digest,
    )
