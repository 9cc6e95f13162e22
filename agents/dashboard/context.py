"""A context message by message, each beside what the ledger says of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from agents import context_inputs
from agents.dashboard import charts
from agents.dashboard.context_diff import text_of
from agents.dashboard.conversation import Call, calls
from agents.models import ModelCall, Mysis
from memory import calibration
from memory.assembly.prepare import PreparedRequest
from memory.assembly.sent_view import Shown as Rendered
from memory.context.tokens import counter_for
from memory.models import HistorySummary, SentContext

SHOWN = 12_000
EXCERPT = 140


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one stored message, and why; ``place`` is where it is sent."""

    id: int
    disposition: str
    by: str
    reason: str
    tokens_in: int
    tokens_out: int
    handle: str
    place: int | None = None

    @property
    def newer(self) -> bool:
        """Whether it is another stored message that stands for it."""
        return self.by.isdecimal()


@dataclass(frozen=True, slots=True)
class Block:
    """One message as it goes over the wire. ``kind`` is set for synthetic ones."""

    position: int
    role: str
    kind: str
    category: str
    ids: tuple[int, ...]
    text: str
    size: int
    calls: tuple[Call, ...]
    entry: Entry | None

    @property
    def excerpt(self) -> str:
        """The first words, in one line."""
        if not self.text and self.calls:
            return ", ".join(f"{call.name}({call.args})" for call in self.calls)
        return " ".join(self.text[:EXCERPT].split())

    @property
    def clipped(self) -> bool:
        """Whether the text goes on after what is shown."""
        return self.size > len(self.text)


@dataclass(frozen=True, slots=True)
class Shown:
    """A whole context, next or past. ``intact`` is None for one not sent yet."""

    blocks: tuple[Block, ...]
    ledger: tuple[Entry, ...]
    counts: tuple[tuple[str, int], ...]
    stats: Mapping[str, Any]
    gauge: charts.Gauge | None
    digest: str
    dialect: str
    intact: bool | None
    messages: Sequence[Mapping[str, Any]]
    system: str | None


def of_preview(prepared: PreparedRequest) -> Shown:
    """The context that the next call would be sent."""
    assembly = prepared.assembly
    return _shown(
        assembly.system,
        assembly.messages,
        Origins(assembly.sources, {s.position: s.kind for s in assembly.synthetic}),
        Account(
            [asdict(line) for line in assembly.ledger],
            assembly.stats | {"options": prepared.subject.options},
            prepared.digest,
            assembly.dialect,
            None,
        ),
    )


def of_sent(sent: SentContext, found: Rendered) -> Shown:
    """The context that a past call was sent, ``found`` rendered from what was kept."""
    kinds = {s["position"]: s["kind"] for s in sent.view.get("synthetic", [])}
    account = Account(found.ledger, sent.stats, sent.digest, sent.dialect, found.intact)
    return _shown(found.system, found.messages, Origins(found.sources, kinds), account)


@dataclass(frozen=True, slots=True)
class Origins:
    """Where each message of a view comes from, by position."""

    sources: Sequence[Any]
    kinds: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Account:
    """What an assembly says of itself."""

    ledger: Sequence[Mapping[str, Any]]
    stats: Mapping[str, Any]
    digest: str
    dialect: str
    intact: bool | None


def _shown(
    system: str | None,
    messages: Sequence[Mapping[str, Any]],
    origins: Origins,
    account: Account,
) -> Shown:
    places = _places(origins.sources)
    entries = tuple(_entry(line, places) for line in account.ledger)
    known = {entry.id: entry for entry in entries}
    blocks = [
        _block(place, message, origins, known) for place, message in enumerate(messages)
    ]
    if system is not None:
        top = {"role": "system", "content": system}
        blocks.insert(0, _block(-1, top, Origins((), {-1: "prompt"}), known))
    return Shown(
        blocks=tuple(blocks),
        ledger=entries,
        counts=_counts(entries),
        stats=account.stats,
        gauge=charts.gauge(account.stats),
        digest=account.digest,
        dialect=account.dialect,
        intact=account.intact,
        messages=messages,
        system=system,
    )


def _places(sources: Sequence[Any]) -> Mapping[int, int]:
    """Where each stored message stands in the view."""
    found: dict[int, int] = {}
    for place, source in enumerate(sources):
        ids = source if isinstance(source, list) else [source]
        found |= {number: place for number in ids if isinstance(number, int)}
    return found


def _entry(line: Mapping[str, Any], places: Mapping[int, int]) -> Entry:
    return Entry(
        id=line["id"],
        disposition=line["disposition"],
        by="" if line["by"] is None else str(line["by"]),
        reason=line["reason"],
        tokens_in=line["tokens_in"],
        tokens_out=line["tokens_out"],
        handle=line["handle"] or "",
        place=places.get(line["id"]),
    )


def _counts(entries: Iterable[Entry]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.disposition] = counts.get(entry.disposition, 0) + 1
    return tuple(counts.items())


def _block(
    place: int,
    message: Mapping[str, Any],
    origins: Origins,
    known: Mapping[int, Entry],
) -> Block:
    sources = origins.sources
    source = sources[place] if 0 <= place < len(sources) else None
    ids = tuple(source) if isinstance(source, list) else (source,)
    ids = tuple(number for number in ids if isinstance(number, int))
    text = text_of(message.get("content"))
    kind = origins.kinds.get(place, "")
    role = str(message.get("role", ""))
    return Block(
        position=place,
        role=role,
        kind=kind,
        category=_category(role, kind),
        ids=ids,
        text=text[:SHOWN],
        size=len(text),
        calls=tuple(calls(message.get("tool_calls"))),
        entry=known.get(ids[0]) if len(ids) == 1 else None,
    )


def _category(role: str, kind: str) -> str:
    if kind in ("state", "summary"):
        return kind
    return role if role in charts.CATEGORIES else "user"


# SECTION The newest model calls of a Mysis and its compactions, each as one line.

CALLS = 24
SUMMARIES = 20


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call and how full its context was. ``kept`` is the share, in per cent,
    of its input that the provider read from its cache."""

    call: ModelCall
    turn: int
    number: int
    strategy: str
    gauge: charts.Gauge | None
    at: datetime

    @property
    def kept(self) -> int | None:
        """How much of the input the provider had in its cache."""
        if not self.call.input_tokens:
            return None
        return round(100 * self.call.cached_tokens / self.call.input_tokens)


def recent(mysis_id: int) -> list[PastCall]:
    """The newest calls, newest first, without their payloads."""
    rows = (
        SentContext.objects.filter(mysis_id=mysis_id)
        .select_related("call__turn")
        .defer("ledger", "view", "facts")
        .order_by("-id")[:CALLS]
    )
    return [
        PastCall(
            call=row.call,
            turn=row.call.turn.number,
            number=row.call.number,
            strategy=row.strategy,
            gauge=charts.gauge(row.stats),
            at=row.created_at,
        )
        for row in rows
    ]


def summaries(mysis_id: int, before: int | None = None) -> Sequence[HistorySummary]:
    """The newest compactions, those that failed too; ``before`` is an id."""
    rows = HistorySummary.objects.filter(mysis_id=mysis_id).order_by("-id")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows[:SUMMARIES])


# SECTION The tools that a call offers beside its messages, and what each of them costs.

SENT = ("name", "description", "parameters")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the model is told of it; ``schema`` is JSON, indented to be read."""

    name: str
    tokens: int
    about: str
    schema: str


def tools_of(mysis: Mysis) -> Sequence[Tool]:
    """The tools of the next call, as the game server offered them last."""
    count = counter_for("estimate", calibration.known(mysis.model).factor)
    found = context_inputs.known_tools(messaging=mysis.messaging)
    return [_tool(one, count(json.dumps(_sent(one)))) for one in found]


def _sent(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in SENT}


def _tool(tool: Mapping[str, Any], tokens: int) -> Tool:
    schema = json.dumps(tool["parameters"], indent=2, ensure_ascii=False)
    return Tool(tool["name"], tokens, tool["description"], schema)
