"""The view of a past call: what is stored of it, and how it is rendered again.

A message that is a stored row as it is has no entry beside its source, the row's id. Of
one that the view changed, only that is stored. Texts that recur are stored once, under
their hash.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from memory.assembly import log_rows
from memory.assembly.hashes import hash_text, hash_view
from memory.assembly.log_rows import NOW, LogRow, Standing
from memory.assembly.packing import Packed, unpack_ledger, unpack_sources
from memory.context.call_ids import make_call_id
from memory.context.result_types import Assembly
from memory.context.tool_calls import GAME, GAME_HELP, get_sent_form
from memory.context.types import OfferedTools, ToolCall
from memory.models import Memory, Role, SentContext, fetch_rows

_LONG_TEXT = 400
# Without its view where its digest is the one given: that view is in memory already.
_LAST_SENT = """
SELECT sent.id, sent.mysis_id, sent.call_id, strategy, dialect, other.view, stats, facts,
  username, first_id, last_id, call.input_tokens AS reported,
  call.cached_tokens AS cached, call.model AS counted_by,
  ARRAY(
    SELECT ARRAY[digest, text] FROM memory_contexttext WHERE digest IN (
      SELECT other.view #>> '{system,text}'
      UNION ALL SELECT jsonb_path_query(other.view, '$.messages.set.*.text') #>> '{}'
      UNION ALL SELECT jsonb_path_query(other.view, '$.messages.add.*.text') #>> '{}'
    )
  ) AS texts
FROM memory_sentcontext AS sent JOIN agents_modelcall AS call ON call.id = sent.call_id
CROSS JOIN LATERAL (SELECT CASE WHEN sent.digest <> %(digest)s
  THEN sent.view END AS view) AS other
WHERE sent.mysis_id = %(mysis)s AND sent.id < %(before)s
  -- One whose newest message was taken back since is no call before the next one.
  AND NOT EXISTS (SELECT FROM memory_memory AS newest
    WHERE newest.id = sent.last_id
      AND (newest.branch_id <= %(branch)s
        OR newest.id BETWEEN %(gap_first)s AND %(gap_through)s))
ORDER BY sent.id DESC LIMIT 1
"""
_TEXTS = "SELECT digest, text FROM memory_contexttext WHERE digest = ANY(%s)"
# What stands for a text that was deleted.
GONE = "(text no longer kept)"
_TOOL_TEXTS = ("known", "sent", "catalogue")
# Of a stored call, how it was made.
_WAY = frozenset({"via", "original"})


# --- Storing a view by reference


@dataclass(frozen=True, slots=True)
class Reference:
    """A message of a view as it is stored, with the long texts in it.

    There is no ``entry`` where it is the row that its source names; what of it is other
    is ``set`` there, what is only longer at its end has that end in ``add``.
    """

    message: Mapping[str, Any]
    row: LogRow | None
    entry: dict[str, Any] | None
    texts: dict[str, str]


def refer_view(
    assembly: Assembly, stored: Mapping[int, LogRow], known: Mapping[int, Reference]
) -> list[Reference]:
    """Each message by its row; what the view before had too is ``known``."""
    rows = read_source_rows(assembly.sources, stored)
    found, writer = [], _RowWriter(made_ids=True)
    for message, source in zip(assembly.messages, assembly.sources, strict=True):
        # One joined from several rows stands for none of them alone.
        row = rows.get(source) if isinstance(source, int) else None
        writer.note(row)
        same = known.get(id(message))
        if same is None or same.message is not message or same.row != row:
            same = _refer(message, row, writer)
        found.append(same)
    return found


@dataclass(slots=True)
class _RowWriter:
    """Writes stored rows as the core does, each after those before it in the view.

    `made_ids` says whether calls have the ids that are made for views; in views of
    earlier versions they have the provider's. `caller` is the newest row with calls,
    `answers` counts its results by the provider's id.
    """

    made_ids: bool
    caller: LogRow | None = None
    answers: Counter[str] = field(default_factory=Counter)

    def note(self, row: LogRow | None) -> None:
        """Go on to the next row of the view."""
        if row is not None and row.tool_calls:
            self.caller, self.answers = row, Counter()
        elif row is not None and row.role == Role.TOOL:
            self.answers[row.tool_call_id] += 1

    def write(self, row: LogRow | None) -> dict[str, Any]:
        """The row that was noted last, as a message; empty for none."""
        if row is None:
            return {}
        wire = to_wire(row)
        if self.made_ids and row.tool_calls:
            wire["tool_calls"] = [
                call | {"id": make_call_id(call["id"], row.pk, index)}
                for index, call in enumerate(wire["tool_calls"])
            ]
        elif self.made_ids and row.role == Role.TOOL and self.caller is not None:
            calls = enumerate(self.caller.tool_calls)
            same = [i for i, call in calls if call["id"] == row.tool_call_id]
            number = self.answers[row.tool_call_id] - 1
            if number < len(same):
                made = make_call_id(row.tool_call_id, self.caller.pk, same[number])
                wire["tool_call_id"] = made
        return wire


def _refer(
    message: Mapping[str, Any], row: LogRow | None, writer: _RowWriter
) -> Reference:
    texts: dict[str, str] = {}
    plain = writer.write(row)
    wrapped = _wrap_calls(plain, row)
    by_game = wrapped is not plain and wrapped["tool_calls"] == message.get(
        "tool_calls"
    )
    plain = wrapped if by_game else plain
    changed, longer = {}, {}
    for key, value in message.items():
        known = plain.get(key)
        if key in plain and known == value:
            continue
        both = isinstance(known, str) and isinstance(value, str)
        if known and both and value.startswith(known):
            longer[key] = refer_text(value[len(known) :], texts)
        else:
            changed[key] = refer_text(value, texts)
    gone = [key for key in plain if key not in message]
    other = row is None or gone or list(plain) != list(message)
    entry: dict[str, Any] = {"order": list(message)} if other else {}
    entry |= {"by_game": True} if by_game else {}
    entry |= {"set": changed} if changed else {}
    entry |= {"add": longer} if longer else {}
    return Reference(message, row, entry or None, texts)


def _wrap_calls(wire: dict[str, Any], row: LogRow | None) -> dict[str, Any]:
    """The message with the calls of the game's tools made by way of `game`."""
    calls = wire.get("tool_calls", ())
    if row is None or all(_is_called_as_it_is(call) for call in calls):
        return wire
    return wire | {"tool_calls": [*map(_wrap_call, calls, row.tool_calls)]}


def _wrap_call(call: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    if _is_called_as_it_is(call):
        return call
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    made = ToolCall(call["id"], name, arguments, GAME, stored.get("original", ""))
    name, arguments = get_sent_form(made)
    return call | {"function": {"name": name, "arguments": arguments}}


def _is_called_as_it_is(call: Mapping[str, Any]) -> bool:
    """Whether ``by_game`` leaves a call as it is, in stored views too: never change it.

    A call for which this is wrong today is stored as text.
    """
    name: str = call["function"]["name"]
    return name.startswith("zoea_") or name in (GAME, GAME_HELP)


def refer_tools(offered: OfferedTools | None, texts: dict[str, str]) -> Packed:
    """What is stored of the tools of a call: all that there were, and those sent."""
    if offered is None:
        return {}
    values = (offered.known_text, offered.sent_text, offered.catalogue)
    places, own = _refer_texts(values)
    allow = None if offered.allow is None else [*offered.allow]
    stored: Packed = {"mode": offered.mode, "allow": allow}
    stored |= dict(zip(_TOOL_TEXTS, places, strict=True))
    texts |= own
    return {"tools": stored}


@lru_cache(maxsize=8)
def _refer_texts(values: tuple[str, ...]) -> tuple[list[Any], dict[str, str]]:
    texts: dict[str, str] = {}
    return [refer_text(value, texts) for value in values], texts


def refer_text(value: Any, texts: dict[str, str]) -> Any:
    """The value, or where its text is stored if that is long."""
    if not isinstance(value, str) or len(value) < _LONG_TEXT:
        return value
    digest = hash_text(value)
    texts[digest] = value
    return {"text": digest}


# --- The call before


@dataclass(slots=True)
class LastCall:
    """The call before: its view, to which model it went, and the tokens it reported.

    Of these so many were ``cached``.
    """

    sent: SentContext
    model: str
    tokens: int
    messages: list[dict[str, Any]] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    cached: int = 0


def read_last_call(
    mysis_id: int,
    before: int,
    digest: str,
    messages: list[dict[str, Any]] | None,
    standing: Standing = NOW,
) -> LastCall | None:
    """The newest call whose context has an id below ``before``; None without one.

    ``messages`` is the view of that ``digest``, if it is in memory already. None counts
    whose newest message does not stand.
    """
    values = {"digest": digest, "mysis": mysis_id, "before": before}
    rows: Any = SentContext.objects.raw(_LAST_SENT, values | standing._asdict())
    for row in rows:
        known = messages if row.view is None else None
        texts = dict(row.texts)
        return LastCall(
            row, row.counted_by, row.reported, known, texts, cached=row.cached
        )
    return None


# --- Rendering a stored view byte for byte


@dataclass(frozen=True, slots=True)
class RenderedView:
    """A past view, rendered again; ``intact``: its hash is the stored one."""

    messages: list[dict[str, Any]]
    system: str | None
    sources: list[Any]
    ledger: list[dict[str, Any]]
    intact: bool
    offered: OfferedTools | None = None


def render_sent(sent: SentContext) -> RenderedView:
    """Render a stored view again and check it against its hash."""
    messages, system = render_messages(sent)
    offered = render_tools(sent)
    tools = offered.sent if offered else None
    return RenderedView(
        messages=messages,
        system=system,
        sources=[*unpack_sources(sent.view["sources"])],
        ledger=unpack_ledger(sent.ledger, sent.mysis_id),
        intact=hash_view(messages, system, tools) == sent.digest,
        offered=offered,
    )


def list_end_texts(sent: SentContext) -> list[str]:
    """The digests of the texts that `render_ends` and `render_tools` need."""
    view, tools = sent.view, sent.view.get("tools") or {}
    entries = [view["messages"][place] for place in find_ends(view["messages"])]
    named = _find_digests({"system": view["system"], "messages": entries})
    return [*named, *_list_digests(tools.values())]


def find_ends(messages: Sequence[Any]) -> list[int]:
    """The places of the first message and of the last two."""
    last = len(messages) - 1
    return sorted({0, max(0, last - 1), last}) if messages else []


def render_ends(
    sent: SentContext,
    known: Mapping[int, LogRow],
    texts: Mapping[str, str],
    offered: OfferedTools | None,
) -> RenderedView:
    """A past view without what stands for the log alone: its hash is not checked.

    Of its messages the first and the last two are rendered, the others empty; there is
    no ledger. ``texts`` are at least those of `list_end_texts`.
    """
    entries, sources = sent.view["messages"], unpack_sources(sent.view["sources"])
    ends = find_ends(entries)
    rows = read_source_rows([sources[place] for place in ends], known)
    messages: list[dict[str, Any]] = [{}] * len(entries)
    # The ids of calls are not asked for.
    writer = _RowWriter(made_ids=False)
    for place in ends:
        source = sources[place]
        row = rows.get(source) if isinstance(source, int) else None
        messages[place] = _restore(entries[place] or {}, row, texts, writer)
    system = _fill_text(sent.view["system"], texts)
    return RenderedView(messages, system, [*sources], [], intact=True, offered=offered)


def render_tools(
    sent: SentContext, texts: Mapping[str, str] | None = None
) -> OfferedTools | None:
    """The tools of a past call; None where they are not kept with it.

    Their ``texts`` are not read again where they are given.
    """
    stored = sent.view.get("tools")
    if not stored:
        return None
    values = [stored[key] for key in _TOOL_TEXTS]
    if texts is None:
        texts = read_texts(_list_digests(values))
    known, shown, catalogue = (_fill_text(value, texts) for value in values)
    allow = None if stored["allow"] is None else tuple(stored["allow"])
    both = _read_list(known), _read_list(shown)
    return OfferedTools(stored["mode"], allow, *both, catalogue)


def _read_list(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text)) if text.startswith("[") else ()


def read_texts(digests: Sequence[str]) -> dict[str, str]:
    """The stored texts of these digests, as far as they are kept."""
    return dict(fetch_rows(_TEXTS, [list(digests)]))


def render_messages(
    sent: SentContext,
    known: Mapping[int, LogRow] | None = None,
    texts: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], str | None]:
    """The messages of a stored view, and the system text where it is no message.

    Rows that are ``known`` already are not read again, nor its ``texts`` where given.
    """
    view = sent.view
    sources = unpack_sources(view["sources"])
    rows = read_source_rows(sources, known or {})
    if texts is None:
        texts = read_texts(_find_digests(view))
    writer, messages = _RowWriter(view.get("made_ids", False)), []
    for entry, source in zip(view["messages"], sources, strict=True):
        # One joined from several rows stands for none of them alone.
        row = rows.get(source) if isinstance(source, int) else None
        writer.note(row)
        messages.append(_restore(entry or {}, row, texts, writer))
    return messages, _fill_text(view["system"], texts)


def to_wire(row: LogRow | Memory) -> dict[str, Any]:
    """A stored row as the OpenAI chat message that the core makes of it.

    Its keys have the same order, as payloads are compared byte for byte.
    """
    wire: dict[str, Any] = {"role": row.role}
    if row.role == Role.TOOL:
        return wire | {"tool_call_id": row.tool_call_id, "content": row.content}
    if not row.tool_calls:
        return wire | {"content": row.content}
    calls = [_drop_way(call) for call in row.tool_calls]
    return wire | {"content": row.content or None, "tool_calls": calls}


def _drop_way(call: dict[str, Any]) -> dict[str, Any]:
    if "via" not in call:
        return call
    return {key: value for key, value in call.items() if key not in _WAY}


def read_source_rows(
    sources: Sequence[Any], known: Mapping[int, LogRow]
) -> Mapping[int, LogRow]:
    """The stored rows behind a view by id; ``known`` ones are not read again."""
    ids = {source for source in sources if isinstance(source, int)}
    missing = ids.difference(known)
    if not missing:
        return known
    return {**known, **log_rows.read_rows_by_id(missing)}


def _restore(
    entry: Mapping[str, Any],
    row: LogRow | None,
    texts: Mapping[str, str],
    writer: _RowWriter,
) -> dict[str, Any]:
    values = writer.write(row)
    values = _wrap_calls(values, row) if entry.get("by_game") else values
    values |= {
        key: _fill_text(value, texts) for key, value in entry.get("set", {}).items()
    }
    values |= {
        key: values[key] + _fill_text(value, texts)
        for key, value in entry.get("add", {}).items()
        if key in values
    }
    return {key: values[key] for key in entry.get("order", values) if key in values}


def _fill_text(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping) and set(value) == {"text"}:
        return texts.get(value["text"], GONE)
    return value


def _find_digests(view: Mapping[str, Any]) -> list[str]:
    values = [view["system"]]
    for entry in filter(None, view["messages"]):
        values += [*entry.get("set", {}).values(), *entry.get("add", {}).values()]
    return _list_digests(values)


def find_stored_texts(view: Mapping[str, Any]) -> frozenset[str]:
    """The digests of all texts that a stored view names."""
    tools = view.get("tools") or {}
    return frozenset([*_find_digests(view), *_list_digests(tools.values())])


def _list_digests(values: Iterable[Any]) -> list[str]:
    return [v["text"] for v in values if isinstance(v, Mapping) and set(v) == {"text"}]
