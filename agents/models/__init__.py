"""The fleet as tables."""

from __future__ import annotations

from agents.windows import AskedWindow

from .budgets import Budget, BudgetSpend
from .costs import Usage
from .deliveries import Delivery
from .fleet import Account, Broadcast, Mysis, Pin
from .minds import Prompt, PromptVersion, Provider
from .runs import Event, GameGate, ModelCall, ToolCatalogue, Turn
from .unknowns import UnknownOutcome

__all__ = [
    "Account",
    "AskedWindow",
    "Broadcast",
    "Budget",
    "BudgetSpend",
    "Delivery",
    "Event",
    "GameGate",
    "ModelCall",
    "Mysis",
    "Pin",
    "Prompt",
    "PromptVersion",
    "Provider",
    "ToolCatalogue",
    "Turn",
    "UnknownOutcome",
    "Usage",
]
