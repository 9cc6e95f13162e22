"""A made-up memory of a whole fleet, the same for the same size.

Words are as frequent as in a language (Zipf), the Myses' rows lie between each
other's as they do where all play at once, and one Mysis has a longer log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

from django.core.management import call_command
from django.db import connection

VERSION = 1
SEED = 20_260_205
VOCABULARY = 20_000
SENTENCES = 60_000
WORDS = 12
#: In every fifth row of all Myses but the first one.
ELSEWHERE = "asteroidbelt"
COLUMNS = (
    "mysis_id, role, origin, sender, content, reasoning, signature, tool_calls, "
    "tool_call_id, tool_name, args, is_error, pending, tokens, created_at"
)
INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'memory_memory' "
    "AND indexdef LIKE '%USING gin%'"
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows and Myses; the first Mysis has ``longest`` of the rows."""

    rows: int
    myses: int
    longest: int

    @property
    def folder(self) -> str:
        """What a database of this size is kept as."""
        return f"bench-{VERSION}-{self.rows}-{self.myses}"


def word(rank: int) -> str:
    """The word of a rank, the most common one is 1: letters alone, no word in another."""
    syllables = ("ka", "ro", "mi", "te", "su", "no", "va", "li", "pe", "du")
    return "".join(syllables[int(digit)] for digit in f"{rank:05}")


def fill(size: Size) -> dict[str, int]:
    """Have the rows in this database; the ids of the Myses by name."""
    from agents.models import Mysis
    from memory.models import Memory

    call_command("migrate", verbosity=0, interactive=False)
    names = [f"Mysis {number}" for number in range(1, size.myses + 1)]
    if Memory.objects.filter(content="the end").exists():
        return dict(Mysis.objects.values_list("name", "pk"))
    Mysis.objects.all().delete()
    made = [Mysis.objects.create(name=name).pk for name in names]
    with connection.cursor() as cursor:
        cursor.execute(INDEXES)
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {name}")
        with cursor.copy(f"COPY memory_memory ({COLUMNS}) FROM STDIN") as copy:
            for row in rows(size, made):
                copy.write_row(row)
        cursor.execute("SET maintenance_work_mem = '1GB'")
        for _, definition in indexes:
            cursor.execute(definition)
        cursor.execute("VACUUM ANALYZE memory_memory")
    Memory.objects.filter(pk=Memory.objects.order_by("pk")[0].pk).update(
        content="the end"
    )
    return dict(zip(names, made, strict=True))


def rows(size: Size, myses: list[int]) -> Iterator[tuple[Any, ...]]:
    """The rows, in the order in which they were written."""
    dice = Random(SEED)  # noqa: S311 (it is to be repeatable)
    said = sentences(dice)
    owners = [myses[0]] * size.longest
    others = size.rows - size.longest
    owners += [myses[1 + n % (size.myses - 1)] for n in range(others)]
    dice.shuffle(owners)
    for owner in owners:
        text = " ".join(dice.choices(said, k=3))
        if owner != myses[0] and dice.random() < 0.2:
            text += f" {ELSEWHERE}"
        thinks = dice.random() < 0.33
        yield (
            owner,
            "assistant" if thinks else "tool",
            "agent" if thinks else "tool",
            "",
            text,
            dice.choice(said) if thinks else "",
            "",
            "[]",
            "",
            "",
            "{}",
            False,
            False,
            60,
            "2026-02-05T00:00:00Z",
        )


def sentences(dice: Random) -> list[str]:
    """Sentences whose words are as frequent as their ranks say."""
    words = [word(rank) for rank in range(1, VOCABULARY + 1)]
    weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    return [
        " ".join(dice.choices(words, cum_weights=weights, k=WORDS)) + "."
        for _ in range(SENTENCES)
    ]
