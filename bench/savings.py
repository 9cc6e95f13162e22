"""What fifteen reads of the same ship cost in a view, against sending them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bench.assembly import request_of
from bench.figures import Aim, Figure
from bench.logs import Log, Player
from memory.context.assemble import assemble
from memory.context.types import Message

READS = 15
TOOL = "get_ship"
#: Four fifths are to be saved.
TARGET = 0.20
STEPS = 1
#: Wide enough that superseding alone does the work.
WIDE: Mapping[str, object] = {"window": 1_000}


@dataclass(frozen=True)
class Case:
    """A strategy with its options, and the log that it is given."""

    name: str
    strategy: str
    options: Mapping[str, object] = field(default_factory=dict)
    turns: int = READS
    target: float | None = TARGET


CASES = (
    Case("snapshot-window", "snapshot-window"),
    Case("snapshot-window, 1,000 wide", "snapshot-window", WIDE),
    Case("tiered", "tiered"),
    Case("snapshot-window, one turn", "snapshot-window", turns=1),
    # A turn that goes on stays whole there (A16): told, but no aim.
    Case("tiered, one turn", "tiered", turns=1, target=None),
)


def reads(turns: int = READS) -> Log:
    """A log that reads the ship ``READS`` times and acts each time, in some turns.

    The last turn has only begun: after its nudge, or after its newest read.
    """
    player = Player()
    log: list[Message] = []
    for number in range(READS):
        if number < turns:
            log.append(player.asked())
        log += player.called(TOOL)
        if number == READS - 1 and turns == 1:
            break
        log += player.called("mine")
        if turns > 1:
            log.append(player.said("Mining on."))
    return tuple(log if turns == 1 else [*log, player.asked()])


def payload_tokens(log: Log, strategy: str, options: Mapping[str, object]) -> int:
    """What the tool results of a view cost by the core's own count."""
    request = replace(request_of(log, strategy), options=options)
    tokens: int = assemble(request).stats["tokens_by_category"]["tool"]
    return tokens


def measure(step: Callable[[str], None]) -> list[Figure]:
    """A figure for each way that promises to send old reads no more."""
    step(f"Reading the ship {READS} times")
    return [figure_of(case) for case in CASES]


def figure_of(case: Case) -> Figure:
    """The payload of one case against all of it."""
    log = reads(case.turns)
    return Figure(
        f"{READS} x {TOOL}: {case.name}",
        payload_tokens(log, case.strategy, case.options),
        "tokens",
        baseline=payload_tokens(log, "full", {}),
        baseline_is="all tool results, as full sends them",
        target=case.target,
        aim=Aim.RATIO_BELOW,
    )
