"""What a new installation starts with: a fleet to watch."""

from __future__ import annotations

from django.db import transaction

from . import actions
from .models import Mysis

NAMES = (
    "Ada",
    "Brahe",
    "Cassini",
    "Draper",
    "Eratosthenes",
    "Flammarion",
    "Galileo",
    "Herschel",
    "Ibn al-Haytham",
    "Jansky",
    "Kepler",
    "Leavitt",
)


@transaction.atomic
def create_demo_fleet(myses: int) -> list[Mysis]:
    """Start so many Myses on the scripted pilot; none where any exist already."""
    if Mysis.objects.exists():
        return []
    fleet = [actions.create_mysis(name=name_of(n), by="demo") for n in range(myses)]
    return [actions.start_mysis(mysis=mysis, by="demo") for mysis in fleet]


def name_of(number: int) -> str:
    """The name of the n-th demo Mysis, counted from 0."""
    name, lap = NAMES[number % len(NAMES)], number // len(NAMES)
    return f"{name} {lap + 1}" if lap else name
