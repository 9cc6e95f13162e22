"""A context as it is shown: the next one, or what a past call was sent.

Page, admin, REST and MCP show the same document: the messages and where each comes
from, what became of every stored message and why, and the figures. REST and MCP answer
it as it is; the pages draw `ShownContext`, which lays the messages beside their lines of
the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.dashboard import charts
from agents.dashboard.context_diff import read_text
from agents.dashboard.conversation import Call, read_calls
from agents.dashboard.shared_results import Keyed
from agents.templatetags.zoea import icon
from memory.assembly.prepare import PreparedRequest
from memory.assembly.sent_view import RenderedView, render_sent
from memory.context.documents import (
    build_result_document,
    describe_tools,
)
from memory.context.result_types import LedgerLine
from memory.context.types import OfferedTools
from memory.gamestate.render import split_state
from memory.models import HistorySummary, SentContext
from memory.redaction import hide_secret_texts, hide_secrets

Document = dict[str, Any]

# Characters of a message that the page draws, and of its first words.
SHOWN = 12_000
EXCERPT = 140
# Messages and lines of the ledger whose drawn form is kept, none of a text so long.
KEPT = 2_048
LONG = 4_000
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

    -1 is a system text that goes beside the messages. ``kind`` is set for what is
    synthetic of it, ``tokens`` None where nobody counted them one by one.
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
        if self.kind in ("state", "summary") and not self.ids:
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
    def said(self) -> str:
        """What it says without the state block that is joined to it."""
        return split_state(self.content)[0] if self.state else self.content

    @property
    def state(self) -> str:
        """The state block that is joined to stored messages or to a nudge."""
        joined = self.ids or ", " in self.kind
        return split_state(self.content)[1] if "state" in self.kind and joined else ""

    @property
    def text(self) -> str:
        return self.said[:SHOWN]

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


def mask_document(document: Document) -> Document:
    """A document without secrets, which says whether it had some (A11)."""
    shown = hide_secret_texts(document)
    return {**shown, "masked": True} if shown != document else document


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
    kinds: dict[int, list[str]] = {}
    for one in document["synthetic"]:
        kinds.setdefault(one["position"], []).append(one["kind"])
    blocks = [
        _block(place, message, sources[place], ", ".join(kinds.get(place, ())), ledger)
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
        # Before anything of it is cut.
        content=hide_secrets(read_text(message.get("content"))),
        message=message,
    )


# --- Messages and lines of the ledger as HTML


def draw_blocks(blocks: Sequence[Block], page_key: str) -> SafeString:
    """The messages of a payload as items of a list.

    Most were the same in the context before, at another place: those are not drawn again.
    """
    address = reverse("mysis", args=[page_key])
    inside = '<li class="block cat-{}" id="block-{}">{}</li>'
    return format_html_join(
        "\n",
        inside,
        ((b.category, b.position, _draw_block(b, address)) for b in blocks),
    )


def _draw_block(block: Block, address: str) -> SafeString:
    entry = block.entry and replace(block.entry, place=None)
    shown = (
        block.role, block.kind, block.ids, entry, block.text, block.state,
        block.calls, len(block.content), address,
    )  # fmt: skip
    length = len(block.text) + len(str(block.message.get("tool_calls", "")))
    draw = _draw_any_block if length > LONG else _draw_short_block
    return draw(Keyed(shown, (block, address)))


def _draw_any_block(asked: Keyed[tuple[Block, str]]) -> SafeString:
    block, address = asked.value
    return render_to_string("memory/_block.html", {"block": block, "address": address})


_draw_short_block = lru_cache(maxsize=KEPT)(_draw_any_block)


def draw_ledger(entries: Sequence[LedgerEntry], page_key: str) -> SafeString:
    """Lines of the ledger as items of a list, each drawn once for its message."""
    address = reverse("mysis", args=[page_key])
    return format_html_join(
        "\n",
        '<li class="entry entry-{}">{}{}</li>',
        (
            (
                one.disposition,
                _draw_entry(replace(one, place=None), address),
                _draw_place(one),
            )
            for one in entries
        ),
    )


@lru_cache(maxsize=KEPT)
def _draw_entry(entry: LedgerEntry, address: str) -> SafeString:
    values = {"entry": entry, "address": address}
    return render_to_string("memory/_ledger_entry.html", values)


def _draw_place(entry: LedgerEntry) -> SafeString | str:
    """The way to the message in the payload."""
    if entry.place is None:
        return ""
    return format_html(
        '<a class="entry-place" href="#block-{}" aria-label="Message {} in the payload" '
        'title="In the payload">{}</a>',
        *(entry.place, entry.id, icon("context")),
    )


# --- What else the page lists


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
