"""The ways in which the game took actions, by the letter of their time."""

from __future__ import annotations

from collections.abc import Callable

from agents.game.sandbox.blocking import Blocking
from agents.game.sandbox.queued import Queued
from agents.game.sandbox.resolution import Resolution

ERAS: dict[str, Callable[[], Resolution]] = {"A": Queued, "C": Blocking}
