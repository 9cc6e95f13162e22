"""The ways of making contexts that are held against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: A window that no run fills, for the arm that sends everything.
WIDE = 1_000_000


@dataclass(frozen=True, slots=True)
class Arm:
    """One way: its letter, what it is, and the policy that it stands for."""

    letter: str
    title: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: int = 128_000


ARMS = (
    Arm(
        "a",
        "full history, no state block",
        "full",
        {"state_block": False, "result_cap": 0},
        WIDE,
    ),
    Arm("b", "window of 20, no state block", "window", {"state_block": False}),
    Arm(
        "c",
        "snapshot window, no state block",
        "snapshot-window",
        {"state_block": False},
    ),
    Arm("d", "snapshot window with state block", "snapshot-window"),
    Arm("e", "tiered with state block", "tiered"),
)
#: What the others are held against.
BASELINE = ARMS[0]

#: The pilot's rule for asking again, the same in all arms.
RULE = (
    "It asks for a fact that its next step needs, where neither the state block nor an "
    "answer in view tells it: without a mark of its own later action, and not older "
    "than 30 ticks (60 for fuel, hull and credits). Never twice in a turn."
)
