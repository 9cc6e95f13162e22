"""What is remembered, as tables."""

from __future__ import annotations

from .contexts import (
    ContextPolicy,
    ContextText,
    HistorySummary,
    SentContext,
    TokenCalibration,
)
from .game import AccountClock, ActionUnderWay, GameEvent, GameSnapshot, Lexicon
from .log import Memory, Origin, Role

__all__ = [
    "AccountClock",
    "ActionUnderWay",
    "ContextPolicy",
    "ContextText",
    "GameEvent",
    "GameSnapshot",
    "HistorySummary",
    "Lexicon",
    "Memory",
    "Origin",
    "Role",
    "SentContext",
    "TokenCalibration",
]
