"""The ways in which the game took actions, by the letter of their time."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.game.blocking import Blocking
from sandbox.game.queued import Queued
from sandbox.game.resolution import Resolution

ERAS: dict[str, Callable[[], Resolution]] = {"A": Queued, "C": Blocking}
