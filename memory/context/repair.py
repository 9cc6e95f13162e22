"""Read a request once: repair its log into units and render its system message.

Repair reorders, fills or removes only what cannot be sent as it is; a valid log comes
out as it went in (A3, A17, A31). Results are capped and standing orders (pins) put
into the system message, whatever the strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory.context.budget import Frame
from memory.context.seams import Seams
from memory.context.sections import (
    NotesView,
    add_catalogue,
    add_notes,
    add_pins,
    has_notes_in_user,
    write_note_definitions,
    write_notes,
)
from memory.context.strategy import CommonOptions
from memory.context.text import shorten_text
from memory.context.tokens import TokenCounter, choose_counter
from memory.context.tool_blocks import (
    BlockDraft,
    BuiltBlock,
    RepairRules,
    ResultMatcher,
    build_block,
    is_signed,
    pin_text,
)
from memory.context.tool_calls import (
    PolicyLookup,
    Sanitizer,
    build_policy_lookup,
    build_sanitizer,
)
from memory.context.types import (
    MADE_UP_ORIGINS,
    NUDGE_TEXT,
    AssemblyRequest,
    Kind,
    Message,
    build_handle,
)
from memory.context.units import (
    Fate,
    History,
    Item,
    RepairedLog,
    Unit,
    find_schema_items,
)

_EMPTY = Fate("empty", "repair", "It holds nothing that can be sent.")
_FILLER = Fate("superseded", "repair", "Made anew where the view needs it.")
_ORPHAN = Fate("orphan", "repair", "No call before it has this id.")
_OLD_PROMPT = "A newer version of the system prompt is sent."


@dataclass(frozen=True, slots=True)
class RepairedRequest:
    """A request as every strategy, also the fallback, works on it."""

    request: AssemblyRequest
    messages: tuple[Message, ...]
    repaired: RepairedLog
    units: tuple[Unit, ...]
    system: Item | None
    frame: Frame
    count: TokenCounter
    policy_of: PolicyLookup
    sanitize: Sanitizer
    reader: LogReader
    notes: NotesView

    def build_history(self) -> History:
        """What a strategy sees; BudgetImpossible where nothing is left for units."""
        return History(
            units=self.units,
            counted=tuple(self.repaired.counted),
            window=self.request.budget.tokens - self.request.budget.reserve,
            room=self.frame.room(),
            count=self.count,
            policy_of=self.policy_of,
            sanitize=self.sanitize,
            system=self.system,
            request=self.request,
            notes=self.reader.notes,
        )

    def is_empty(self) -> bool:
        """Whether nothing asks for an answer; a coalesced view has its mission."""
        request = self.request
        if request.strategy == "coalesced" and (request.mission or "").strip():
            return False
        return not self.units and not self.repaired.pins and request.nudge is None


def repair_request(
    request: AssemblyRequest,
    options: CommonOptions,
    earlier: LogReader | None = None,
    strategy: str | None = None,
) -> RepairedRequest:
    """Repair the log, cap its results and render the system message.

    What an `earlier` call has read is not read again, where it may stay as it is.
    `strategy` is the one that makes the view, if it is not the request's.
    """
    messages = _sort_by_id(request.messages)
    reader = _read_on(earlier, request, options, messages) if earlier else None
    reader = reader or _read_anew(request, options, messages, earlier)
    repaired, rules = reader.out, reader.rules
    count, sanitize = rules.count, rules.sanitize
    in_user = has_notes_in_user(request, strategy or request.strategy)
    write = write_note_definitions if in_user else write_notes
    notes = write(request, sanitize, count)
    section = "" if in_user else notes.text
    system, tokens = _build_system(request, repaired, rules, section)
    nudge = sanitize(request.nudge or "").strip() or NUDGE_TEXT
    frame = Frame(
        tokens=request.budget.tokens,
        reserve=request.budget.reserve,
        tools=request.tools_tokens,
        system=tokens.prompt,
        catalogue=tokens.catalogue,
        pins=tokens.pins,
        seams=Seams.count(request.dialect, nudge, count),
        notes=tokens.notes,
    )
    return RepairedRequest(
        request=request,
        messages=messages,
        repaired=repaired,
        units=tuple(repaired.units),
        system=system,
        frame=frame,
        count=count,
        policy_of=rules.policy_of,
        sanitize=sanitize,
        reader=reader,
        notes=notes,
    )


def _sort_by_id(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages by id (I30); a log in order is not copied."""
    ids = [message.id for message in messages]
    if ids == sorted(ids):
        return messages
    return tuple(sorted(messages, key=lambda message: message.id))


def _read_anew(
    request: AssemblyRequest,
    options: CommonOptions,
    messages: tuple[Message, ...],
    earlier: LogReader | None,
) -> LogReader:
    count = choose_counter(request.counter, request.calibration)
    policy_of = build_policy_lookup(request.tool_policy)
    sanitize = build_sanitizer(messages, policy_of)
    given = bool(sanitize(request.system or "").strip())
    through = request.offered.through_game if request.offered else None
    rules = RepairRules(count, policy_of, request.dialect, given, sanitize, through)
    reader = LogReader(rules, request, options)
    if earlier is not None and earlier.builds_like(reader):
        reader.known = earlier.blocks
    reader.read(messages)
    reader.known = {}
    return reader


def _read_on(
    earlier: LogReader,
    request: AssemblyRequest,
    options: CommonOptions,
    messages: tuple[Message, ...],
) -> LogReader | None:
    """The reader, which has read what is new; None where all is to be read anew."""
    known, rules = len(earlier.messages), earlier.rules
    if (
        earlier.out.secret
        or earlier.depends_on != _depends_on(request, options)
        or rules.system_given != bool(rules.sanitize(request.system or "").strip())
        or earlier.messages != messages[:known]
        or build_sanitizer(messages[known:], rules.policy_of) is not rules.sanitize
    ):
        return None
    try:
        earlier.read(messages)
    except _ReopenedError:
        return None
    return earlier


def _depends_on(request: AssemblyRequest, options: CommonOptions) -> tuple[object, ...]:
    """What a repaired log depends on beside its messages."""
    counted_by = request.counter, request.calibration
    cut_by = options.result_cap, request.mysis
    sent_by = request.dialect, request.offered and request.offered.through_game
    return *counted_by, *cut_by, *sent_by, dict(request.tool_policy)


@dataclass(frozen=True, slots=True)
class _SystemTokens:
    """The tokens of the prompt in the system message, and of what follows it."""

    prompt: int = 0
    pins: int = 0
    notes: int = 0
    catalogue: int = 0


def _build_system(
    request: AssemblyRequest, repaired: RepairedLog, rules: RepairRules, notes: str
) -> tuple[Item | None, _SystemTokens]:
    """The one system message, and the tokens of each part of it.

    That is the prompt, the request's, else the newest stored one, and the catalogue.
    """
    stored = repaired.prompt
    kept = stored.content if stored is not None else ""
    prompt = rules.sanitize((request.system or "") if rules.system_given else kept)
    prompt = "" if rules.is_blank(prompt) else prompt
    alone = rules.count(prompt)
    if request.offered is not None:
        prompt = add_catalogue(prompt, rules.sanitize(request.offered.catalogue))
    pinned = (text for _, text in sorted(repaired.pins.items()))
    ordered = add_pins(prompt, (*map(rules.sanitize, request.pins), *pinned))
    text = add_notes(ordered, notes)
    if not text:
        return None, _SystemTokens()
    row = stored.id if stored is not None and prompt else None
    kind: Kind | None = "prompt" if row is None else None
    base, with_pins, whole = map(rules.count, (prompt, ordered, text))
    tokens = _SystemTokens(base, with_pins - base, whole - with_pins, base - alone)
    return Item("system", text, whole, row, kind), tokens


# --- The log as units


class _ReopenedError(Exception):
    """A message changes what was made of earlier ones."""


class LogReader:
    """Reads a log in stored order, in linear time, and later what came after it.

    `current` is the tool block to which further results may still belong, `since` the
    rows after it: they move behind the block when one more of its results comes.
    `notes` are those of the strategies. `blocks` are those that it built, `known` those
    of the reader before, where a log goes on elsewhere than at its end.
    """

    def __init__(
        self, rules: RepairRules, request: AssemblyRequest, options: CommonOptions
    ) -> None:
        self.rules = rules
        self.depends_on = _depends_on(request, options)
        self.cap = options.result_cap
        self.mysis = request.mysis
        self.notes: dict[str, Any] = {}
        self.messages: tuple[Message, ...] = ()
        self.out = RepairedLog()
        self.matcher = ResultMatcher()
        self.entries: list[Unit | BlockDraft] = []
        self.current: BlockDraft | None = None
        self.since: list[int] = []
        self.prompts: list[Message] = []
        self.blocks: dict[int, BuiltBlock] = {}
        self.known: Mapping[int, BuiltBlock] = {}

    def builds_like(self, other: LogReader) -> bool:
        """Whether both make the same of a tool block, whatever else is in their logs."""
        mine, its = self.rules, other.rules
        return (
            not self.out.secret
            and mine.sanitize is its.sanitize
            and self.depends_on == other.depends_on
        )

    def read(self, messages: tuple[Message, ...]) -> None:
        """Read what was not read yet; _ReopenedError where it ends no earlier unit."""
        known = len(self.messages)
        for index, message in enumerate(messages[known:], known):
            # W1, W2: the prompt comes in addition to the window.
            if message.origin not in MADE_UP_ORIGINS and message.origin != "prompt":
                self.out.counted.append(index)
            self._take(message, index)
        if not known:
            self._choose_prompt()
        for entry in self.entries:
            unit = self._build(entry) if isinstance(entry, BlockDraft) else entry
            self.out.units.append(unit)
        self.entries.clear()
        self.messages = messages

    def _build(self, draft: BlockDraft) -> Unit:
        """The unit of a block: the known one at its new place where it is the same."""
        row = draft.message.id
        block = self.known.get(row)
        if block is None or not block.is_of(draft):
            unit = build_block(draft, self.rules, self.out)
            unit = self._cap_results(unit) if self.cap else unit
            block = BuiltBlock.keep(draft, unit, self.out)
        else:
            unit = block.build_again(draft, self.out)
        if block is not None:
            self.blocks[row] = block
        return unit

    def _take(self, message: Message, index: int) -> None:
        if message.role == "tool":
            self._take_result(message)
        elif message.role == "assistant" and message.tool_calls:
            self._take_calls(message, index)
        elif message.role == "system" and message.origin == "prompt":
            if self.messages:
                raise _ReopenedError
            self.prompts.append(message)
        else:
            self._take_single(message, index)

    def _take_result(self, message: Message) -> None:
        draft = self.matcher.place(message, self.current)
        if draft is None:
            self.out.tokens_in[message.id] = self.rules.count(message.content)
            self.out.fates[message.id] = _ORPHAN
        elif draft.built:
            raise _ReopenedError
        elif draft is self.current:
            for moved in self.since:
                self._displace(moved, draft)
            self.since.clear()
        else:
            self._displace(message.id, draft)

    def _displace(self, row: int, draft: BlockDraft) -> None:
        why = "Moved to the end of the tool block that it belongs to or came into."
        self.out.fates[row] = Fate("displaced", draft.message.id, why)

    def _take_calls(self, message: Message, index: int) -> None:
        self.current = BlockDraft(message, index)
        self.since.clear()
        self.matcher.add_calls(self.current)
        self.entries.append(self.current)

    def _take_single(self, message: Message, index: int) -> None:
        text, tokens = self.rules.measure(message, self.out)
        if self.rules.is_blank(text):
            self.out.fates[message.id] = _EMPTY
            return
        assistant = message.role == "assistant"
        openai = self.rules.dialect == "openai"
        if assistant and openai and message.origin == "filler":
            self.out.fates[message.id] = _FILLER
            return
        if assistant:
            self.current = None
        intent = not assistant and message.is_order()
        if intent:
            self.out.intent = message.id
        if pin_text(message, text, self.out):
            return
        if self.current is not None:
            self.since.append(message.id)
        reasoning, signature = self.rules.find_signed_reasoning(message)
        item = Item(
            role="assistant" if assistant else "user",
            content=text,
            tokens=tokens,
            source=message.id,
            reasoning=reasoning,
            signature=signature,
        )
        signed, rows = is_signed(message), (message.id,)
        self.entries.append(
            Unit((item,), index, rows, signed, intent=intent, turn=message.turn)
        )

    def _choose_prompt(self) -> None:
        """The newest stored prompt, unless the request brings one (A2, A10)."""
        newest: Message | None = None
        for message in self.prompts:
            text, _ = self.rules.measure(message, self.out)
            if self.rules.is_blank(text):
                self.out.fates[message.id] = _EMPTY
            elif not self.rules.system_given:
                newest = message
        by: int | str = newest.id if newest else "system"
        for message in self.prompts:
            if message is newest or message.id in self.out.fates:
                continue
            if not pin_text(message, self.rules.sanitize(message.content), self.out):
                self.out.fates[message.id] = Fate("superseded", by, _OLD_PROMPT)
        self.out.prompt = newest

    def _cap_results(self, unit: Unit) -> Unit:
        """Cut every result over the cap to its head and tail, with a handle."""
        if unit.tokens <= self.cap:
            return unit
        # A schema that was asked for is of no use in part.
        whole = find_schema_items(unit)
        items = (i if i in whole else self._cap_result(i) for i in unit.items)
        return unit.with_items(tuple(items))

    def _cap_result(self, item: Item) -> Item:
        cap, count = self.cap, self.rules.count
        if item.role != "tool" or item.tokens <= cap or item.source is None:
            return item
        handle = build_handle(self.mysis, item.source)
        text = shorten_text(item.content, cap, count, handle)
        if text is None:
            return item
        reason = f"A tool result may take {cap} tokens; head and tail are sent."
        self.out.capped[item.source] = Fate("truncated", "result_cap", reason)
        return item.with_text(text, count(text), item.content)
