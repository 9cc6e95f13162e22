"""Chance that can be repeated.

A generator is made afresh from the seed and the occasion, so an outcome does not
depend on the order of unrelated calls and nothing about chance has to be saved.
"""

from __future__ import annotations

import random


def dice(*occasion: object) -> random.Random:
    """Give the generator of one occasion, such as (seed, tick, player, "mine")."""
    name = ":".join(str(part) for part in occasion)
    return random.Random(name)  # noqa: S311 - a game's chance, no secret depends on it


def hex_id(*occasion: object) -> str:
    """Give the 32 hex digits that always name the same thing of the same world."""
    return f"{dice('id', *occasion).getrandbits(128):032x}"
