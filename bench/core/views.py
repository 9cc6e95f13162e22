"""Views of made-up logs: their time, what re-reads cost in them, and their prefixes.

Everything is pure and in this process: neither a database nor Django is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from bench.figures import Aim, Figure, Step, Task, measure_medians
from bench.logs import Log, Player, make_log, message_document
from memory.context import registry
from memory.context.assemble import assemble
from memory.context.result_types import Assembly, LedgerLine
from memory.context.types import AssemblyRequest, Message, Summary
from memory.gamestate.render import TITLE, split_state

#: Milliseconds that an assembly of so many messages is to stay below.
TIME_TARGETS = {2_000: 50.0, 20: 1.0}
SYSTEM = "You are Ada, a captain. Earn credits, and keep your ship whole and fuelled."
PINS = ("Never attack miners.", "Keep 500 credits for fuel.")
STATE = "## Game state\n" + "- Fuel: 80/240 (get_ship - 2 ticks ago)\n" * 20
PLAIN = "json"

READS = 15
READ_TOOL = "get_ship"
#: Four fifths are to be saved.
READS_TARGET = 0.20

#: The strategies that promise a stable prefix, and one that does not.
PROMISED = ("full", "mask", "tiered", "summary")
SLIDING = "window"
PREFIX_TARGET = 95.0
UNITS = 240
VOLATILE = frozenset({"state", "nudge"})
SUMMARY = "Goals: earn credits. Done so far: mined, sold and refuelled.\n" * 60

STEPS = len(TIME_TARGETS) + 1 + 1 + len(PROMISED)


def measure(step: Step) -> list[Figure]:
    """All figures of views."""
    return [*measure_times(step), *measure_reads(step), *measure_prefixes(step)]


def plain_request(log: Log, strategy: str) -> AssemblyRequest:
    """An assembly as a turn asks for it, with the defaults of the strategy."""
    return AssemblyRequest(
        messages=log,
        system=SYSTEM,
        pins=PINS,
        strategy=strategy,
        render_state=lambda limit: STATE[:limit],
    )


# --- The time of one assembly


def measure_times(step: Step) -> list[Figure]:
    """The time of an assembly, by size of the log and registered strategy."""
    figures: list[Figure] = []
    for count in TIME_TARGETS:
        step(f"Assembling {count:,} messages by each strategy")
        figures += _time_assemblies(count)
    return figures


def _time_assemblies(count: int) -> list[Figure]:
    log = make_log(count)
    documents = [message_document(message) for message in log]
    tasks: dict[str, Task] = {PLAIN: lambda: json.loads(json.dumps(documents))}
    for strategy in registry.list_names():
        tasks[strategy] = partial(assemble, plain_request(log, strategy))
    seconds = measure_medians(tasks)
    plain = seconds.pop(PLAIN) * 1000
    return [
        Figure(
            f"assemble {count:,} messages: {strategy}",
            value * 1000,
            "ms",
            baseline=plain,
            baseline_is="json.dumps and json.loads of the same messages",
            target=TIME_TARGETS[count],
        )
        for strategy, value in seconds.items()
    ]


# --- Fifteen reads of the same ship


#: Wide enough that superseding alone does the work.
WIDE: Mapping[str, object] = {"window": 1_000}


@dataclass(frozen=True)
class Case:
    """A strategy with its options, and the log that it is given."""

    name: str
    strategy: str
    options: Mapping[str, object] = field(default_factory=dict)
    turns: int = READS
    target: float | None = READS_TARGET


CASES = (
    Case("snapshot-window", "snapshot-window"),
    Case("snapshot-window, 1,000 wide", "snapshot-window", WIDE),
    Case("tiered", "tiered"),
    Case("snapshot-window, one turn", "snapshot-window", turns=1),
    # A turn that goes on stays whole there (A16): no target.
    Case("tiered, one turn", "tiered", turns=1, target=None),
)


def make_reading_log(turns: int = READS) -> Log:
    """A log that reads the ship ``READS`` times and acts after each read.

    It ends in a turn that has only begun: with its nudge, or with its newest read.
    """
    player = Player()
    log: list[Message] = []
    for number in range(READS):
        if number < turns:
            log.append(player.begin_turn())
        log += player.call_tools(READ_TOOL)
        if number == READS - 1 and turns == 1:
            break
        log += player.call_tools("mine")
        if turns > 1:
            log.append(player.say("Mining on."))
    return tuple(log if turns == 1 else [*log, player.begin_turn()])


def count_result_tokens(log: Log, strategy: str, options: Mapping[str, object]) -> int:
    """The tokens of all tool results in a view, as the core counts them."""
    request = replace(plain_request(log, strategy), options=options)
    tokens: int = assemble(request).stats["tokens_by_category"]["tool"]
    return tokens


def measure_reads(step: Step) -> list[Figure]:
    """What the re-reads cost, by each strategy that promises to drop old ones."""
    step(f"Reading the ship {READS} times")
    return [reads_figure(case) for case in CASES]


def reads_figure(case: Case) -> Figure:
    """The tokens of one case, beside those of all results."""
    log = make_reading_log(case.turns)
    return Figure(
        f"{READS} x {READ_TOOL}: {case.name}",
        count_result_tokens(log, case.strategy, case.options),
        "tokens",
        baseline=count_result_tokens(log, "full", {}),
        baseline_is="all tool results, as full sends them",
        target=case.target,
        aim=Aim.RATIO_BELOW,
    )


# --- Prefixes: how much of a call a provider has cached (I25)


@dataclass(frozen=True)
class CallPair:
    """Two calls, one after the other, in bytes.

    The earlier call has ``stable`` bytes before its state block and nudge; ``kept`` of
    them begin the later call too. ``compacted``: something older changed between them.
    ``counted`` and ``stated`` are the whole common beginning, by our own count and by
    the statistics of the view.
    """

    kept: int
    stable: int
    compacted: bool
    counted: int
    stated: int

    @property
    def share(self) -> float:
        """The kept bytes in percent of the stable ones."""
        return 100 * self.kept / self.stable if self.stable else 100.0


@dataclass
class GrowingLog:
    """A log that grows unit by unit, with a call after each."""

    strategy: str
    options: Mapping[str, object] = field(default_factory=dict)
    log: list[Message] = field(default_factory=list)
    summary: Summary | None = None

    def call(self, unit: Log, previous: Assembly | None) -> Assembly:
        """Store a unit and assemble the next call; makes the summary that it wants."""
        self.log += unit
        view = assemble(self._request(previous))
        wanted = view.summary_wanted
        if wanted is not None:
            generation = self.summary.generation + 1 if self.summary else 1
            self.summary = Summary(wanted.last_id, SUMMARY, generation)
            view = assemble(self._request(previous))
        return view

    def _request(self, previous: Assembly | None) -> AssemblyRequest:
        request = plain_request(tuple(self.log), self.strategy)
        return replace(
            request,
            options=self.options,
            summary=self.summary,
            # Changes from call to call, as recency does.
            render_state=lambda limit: f"{TITLE}\n\n{len(self.log)}: fuel 80."[:limit],
            previous=previous.messages if previous else None,
        )


def play_pairs(strategy: str, units: int = UNITS) -> Iterator[CallPair]:
    """Every two neighbouring calls of a growing log."""
    log = GrowingLog(strategy)
    before: Assembly | None = None
    for unit in islice(Player().units(), units):
        now = log.call(unit, before)
        if before is not None:
            yield compare_calls(before, now)
        before = now


def compare_calls(before: Assembly, now: Assembly) -> CallPair:
    """Count what two calls have in common."""
    # The last of them may go on: its closing signs are no part of what stays.
    stable = encode_messages(drop_tail(before)).removesuffix(b'"}')
    later = encode_messages(now.messages)
    return CallPair(
        kept=count_common_bytes(stable, later),
        stable=len(stable),
        compacted=has_compacted(before.ledger, now.ledger),
        counted=count_common_bytes(encode_messages(before.messages), later),
        stated=now.stats["prefix_shared_bytes"],
    )


def drop_tail(view: Assembly) -> list[dict[str, Any]]:
    """The messages of a view before its nudge, and without its state block."""
    *begun, last = view.messages
    kinds = {each.kind for each in view.synthetic if each.position == len(begun)}
    if kinds.isdisjoint(VOLATILE):
        return view.messages
    if view.sources[-1] is None:
        return begun
    return [*begun, last | {"content": split_state(last["content"])[0]}]


def encode_messages(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """The messages as compact JSON, one behind the other."""
    texts = (
        json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        for message in messages
    )
    return "".join(texts).encode()


def count_common_bytes(one: bytes, other: bytes) -> int:
    """The length of the common beginning, found by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def has_compacted(before: Sequence[LedgerLine], now: Sequence[LedgerLine]) -> bool:
    """Whether a line of the earlier ledger has another disposition now."""
    was = {line.id: line.disposition for line in before}
    return any(was.get(line.id, line.disposition) != line.disposition for line in now)


def measure_prefixes(step: Step) -> list[Figure]:
    """The mean share by strategy, and how often the statistics disagree."""
    found: dict[str, list[CallPair]] = {}
    for strategy in (SLIDING, *PROMISED):
        step(f"Playing a log forward under {strategy}")
        found[strategy] = list(play_pairs(strategy))
    sliding = mean_share(found.pop(SLIDING))
    figures = [prefix_figure(name, each, sliding) for name, each in found.items()]
    wrong = sum(p.counted != p.stated for each in found.values() for p in each)
    note = f"of {sum(map(len, found.values())):,} calls, by another count"
    return [
        *figures,
        Figure("wrong prefix_shared_bytes", wrong, "", target=1, note=note),
    ]


def prefix_figure(strategy: str, found: Sequence[CallPair], sliding: float) -> Figure:
    """The mean share of the calls before which nothing was compacted."""
    quiet = [pair for pair in found if not pair.compacted]
    return Figure(
        f"prefix shared: {strategy}",
        mean_share(quiet),
        "%",
        baseline=sliding,
        baseline_is=f"all calls of the strategy {SLIDING} on the same log",
        target=PREFIX_TARGET,
        aim=Aim.AT_LEAST,
        note=f"{len(quiet)} calls, nothing compacted before; "
        f"all {len(found)}: {mean_share(found):.1f} %",
    )


def mean_share(found: Sequence[CallPair]) -> float:
    """The mean share in percent; 0 without calls."""
    return sum(pair.share for pair in found) / max(len(found), 1)
