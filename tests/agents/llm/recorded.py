"""Refusals as real servers sent them: status, body, and what they mean.

Names of organisations and ids of requests are changed. Those of LiteLLM are what its
proxy 1.110 answered, in front of a server that refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_GOLDEN = Path(__file__).parents[2] / "golden" / "refusals.json"


@dataclass(frozen=True)
class Refusal:
    """One recorded answer; ``limit`` is the window that it names."""

    name: str
    status: int
    body: dict[str, Any]
    limit: int | None = None
    anthropic: bool = False

    def __str__(self) -> str:
        return self.name


_RECORDED = json.loads(_GOLDEN.read_text())
OVERFLOWS = tuple(Refusal(**each) for each in _RECORDED["too_long"])
MISSING = tuple(Refusal(**each) for each in _RECORDED["no_such_model"])
OTHERS = tuple(Refusal(**each) for each in _RECORDED["others"])
