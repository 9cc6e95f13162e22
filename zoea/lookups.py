"""Days in the addresses of the admin's lists: those that no calendar has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, date

from django.http import QueryDict

# Without the last: a year is looked for up to the first day of the next.
YEARS = range(MINYEAR, MAXYEAR)
# A year in which every day exists that exists in any.
LEAP = 2000
PARTS = ("year", "month", "day")


def have_days(query: QueryDict) -> bool:
    """Whether all years, and all days of a date's parts, can be.

    What is no number at all is left to the list, which has an answer to it.
    """
    parts: dict[str, dict[str, int]] = defaultdict(dict)
    for name, texts in query.lists():
        field, *lookup = name.split("__")
        numbers = list(_numbers(texts))
        if {"year", "iso_year"} & set(lookup) and not all(
            one in YEARS for one in numbers
        ):
            return False
        if numbers and lookup[-1:] and lookup[-1] in PARTS:
            parts["__".join([field, *lookup[:-1]])][lookup[-1]] = numbers[-1]
    return all(map(_is_day, parts.values()))


def _is_day(parts: dict[str, int]) -> bool:
    try:
        date(parts.get("year", LEAP), parts.get("month", 1), parts.get("day", 1))
    except (ValueError, OverflowError):
        return False
    return True


def _numbers(texts: Iterable[str]) -> Iterable[int]:
    for text in texts:
        for one in text.split(","):
            with suppress(ValueError):
                yield int(one)
