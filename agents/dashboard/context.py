"""A context as it is shown: the next one, or what a past call was sent.

Page, admin, REST and MCP show the same document: the messages and where each comes
from, what became of every stored message and why, and the figures. REST and MCP answer
it as it is; the pages draw `ShownContext`, which lays the messages beside their lines of
the ledger.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from agents.dashboard import charts
from agents.dashboard.context_diff import read_text
from agents.dashboard.conversation import Call, read_calls
from memory.assembly.prepare import PreparedRequest
from memory.assembly.sent_view import RenderedView, render_sent
from memory.context.documents import (
    build_result_document,
    describe_tools,
    describe_usage,
)
from memory.context.tokens import TokenCounter, choose_counter
from memory.context.tool_calls import build_policy_lookup, build_sanitizer
from memory.context.types import (
    AssemblyRequest,
    Described,
    LedgerLine,
    Message,
    OfferedTools,
)
from memory.models import HistorySummary, SentContext
from memory.redaction import HIDDEN, hide_secrets

Document = dict[str, Any]
# What may become of the schema of a tool.
IN_FULL, SHORTER, ONE_LINE, NOT_ALLOWED = (
    "in full",
    "shorter",
    "one line",
    "not offered",
)

# Characters of a message that the page draws, and of its first words.
SHOWN = 12_000
EXCERPT = 140
# Rows of the lists of past calls and of compactions.
CALLS = 24
SUMMARIES = 20


@dataclass(frozen=True, slots=True)
class LedgerEntry(LedgerLine):
    """A line of the ledger; ``place`` is where its message is sent."""

    place: int | None

    @property
    def newer(self) -> bool:
        """Whether it is another stored message that stands for it."""
        return isinstance(self.by, int)


@dataclass(frozen=True, slots=True)
class Block:
    """One message as it goes over the wire, from position 0 on.

    -1 is a system text that goes beside the messages. ``kind`` is set for synthetic
    ones, ``tokens`` None where nobody counted them one by one.
    """

    position: int
    role: str
    kind: str
    ids: tuple[int, ...]
    entries: tuple[LedgerEntry, ...]
    tokens: int | None
    content: str
    message: Mapping[str, Any]

    @property
    def category(self) -> str:
        if self.kind in ("state", "summary"):
            return self.kind
        return self.role if self.role in charts.CATEGORIES else "user"

    @property
    def entry(self) -> LedgerEntry | None:
        """The ledger's line of the one stored message that it is."""
        return self.entries[0] if len(self.ids) == 1 and self.entries else None

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(read_calls(self.message.get("tool_calls")))

    @property
    def text(self) -> str:
        return self.content[:SHOWN]

    @property
    def excerpt(self) -> str:
        """The first words, in one line."""
        if not self.content and self.calls:
            return ", ".join(f"{call.name}({call.args})" for call in self.calls)
        return " ".join(self.content[:EXCERPT].split())

    @property
    def source(self) -> str:
        """The stored messages that it is made of, and its kind."""
        return ", ".join([*(f"#{i}" for i in self.ids), *filter(None, [self.kind])])

    @property
    def why(self) -> str:
        """What became of these messages, or that it was made for this call."""
        found = (f"{one.disposition}: {one.reason}" for one in self.entries)
        return "; ".join(dict.fromkeys(found)) or f"made for this call ({self.kind})"


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A whole context; ``counts`` tells how many messages became what."""

    document: Document
    dialect: str
    gauge: charts.Gauge | None
    blocks: tuple[Block, ...]
    ledger: tuple[LedgerEntry, ...]
    counts: Mapping[str, int]
    offered: OfferedTools | None = None

    @property
    def pins_sent(self) -> int:
        """How many standing orders are in it word for word."""
        return sum(pin["sent"] for pin in self.document["pins"])

    @property
    def pins_lost(self) -> list[str]:
        """The hashes of those that are not."""
        return [pin["hash"] for pin in self.document["pins"] if not pin["sent"]]

    @property
    def payload(self) -> tuple[list[Any], str | None]:
        """The messages, and the system text that goes beside them."""
        return self.document["messages"], self.document.get("system")

    @property
    def notes(self) -> Sequence[Mapping[str, Any]]:
        """What became of each note."""
        found = self.document.get("notes") or self.document["stats"].get("notes")
        return found or ()

    @property
    def tools(self) -> list[Any] | None:
        """The tools that go beside both, None where they are not known."""
        return self.document.get("tools")


def build_preview_document(prepared: PreparedRequest) -> Document:
    """What the next call would be sent, as JSON values."""
    document = build_result_document(prepared.assembly)
    pins = [asdict(pin) for pin in prepared.pins]
    return document | {"hash": prepared.digest, "sent": False, "pins": pins}


def build_sent_document(sent: SentContext) -> Document:
    """What a past call was sent; ``intact`` tells whether the hash still agrees."""
    return _describe_sent(sent, render_sent(sent))


def _describe_sent(sent: SentContext, found: RenderedView) -> Document:
    return {
        "messages": found.messages,
        "system": found.system,
        "sources": found.sources,
        "synthetic": sent.view.get("synthetic", []),
        "ledger": found.ledger,
        "stats": sent.stats,
        "pins": sent.stats.get("pins", []),
        "hash": sent.digest,
        "sent": True,
        "intact": found.intact,
        **(describe_tools(found.offered) if found.offered else {}),
    }


def show_preview(prepared: PreparedRequest) -> ShownContext:
    """The context that the next call would be sent."""
    options = {"options": prepared.subject.options}
    gauge = charts.make_gauge(prepared.assembly.stats | options)
    document, assembly = build_preview_document(prepared), prepared.assembly
    shown = _show(document, assembly.dialect, gauge)
    return replace(shown, offered=assembly.offered)


def show_sent(sent: SentContext) -> ShownContext:
    """The context that a past call was sent."""
    gauge = charts.make_gauge(sent.stats)
    found = render_sent(sent)
    shown = _show(_describe_sent(sent, found), sent.dialect, gauge)
    return replace(shown, offered=found.offered)


def _show(document: Document, dialect: str, gauge: charts.Gauge | None) -> ShownContext:
    messages, system = document["messages"], document.get("system")
    sources = [one if isinstance(one, list) else [one] for one in document["sources"]]
    places = {number: place for place, ids in enumerate(sources) for number in ids}
    ledger = {
        line["id"]: LedgerEntry(**line, place=places.get(line["id"]))
        for line in document["ledger"]
    }
    kinds = {one["position"]: one["kind"] for one in document["synthetic"]}
    blocks = [
        _block(place, message, sources[place], kinds.get(place, ""), ledger)
        for place, message in enumerate(messages)
    ]
    if system is not None:
        # Anthropic's dialect carries the system text beside the messages.
        top = {"role": "system", "content": system}
        blocks.insert(0, _block(-1, top, [], "prompt", {}))
    if blocks and blocks[0].role == "system":
        tokens = document["stats"].get("tokens_by_category", {}).get("system")
        blocks[0] = replace(blocks[0], tokens=tokens)
    counts = Counter(str(entry.disposition) for entry in ledger.values())
    shown = tuple(blocks), tuple(ledger.values()), dict(counts)
    return ShownContext(document, dialect, gauge, *shown)


def _block(
    place: int,
    message: Mapping[str, Any],
    source: Sequence[object],
    kind: str,
    ledger: Mapping[int, LedgerEntry],
) -> Block:
    ids = tuple(number for number in source if isinstance(number, int))
    entries = tuple(ledger[number] for number in ids if number in ledger)
    return Block(
        position=place,
        role=str(message.get("role", "")),
        kind=kind,
        ids=ids,
        entries=entries,
        tokens=sum(one.tokens_out for one in entries) if entries else None,
        content=read_text(message.get("content")),
        message=message,
    )


def load_recent_calls(
    mysis_id: int,
) -> list[tuple[SentContext, charts.Gauge | None]]:
    """What the newest calls were sent, without the payloads, and how full it was."""
    rows = (
        SentContext.objects.filter(mysis_id=mysis_id)
        .select_related("call__turn")
        .defer("ledger", "view", "facts")
        .order_by("-id")[:CALLS]
    )
    return [(row, charts.make_gauge(row.stats)) for row in rows]


def load_summaries(
    mysis_id: int, before: int | None = None
) -> Sequence[HistorySummary]:
    """The newest compactions, those that failed too; ``before`` is an id."""
    rows = HistorySummary.objects.filter(mysis_id=mysis_id).order_by("-id")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows[:SUMMARIES])


# --- A coalesced view, step by step


@dataclass(frozen=True, slots=True)
class CoalescedStep:
    """A turn as the log has it, beside what a coalesced view tells of it (C7).

    A turn is one answer of the model with its results. ``notes`` say what is not told.
    """

    number: int
    messages: tuple[Message, ...]
    told: str
    notes: tuple[str, ...]

    @property
    def excerpt(self) -> str:
        """The calls, or the first words that were said."""
        made = [call.name for m in self.messages for call in m.tool_calls]
        said = " ".join(m.content for m in self.messages if m.role == "assistant")
        return ", ".join(made) or " ".join(said[:EXCERPT].split())


@dataclass(frozen=True, slots=True)
class CoalescedSteps:
    """All steps of a coalesced view, and its statistics as a box (C6)."""

    steps: tuple[CoalescedStep, ...]
    box: str


def lay_steps(prepared: PreparedRequest) -> CoalescedSteps:
    """The turns of a coalesced view in full, each beside what is told of it."""
    known = _hide_secrets(prepared.request)
    steps = (
        CoalescedStep(
            number,
            tuple(known[row] for row in turn.rows if row in known),
            turn.told,
            turn.notes,
        )
        for number, turn in enumerate(prepared.assembly.turns, 1)
    )
    return CoalescedSteps(tuple(steps), describe_usage(prepared.assembly.stats)["box"])


def _hide_secrets(request: AssemblyRequest) -> dict[int, Message]:
    """The messages by id as they may be read, by the rules of `hide_row_secrets`."""
    policy_of = build_policy_lookup(request.tool_policy)
    sanitize = build_sanitizer(request.messages, policy_of)
    shown: dict[int, Message] = {}
    secret: dict[str | None, bool] = {}
    for message in request.messages:
        calls = []
        for call in message.tool_calls:
            secret[call.id] = hides = policy_of(call.name, call.arguments) == "secret"
            said = HIDDEN if hides else hide_secrets(sanitize(call.arguments))
            calls.append(replace(call, arguments=said))
        hides = message.role == "tool" and secret.get(message.tool_call_id, False)
        said = HIDDEN if hides else hide_secrets(sanitize(message.content))
        shown[message.id] = replace(message, content=said, tool_calls=tuple(calls))
    return shown


# --- The tools that go beside the messages


@dataclass(frozen=True, slots=True)
class ShownTool:
    """One tool as the model is told of it; ``fate`` is what became of its schema.

    ``before`` are the tokens of the whole schema, ``after`` those that are sent for it.
    ``schema`` is what is sent, JSON indented to be read, or its one line.
    """

    name: str
    fate: str
    before: int
    after: int
    about: str
    schema: str


@dataclass(frozen=True, slots=True)
class ShownTools:
    """The tools of a call, with tokens in full (``before``) and as sent (``after``).

    ``listed`` are the tokens of the lines in the system message; ``cut`` counts the
    tools that are not offered.
    """

    mode: str
    allow: tuple[str, ...] | None
    rows: tuple[ShownTool, ...]
    before: int
    after: int
    listed: int
    cut: int

    @property
    def offered(self) -> int:
        """How many tools may be called."""
        return len(self.rows) - self.cut

    @property
    def saved(self) -> int:
        """How many per cent of the tokens in full are not sent."""
        kept = self.after + self.listed
        return round(100 * (1 - kept / self.before)) if self.before else 0


def show_tools(shown: ShownContext) -> ShownTools | None:
    """The tools of a context and what each costs; None where they are not known."""
    offered = shown.offered
    if offered is None:
        return None
    factor = shown.document["stats"].get("calibration", 1.0)
    count = choose_counter("estimate", factor)
    sent = {tool["name"]: tool for tool in offered.sent}
    lines = {line.split("(")[0]: line for line in offered.catalogue.splitlines()}
    known = {tool["name"]: tool for tool in offered.known}
    rows = tuple(
        _show_tool(known.get(name), sent.get(name), lines.get(name, ""), count)
        for name in {**known, **sent}
    )
    return ShownTools(
        mode=offered.mode,
        allow=offered.allow,
        rows=rows,
        before=count(json.dumps(offered.known)) if offered.known else 0,
        after=offered.count_tokens(count),
        listed=count(offered.catalogue),
        cut=sum(row.fate == NOT_ALLOWED for row in rows),
    )


def _show_tool(
    known: Described | None, sent: Described | None, line: str, count: TokenCounter
) -> ShownTool:
    """A tool by what is known of it, what is sent, and its line in the system message."""
    tool = sent or known or {}
    before = count(json.dumps(known)) if known else 0
    schema = line or json.dumps(tool["parameters"], indent=2, ensure_ascii=False)
    if sent is None and not line:
        fate, after = NOT_ALLOWED, 0
    elif sent is None:
        fate, after = ONE_LINE, count(line)
    else:
        after = count(json.dumps(sent))
        fate = IN_FULL if known in (None, sent) else SHORTER
    about = tool["description"]
    return ShownTool(tool["name"], fate, before, after, about, schema)
