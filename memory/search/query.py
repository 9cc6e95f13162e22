"""What is looked for, and the conditions by which rows match it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from memory.lookup import Problem
from memory.models.vectors import INDEXED_CHARACTERS, SIGNS, mysis_lexeme, words_of

Field = Literal["content", "reasoning"]
Mode = Literal["fts", "exact"]

WORDS = "websearch_to_tsquery('simple', %(words)s)"
# What the indexed vectors are made of.
HEADS = {
    "content": "left(content, %(indexed)s) || ' ' || left(calls_text, %(indexed)s)",
    "reasoning": "left(reasoning, %(indexed)s)",
}
SPOKEN = "to_tsvector('{config}', translate({text}, %(signs)s, %(spaces)s)) @@ "
STEMMED = "websearch_to_tsquery('english', %(words)s)"
SCOPE = " && %(lexeme)s::tsquery"
LETTERS = "strpos({field}, %(query)s) > 0"
LETTERS_OF_ANY_CASE = "strpos(lower({field}), lower(%(query)s)) > 0"
COLUMNS = {
    "content": "content, calls_text, tool_calls, content_vector",
    "reasoning": "reasoning, reasoning_vector",
}
# What calls of secret tools say is no match; what is said beside them may be one.
UNLESS_HIDDEN = """
 AND (NOT jsonb_path_query_array(tool_calls, '$[*].function.name') ?| %(secret)s
   OR {alone})
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for, and where.

    Content is what was said, also in calls. ``fts``: all words of a websearch-syntax
    query, in any language without stemming; ``stem`` takes English words by their
    stems, so that "mining" finds "mined".
    ``exact``: the query letter for letter and without wildcards, upper and lower case
    told apart unless ``ignore_case`` (W10, A8). Results of ``secret`` tools are never
    matches (A11).
    """

    query: str
    mode: Mode = "fts"
    field: Field = "content"
    mysis_id: int | None = None
    before: int | None = None
    ignore_case: bool = False
    stem: bool = False
    secret: frozenset[str] = frozenset()


def by_words(wanted: Wanted, *, scoped: bool) -> str:
    """The condition on words, by the index and, for stems, checked again."""
    query = "%(stems)s::tsquery" if wanted.stem else WORDS
    scope = SCOPE if scoped else ""
    condition = f"{wanted.field}_vector @@ ({query}{scope})"
    if wanted.stem:
        condition += f" AND {by_stems(wanted)}"
    else:
        condition = f"numnode({WORDS}) > 0 AND {condition}"
    if wanted.field == "reasoning":
        condition += " AND NOT (reasoning = '')"
    elif wanted.secret and not wanted.stem:
        alone = SPOKEN.format(config="simple", text="left(content, %(indexed)s)")
        condition += UNLESS_HIDDEN.format(alone=alone + WORDS)
    return condition


def by_stems(wanted: Wanted) -> str:
    """The condition on stems, without the index."""
    spoken = SPOKEN.format(config="english", text=HEADS[wanted.field]) + STEMMED
    if wanted.field == "content" and wanted.secret:
        alone = SPOKEN.format(config="english", text="left(content, %(indexed)s)")
        spoken += UNLESS_HIDDEN.format(alone=alone + STEMMED)
    return f"numnode({STEMMED}) > 0 AND {spoken}"


def by_letters(wanted: Wanted) -> str:
    """The condition on letters, which no index knows."""
    letters = LETTERS_OF_ANY_CASE if wanted.ignore_case else LETTERS
    own = letters.format(field=wanted.field)
    if wanted.field == "reasoning":
        return own
    calls = f"calls_text <> '' AND {letters.format(field='calls_text')}"
    if wanted.secret:
        calls += UNLESS_HIDDEN.format(alone="false")
    return f"({own} OR {calls})"


# SECTION English stems by an index of whole words.
#
# The index holds words as they stand in the texts, so that every language is treated
# alike. A word and its stem begin alike, so the words that begin so are all that can
# match; which of them do, their stems decide afterwards.

TREE = "SELECT querytree(websearch_to_tsquery('english', %s))"
_LEXEME = re.compile(r"'((?:[^']|'')*)'")
_PHRASE = re.compile(r"<(?:-|\d+)>")
#: Stems that their words do not begin with.
IRREGULAR = {"die": "dy", "lie": "ly", "tie": "ty", "sky": "ski"}


def candidates(words: str) -> str:
    """A tsquery on whole words that finds at least what these words' stems find.

    Empty where the query leaves nothing to look up, as one of exclusions alone does.
    """
    with connection.cursor() as cursor:
        cursor.execute(TREE, [words])
        (tree,) = cursor.fetchone() or ("",)
    if tree in ("", "T"):
        return ""
    return _PHRASE.sub("&", _LEXEME.sub(_beginnings, tree))


def beginning(stem: str) -> str:
    """What every word of a stem begins with, irregular ones aside.

    A final e or i may stand for another letter (hope: hoping, berri: berries), and an
    l after b for a syllable (possibl: possibility).
    """
    short = stem[:-1] if len(stem) > 2 and stem[-1] in "ei" else stem
    return short[:-1] if len(short) > 2 and short.endswith("bl") else short


def _beginnings(found: re.Match[str]) -> str:
    stem = found[1].replace("''", "'")
    known = [beginning(stem)]
    if stem in IRREGULAR:
        known.append(IRREGULAR[stem])
    quoted = [each.replace("'", "''") for each in known]
    either = " | ".join(f"'{each}':*" for each in quoted)
    return f"({either})"


# SECTION How long a search may take: a scan without an index must not hold a connection.

SECONDS = 10.0


class SlowSearchError(Problem):
    """A search that was given up; the text says how to ask for less."""

    def __init__(self) -> None:
        super().__init__(
            422,
            "too_slow",
            f"The search was given up after {SECONDS:g} s: name one Mysis, take rarer "
            "words, or search by words instead of letter for letter.",
        )


@contextmanager
def bounded() -> Iterator[None]:
    """Give each statement inside `SECONDS`; raises SlowSearchError past that."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true)",
                [f"{SECONDS * 1000:.0f}"],
            )
            yield
            # Where this is part of a longer transaction the setting would stay.
            if connection.savepoint_ids:
                cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise SlowSearchError from error
        raise


# SECTION Which messages match: by words or letter for letter, the newest ones first.
#
# Two ways lead there. The index gives all matches at once, which is fast for words that
# are rare; the log read backwards gives the newest ones, which is fast for words that
# are common, and endless for one that a Mysis never used. How common a word is, the
# planner's statistics tell; a walk has an end, and behind it the index decides.

#: A walk reads so many rows at most; it costs a few microseconds for each.
LONGEST_WALK = 6_000
#: A walk is as long as brings so many times what is wanted, where words lie evenly.
MARGIN = 3

# A broadcast counts once in the fleet, however many it was delivered to.
WHERE = """
{condition}
  AND (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
  AND NOT tool_name = ANY(%(secret)s::text[])
  AND (%(mysis)s::bigint IS NOT NULL OR broadcast_id IS NULL OR id = (
    SELECT min(id) FROM memory_memory AS one
    WHERE one.broadcast_id = row.broadcast_id))
"""
# Materialised before they are sorted: left to itself the planner would walk.
ALL = f"""
WITH hit AS MATERIALIZED (SELECT id FROM memory_memory AS row WHERE {WHERE})
SELECT id FROM hit ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 (no input in the text)
BACKWARDS = f"""
SELECT id FROM (
  SELECT id, mysis_id, broadcast_id, tool_name, {{columns}} FROM memory_memory
  WHERE (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
    AND (%(before)s::bigint IS NULL OR id < %(before)s)
  ORDER BY id DESC LIMIT %(walk)s
) AS row WHERE {WHERE} ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 (no input in the text)
LAST_WALKED = """
SELECT id FROM memory_memory
WHERE (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC OFFSET %(walk)s - 1 LIMIT 1
"""
# For the list of the pages to read: without room it is kept in part, and checked again.
ROOM = "SET LOCAL work_mem = '32MB'"
HOW_MANY = """
EXPLAIN (FORMAT JSON) SELECT FROM memory_memory WHERE {indexed}
UNION ALL SELECT FROM memory_memory
"""


def matching_ids(wanted: Wanted, limit: int) -> list[int]:
    """Ids of the newest matches, newest first; raises SlowSearchError."""
    with bounded():
        return _matching_ids(wanted, limit)


def _matching_ids(wanted: Wanted, limit: int) -> list[int]:
    values = _values(wanted) | {"limit": limit}
    if wanted.mode == "exact":
        return _without_index(wanted, by_letters(wanted), values)
    if wanted.stem:
        values["stems"] = candidates(values["words"])
    if wanted.stem and not values["stems"]:
        return _without_index(wanted, by_stems(wanted), values)
    walk = _walk(wanted, values)
    if walk:
        condition = by_words(wanted, scoped=False)
        found = _backwards(wanted, condition, values | {"walk": walk})
        if len(found) == limit:
            return found
    condition = by_words(wanted, scoped=wanted.mysis_id is not None)
    return _ids(ALL.format(condition=condition), values)


def _values(wanted: Wanted) -> dict[str, Any]:
    return {
        "query": wanted.query,
        "words": words_of(wanted.query),
        "mysis": wanted.mysis_id,
        "lexeme": f"'{mysis_lexeme(wanted.mysis_id or 0)}'",
        "before": wanted.before,
        "secret": sorted(wanted.secret),
        "indexed": INDEXED_CHARACTERS,
        "signs": SIGNS,
        "spaces": " " * len(SIGNS),
    }


def _walk(wanted: Wanted, values: dict[str, Any]) -> int:
    """How many rows to read backwards before the index is asked; 0: ask it at once."""
    query = "%(stems)s::tsquery" if wanted.stem else WORDS
    with connection.cursor() as cursor:
        indexed = f"{wanted.field}_vector @@ {query}"
        cursor.execute(HOW_MANY.format(indexed=indexed), values)
        ((plan,),) = cursor.fetchall()
    matches, rows = (max(part["Plan Rows"], 1) for part in plan[0]["Plan"]["Plans"])
    length = MARGIN * int(values["limit"]) * rows // matches + 50
    return length if length <= LONGEST_WALK else 0


def _without_index(wanted: Wanted, condition: str, values: dict[str, Any]) -> list[int]:
    """First the newest rows; then all that lie behind, in the order of the disk."""
    limit = values["limit"]
    found = _backwards(wanted, condition, values | {"walk": LONGEST_WALK})
    if len(found) == limit:
        return found
    behind = _ids(LAST_WALKED, values | {"walk": LONGEST_WALK})
    if not behind:
        return found
    rest = {"before": behind[0], "limit": limit - len(found)}
    with connection.cursor() as cursor:
        cursor.execute(ROOM)
    return found + _ids(ALL.format(condition=condition), values | rest)


def _backwards(wanted: Wanted, condition: str, values: dict[str, Any]) -> list[int]:
    text = BACKWARDS.format(columns=COLUMNS[wanted.field], condition=condition)
    return _ids(text, values)


def _ids(text: str, values: dict[str, Any]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return [row[0] for row in cursor.fetchall()]
