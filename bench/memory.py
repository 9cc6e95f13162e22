"""How fast a long memory is searched and added to, beside plain SQL on the same rows.

The made-up memories are the same for the same size: words are as frequent as in a
language (Zipf), the rows of the Myses lie between each other's as they do where all play
at once, and one Mysis has a longer log. It runs in a process of its own, one for each
size; see ``bench.processes``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from time import perf_counter
from typing import Any

from django.db import connection

from agents.models import Mysis
from bench.figures import Aim, Figure, Step, percentile
from bench.processes import ROOT, migrated_database, run_function
from memory.models import Memory
from memory.search.results import search_messages

#: Kept between runs: making the larger one takes minutes.
KEPT = ROOT / ".zoea"
VERSION = 1
SEED = 20_260_205
VOCABULARY = 20_000
SENTENCES = 60_000
SENTENCE_WORDS = 12
#: In every fifth row of all Myses but the first one.
ELSEWHERE = "asteroidbelt"
ONE_MOMENT = datetime(2026, 2, 5, tzinfo=UTC)
COLUMNS = (
    "mysis_id, role, origin, sender, content, reasoning, signature, tool_calls, "
    "tool_call_id, tool_name, args, is_error, pending, tokens, created_at"
)
INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'memory_memory' "
    "AND indexdef LIKE '%USING gin%'"
)
BARE_TABLE = """
CREATE TABLE bench_bare AS
SELECT id, mysis_id, role, origin, sender, content, reasoning, signature, tool_calls,
  tool_call_id, tool_name, args, is_error, pending, tokens, created_at
FROM memory_memory WITH NO DATA
"""

#: Ranks of words: the most common one, and each a hundred times rarer.
WORDS = {"common": (1, 2, 3), "medium": (900, 1000, 1100), "rare": (15_000, 18_000)}
NEVER = "kaqqqnever"
LIMIT = 20
SEARCHES, BASELINE_SEARCHES, INSERTS = 40, 5, 1_500
RAW = (
    "SELECT id, content FROM memory_memory WHERE mysis_id = %s AND content_vector @@ "
    "websearch_to_tsquery('simple', %s) ORDER BY id DESC LIMIT %s"
)
RAW_FLEET = (
    "SELECT id, content FROM memory_memory WHERE content_vector @@ "
    "websearch_to_tsquery('simple', %s) ORDER BY id DESC LIMIT %s"
)
ILIKE = (
    "SELECT id, content FROM memory_memory WHERE mysis_id = %s AND content ILIKE %s "
    "ORDER BY id DESC LIMIT %s"
)
ILIKE_FLEET = (
    "SELECT id, content FROM memory_memory WHERE content ILIKE %s "
    "ORDER BY id DESC LIMIT %s"
)

#: Milliseconds by question: targets of the median, or else of the 95th percentile.
MEDIAN_TARGETS = {"one Mysis: rare": 2.0, "one Mysis: medium": 2.0}
P95_TARGETS = {
    "one Mysis: common": 50.0,
    "longest Mysis: common": 50.0,
    "longest Mysis: only elsewhere": 50.0,
    "longest Mysis: exact, never": 300.0,
    "longest Mysis: exact, common": 300.0,
    "fleet: common": 50.0,
    "fleet: medium": 50.0,
    "fleet: rare": 50.0,
}

Times = dict[str, float]
"""Milliseconds by what they are, such as median and p95."""
Answers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows and Myses; the first Mysis has ``longest`` of the rows.

    They were written over the last ``days``, or all at one moment.
    """

    rows: int
    myses: int
    longest: int
    days: int = 0

    @property
    def folder(self) -> str:
        """What a database of this size is kept as."""
        days = f"-{self.days}" if self.days else ""
        return f"bench-{VERSION}-{self.rows}-{self.myses}{days}"


SMALL, LARGE = Size(100_000, 5, 20_000), Size(1_000_000, 50, 100_000)


def measure(step: Step) -> list[Figure]:
    """All figures of both sizes; each is measured by ``measure_size`` in its process."""
    small, large = (_measure_apart(size, step) for size in (SMALL, LARGE))
    return [
        *search_figures(large["searches"]),
        *flatness_figures(small["searches"], large["searches"]),
        *insert_figures(large["inserts"]),
    ]


def _measure_apart(size: Size, step: Step) -> dict[str, Any]:
    words = [str(each) for each in (size.rows, size.myses, size.longest)]
    found: dict[str, Any] = run_function(
        "bench.memory:measure_size", KEPT / size.folder, step, *words
    )
    return found


def measure_size(step: Step, *words: str) -> dict[str, Any]:
    """Milliseconds of searches and inserts by question, in memories of this size."""
    size = Size(*map(int, words))
    with migrated_database(step):
        step(f"Making {size.rows:,} memories of {size.myses} Myses, once")
        longest, usual, *_ = fill_corpus(size).values()
        step(f"Searching {size.rows:,} memories")
        searches = measure_searches(longest, usual)
        step("Storing messages")
        return {"searches": searches, "inserts": measure_inserts(usual)}


# --- The made-up memories


def make_word(rank: int) -> str:
    """The word of a rank, the most common one is 1: letters alone, no word in another."""
    syllables = ("ka", "ro", "mi", "te", "su", "no", "va", "li", "pe", "du")
    return "".join(syllables[int(digit)] for digit in f"{rank:05}")


def fill_corpus(size: Size) -> dict[str, int]:
    """Make the rows unless they are there; the ids of the Myses by name."""
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
            for row in make_rows(size, made):
                copy.write_row(row)
        cursor.execute("SET maintenance_work_mem = '1GB'")
        for _, definition in indexes:
            cursor.execute(definition)
        cursor.execute("VACUUM ANALYZE memory_memory")
    Memory.objects.filter(pk=Memory.objects.order_by("pk")[0].pk).update(
        content="the end"
    )
    return dict(zip(names, made, strict=True))


def make_rows(size: Size, myses: list[int]) -> Iterator[tuple[Any, ...]]:
    """The rows, in the order in which they were written."""
    dice = Random(SEED)  # noqa: S311 (it is to be repeatable)
    said = make_sentences(dice)
    owners = [myses[0]] * size.longest
    others = size.rows - size.longest
    owners += [myses[1 + n % (size.myses - 1)] for n in range(others)]
    dice.shuffle(owners)
    newest = datetime.now(UTC) if size.days else ONE_MOMENT
    for number, owner in enumerate(owners):
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
            newest - timedelta(days=size.days * (1 - number / size.rows)),
        )


def make_sentences(dice: Random) -> list[str]:
    """Sentences whose words are as frequent as their ranks say."""
    words = [make_word(rank) for rank in range(1, VOCABULARY + 1)]
    weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    return [
        " ".join(dice.choices(words, cum_weights=weights, k=SENTENCE_WORDS)) + "."
        for _ in range(SENTENCES)
    ]


# --- Searching


def measure_searches(longest: int, usual: int) -> dict[str, dict[str, Times]]:
    """Each question: our search, and the baselines beside it."""
    found: dict[str, dict[str, Times]] = {}
    for name, ranks in WORDS.items():
        found[f"one Mysis: {name}"] = time_search(
            [make_word(rank) for rank in ranks], usual
        )
        found[f"fleet: {name}"] = time_search([make_word(rank) for rank in ranks], None)
    found["longest Mysis: common"] = time_search(
        [make_word(rank) for rank in (1, 2, 3)], longest
    )
    found["longest Mysis: only elsewhere"] = time_search([ELSEWHERE], longest)
    found["longest Mysis: exact, never"] = time_exact_search(
        f"{NEVER}%", longest, BASELINE_SEARCHES
    )
    found["longest Mysis: exact, common"] = time_exact_search(
        make_word(10), longest, SEARCHES
    )
    return found


def time_search(words: list[str], mysis: int | None) -> dict[str, Times]:
    """Full-text search, beside plain SQL and a scan."""

    def raw(text: str) -> object:
        values = (text, LIMIT) if mysis is None else (mysis, text, LIMIT)
        return run_sql(RAW_FLEET if mysis is None else RAW, values)

    def scan(text: str) -> object:
        values = (f"%{text}%", LIMIT)
        if mysis is None:
            return run_sql(ILIKE_FLEET, values)
        return run_sql(ILIKE, (mysis, *values))

    def ours(text: str) -> object:
        return search_messages(query=text, mysis_id=mysis, limit=LIMIT)

    return {
        "ours": time_queries(ours, words, SEARCHES),
        "plain SQL": time_queries(raw, words, BASELINE_SEARCHES),
        "ILIKE": time_queries(scan, words, BASELINE_SEARCHES),
    }


def time_exact_search(text: str, mysis: int, repeats: int) -> dict[str, Times]:
    """Exact search, beside a scan."""

    def ours(query: str) -> object:
        return search_messages(query=query, mode="exact", mysis_id=mysis, limit=LIMIT)

    def scan(query: str) -> object:
        return run_sql(ILIKE, (mysis, f"%{query}%", LIMIT))

    return {
        "ours": time_queries(ours, [text], repeats),
        "ILIKE": time_queries(scan, [text], BASELINE_SEARCHES),
    }


def time_queries(ask: Callable[[str], object], words: list[str], repeats: int) -> Times:
    """Median and p95 in milliseconds, after one question of each word to warm up."""
    for text in words:
        ask(text)
    found = []
    for turn in range(repeats):
        begun = perf_counter()
        ask(words[turn % len(words)])
        found.append((perf_counter() - begun) * 1000)
    found.sort()
    return {
        "median": statistics.median(found),
        "p95": percentile(found, 0.95),
    }


def run_sql(text: str, values: tuple[Any, ...]) -> object:
    """All rows of a query, past the ORM."""
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall()


# --- Storing


def measure_inserts(mysis: int) -> dict[str, Times]:
    """Store one row a transaction, ours and bare by turns; all are removed again.

    The bare table is logged as ours is, so that both wait for the disk alike.
    """
    values = make_rows(Size(INSERTS, 2, INSERTS // 2), [mysis, mysis])
    marks = ", ".join(["%s"] * len(COLUMNS.split(", ")))
    found: dict[str, list[float]] = {"ours": [], "bare": []}
    tables = {"ours": "memory_memory", "bare": "bench_bare"}
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_bare")
        cursor.execute(BARE_TABLE)
        cursor.execute("SELECT max(id) FROM memory_memory")
        (newest,) = cursor.fetchone() or (0,)
        dice = Random(1)  # noqa: S311
        for row in values:
            for name in dice.sample(sorted(tables), 2):
                text = f"INSERT INTO {tables[name]} ({COLUMNS}) VALUES ({marks})"  # noqa: S608
                begun = perf_counter()
                cursor.execute(text, row)
                found[name].append((perf_counter() - begun) * 1000)
        cursor.execute("DELETE FROM memory_memory WHERE id > %s", [newest])
        cursor.execute("DROP TABLE bench_bare")
    return {name: _insert_times(sorted(times)) for name, times in found.items()}


def _insert_times(times: list[float]) -> Times:
    return {
        "mean": statistics.fmean(times),
        "median": statistics.median(times),
        "p999": percentile(times, 0.999),
        "worst": times[-1],
    }


# --- Figures


def search_figures(found: Answers) -> list[Figure]:
    """A figure for each question."""
    figures = []
    for name, by in found.items():
        what = "median" if name in MEDIAN_TARGETS else "p95"
        plain = by.get("plain SQL")
        figures.append(
            Figure(
                f"search, {what}: {name}",
                by["ours"][what],
                "ms",
                baseline=by["ILIKE"][what],
                baseline_is="an ILIKE scan of the same rows",
                target=MEDIAN_TARGETS.get(name, P95_TARGETS.get(name)),
                note=f"the same words in plain SQL: {plain[what]:.1f} ms"
                if plain
                else "",
            )
        )
    return figures


def flatness_figures(few: Answers, many: Answers) -> list[Figure]:
    """Whether a search in one Mysis costs more where there are more Myses."""
    return [
        Figure(
            f"search, of 50 Myses, median: {name}",
            many[name]["ours"]["median"],
            "ms",
            baseline=few[name]["ours"]["median"],
            baseline_is="the same in a fleet of 5 Myses",
            target=2.0,
            aim=Aim.RATIO_BELOW,
        )
        for name in ("one Mysis: rare", "one Mysis: medium", "one Mysis: common")
    ]


def insert_figures(found: Mapping[str, Mapping[str, float]]) -> list[Figure]:
    """What a message costs to store, and the slowest of a thousand."""
    ours, bare = found["ours"], found["bare"]
    worst = f"worst {ours['worst']:.0f} ms, without an index {bare['worst']:.0f} ms"
    table = "the same rows into a table without any index"
    mean = Figure("insert, mean", ours["mean"], "ms", bare["mean"], table, 5.0)
    late = Figure("insert, slowest", ours["p999"], "ms", bare["p999"], table, 20.0)
    return [replace(mean, aim=Aim.RATIO_BELOW), replace(late, note=worst)]
