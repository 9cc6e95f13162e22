"""The tables of the fleet."""

from __future__ import annotations

from agents.models.budgets import Budget, BudgetSpend
from agents.models.fleet import Account, Broadcast, ErrorCode, Mysis, Pin
from agents.models.llm import AskedWindow, Prompt, PromptVersion, Provider
from agents.models.runs import (
    Delivery,
    Event,
    GameGate,
    ModelCall,
    ToolCatalogue,
    Turn,
    UnknownOutcome,
    Usage,
)

__all__ = [
    "Account",
    "AskedWindow",
    "Broadcast",
    "Budget",
    "BudgetSpend",
    "Delivery",
    "ErrorCode",
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
