"""Which messages match a query: by words or letter for letter, the newest first.

Two ways lead there. The index gives all matches at once, which is fast for rare words;
the log read backwards gives the newest ones, which is fast for common words, and endless
for one that a Mysis never used. How common a word is, the planner's statistics say; a
walk has an end, and behind it the index decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from django.conf import settings

from memory.concurrency import ConcurrencyLimit, limit_statements
from memory.game_calls import list_action_names
from memory.models import fetch_rows
from memory.models.vectors import (
    INDEXED_CHARACTERS,
    SIGNS,
    make_mysis_lexeme,
    replace_signs,
)
from memory.problems import SlowSearchError

Field = Literal["content", "reasoning", "calls"]
Mode = Literal["fts", "exact"]
SECONDS = 10.0
# Half of the pool is for what is no search.
_POOL: int = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
_places = ConcurrencyLimit(
    max(1, _POOL // 2), seconds=10, refusal="Others are searching: not done."
)
# Hits are counted up to here, and for so many seconds.
MOST_COUNTED = 1_000
COUNT_SECONDS = 1.0
# A walk reads so many rows at most; it costs a few microseconds for each.
LONGEST_WALK = 6_000
# A walk is as long as brings so many times what is wanted, where words lie evenly.
MARGIN = 3
WORDS = "websearch_to_tsquery('simple', %(words)s)"
# What the indexed vectors are made of.
_HEADS = {
    "content": "left(content, %(indexed)s) || ' ' || left(calls_text, %(indexed)s)",
    "reasoning": "left(reasoning, %(indexed)s)",
    "calls": "left(calls_text, %(indexed)s)",
}
_VECTORS = {
    "content": "content_vector",
    "reasoning": "reasoning_vector",
    "calls": "content_vector",
}
_SPOKEN = "to_tsvector('{config}', translate({text}, %(signs)s, %(spaces)s)) @@ "
_STEMMED = "websearch_to_tsquery('english', %(words)s)"
_SCOPE = " && %(lexeme)s::tsquery"
LETTERS = "strpos({field}, %(query)s) > 0"
_LETTERS_OF_ANY_CASE = "strpos(lower({field}), lower(%(query)s)) > 0"
COLUMNS = {
    "content": "content, calls_text, tool_calls, content_vector",
    "reasoning": "reasoning, reasoning_vector",
    "calls": "content, calls_text, tool_calls, content_vector",
}
# What calls of secret tools say is no match; what is said beside them may be one.
_UNLESS_HIDDEN = """
 AND (NOT (jsonb_path_query_array(tool_calls, '$[*].function.name') ?| %(secret)s
     OR calls_text ~ %(secret_actions)s)
   OR {alone})
"""
# A broadcast counts once in the fleet, however many it was delivered to.
_WHERE = """
{condition}
  AND (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
  AND NOT tool_name = ANY(%(secret)s::text[])
  AND (%(origin)s = '' OR origin = %(origin)s)
  AND (NOT %(standing)s OR branch_id IS NULL)
  AND (%(mysis)s::bigint IS NOT NULL OR broadcast_id IS NULL OR id = (
    SELECT min(id) FROM memory_memory AS one
    WHERE one.broadcast_id = row.broadcast_id))
"""
# Materialised before they are sorted: left to itself the planner would walk.
_ALL = f"""
WITH hit AS MATERIALIZED (SELECT id FROM memory_memory AS row WHERE {_WHERE})
SELECT id FROM hit ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 (no input in the text)
_BACKWARDS = f"""
SELECT id FROM (
  SELECT id, mysis_id, broadcast_id, tool_name, origin, branch_id, {{columns}}
  FROM memory_memory
  WHERE (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
    AND (%(before)s::bigint IS NULL OR id < %(before)s)
  ORDER BY id DESC LIMIT %(walk)s
) AS row WHERE {_WHERE} ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 (no input in the text)
_COUNT = f"""
ARRAY(SELECT id FROM memory_memory AS row WHERE {_WHERE} {{narrowed}} LIMIT %(most)s)
"""  # noqa: S608 (no input in the text)
_COUNT_BACKWARDS = f"""
ARRAY(
  SELECT id FROM (
    SELECT id, mysis_id, broadcast_id, tool_name, origin, branch_id, created_at,
      {{columns}}
    FROM memory_memory
    WHERE %(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s
    ORDER BY id DESC LIMIT %(walk)s
  ) AS row WHERE {_WHERE} {{narrowed}} LIMIT %(most)s)
"""  # noqa: S608 (no input in the text)
_NARROWED = """
  AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
"""
_LAST_WALKED = """
SELECT id FROM memory_memory
WHERE (%(mysis)s::bigint IS NULL OR mysis_id = %(mysis)s)
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC OFFSET %(walk)s - 1 LIMIT 1
"""
# For the list of pages to read: with too little memory rows are checked twice.
_ROOM = "SET LOCAL work_mem = '32MB'"
_HOW_MANY = """
EXPLAIN (FORMAT JSON) SELECT FROM memory_memory WHERE {indexed}
UNION ALL SELECT FROM memory_memory
"""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What is looked for, and where.

    Content is what was said, also in calls; calls are those alone. ``fts``: all words of
    a websearch-syntax query, in any language without stemming; with ``stem`` English
    words by their stems, so that "mining" finds "mined". ``exact``: the query letter for
    letter, without wildcards, case-sensitive unless ``ignore_case`` (W10, A8). Results of
    ``secret`` tools never match (A11). ``origin`` is who said it, empty for anybody.
    With ``standing`` what was taken back is no match.
    """

    query: str
    mode: Mode = "fts"
    field: Field = "content"
    mysis_id: int | None = None
    before: int | None = None
    ignore_case: bool = False
    stem: bool = False
    secret: frozenset[str] = frozenset()
    origin: str = ""
    standing: bool = False


class Count(NamedTuple):
    """How many matches there are; with ``more`` at least so many."""

    number: int
    more: bool


@contextmanager
def limit_time(
    seconds: float | None = None, *, wait: float | None = None
) -> Iterator[None]:
    """Limit each statement inside to `SECONDS`; raises SlowSearchError past that.

    So a scan without an index cannot hold a connection, and many at once leave some to
    others. Raises a 503 Problem where no place became free in as many seconds, or in
    those of ``wait``.
    """
    most = SECONDS if seconds is None else seconds
    with (
        _places.taken(most if wait is None else wait),
        limit_statements(SlowSearchError(most), most),
    ):
        yield


def find_matching_ids(
    wanted: TextQuery, limit: int, seconds: float | None = None
) -> list[int]:
    """Ids of the newest matches, newest first; raises SlowSearchError."""
    with limit_time(seconds):
        return _find_matching_ids(wanted, limit)


def _find_matching_ids(wanted: TextQuery, limit: int) -> list[int]:
    values = _parameters(wanted) | {"limit": limit}
    if wanted.mode == "exact":
        return _scan(wanted, build_letter_condition(wanted), values)
    if wanted.stem:
        values["stems"] = build_candidate_query(values["words"])
    if wanted.stem and not values["stems"]:
        return _scan(wanted, build_stem_condition(wanted), values)
    walk = _walk_length(wanted, values)
    if walk:
        condition = build_word_condition(wanted, scoped=False)
        found = _walk_back(wanted, condition, values | {"walk": walk})
        if len(found) == limit:
            return found
    condition = build_word_condition(wanted, scoped=wanted.mysis_id is not None)
    return _fetch_ids(_ALL.format(condition=condition), values)


def _parameters(wanted: TextQuery) -> dict[str, Any]:
    return {
        "query": wanted.query,
        "words": replace_signs(wanted.query),
        "mysis": wanted.mysis_id,
        "lexeme": f"'{make_mysis_lexeme(wanted.mysis_id or 0)}'",
        "before": wanted.before,
        "origin": wanted.origin,
        "standing": wanted.standing,
        "secret": sorted(wanted.secret),
        "secret_actions": _build_action_pattern(wanted.secret),
        "indexed": INDEXED_CHARACTERS,
        "signs": SIGNS,
        "spaces": " " * len(SIGNS),
    }


def _build_action_pattern(secret: Collection[str]) -> str:
    """What stands in the arguments of a grouped tool that is called for a secret command."""
    actions = "|".join(map(re.escape, sorted(list_action_names(secret))))
    return rf'"action": *"({actions})"' if actions else "(?!)"


def _walk_length(wanted: TextQuery, values: dict[str, Any]) -> int:
    """How many rows to read backwards before the index is used; 0: use it at once."""
    query = "%(stems)s::tsquery" if wanted.stem else WORDS
    indexed = f"{_VECTORS[wanted.field]} @@ {query}"
    ((plan,),) = fetch_rows(_HOW_MANY.format(indexed=indexed), values)
    matches, rows = (max(part["Plan Rows"], 1) for part in plan[0]["Plan"]["Plans"])
    length = MARGIN * int(values["limit"]) * rows // matches + 50
    return length if length <= LONGEST_WALK else 0


def _scan(wanted: TextQuery, condition: str, values: dict[str, Any]) -> list[int]:
    """The newest rows first; then all older ones, in the order of the disk."""
    limit = values["limit"]
    found = _walk_back(wanted, condition, values | {"walk": LONGEST_WALK})
    if len(found) == limit:
        return found
    behind = _fetch_ids(_LAST_WALKED, values | {"walk": LONGEST_WALK})
    if not behind:
        return found
    rest = {"before": behind[0], "limit": limit - len(found)}
    fetch_rows(_ROOM)
    return found + _fetch_ids(_ALL.format(condition=condition), values | rest)


def _walk_back(wanted: TextQuery, condition: str, values: dict[str, Any]) -> list[int]:
    text = _BACKWARDS.format(columns=COLUMNS[wanted.field], condition=condition)
    return _fetch_ids(text, values)


def _fetch_ids(text: str, values: dict[str, Any]) -> list[int]:
    return [pk for (pk,) in fetch_rows(text, values)]


# --- Counts


def find_counted_ids(
    wanted: Sequence[TextQuery],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    seconds: float = COUNT_SECONDS,
) -> tuple[list[list[int]], bool]:
    """The messages that match each of these, which differ in their field only.

    One statement. By words up to one over `MOST_COUNTED`; what no index finds among the
    newest messages only, and whether there are older ones. Raises SlowSearchError.
    """
    values = _parameters(wanted[0]) | {"since": since, "until": until}
    values |= {"most": MOST_COUNTED + 1, "walk": LONGEST_WALK}
    with limit_time(seconds, wait=SECONDS):
        stems = build_candidate_query(values["words"]) if wanted[0].stem else ""
        indexed = wanted[0].mode == "fts" and (not wanted[0].stem or stems != "")
        counts = ", ".join(_write_count(one, indexed=indexed) for one in wanted)
        older = "false" if indexed else f"EXISTS ({_LAST_WALKED})"
        text = f"SELECT {older}, {counts}"
        ((unread, *found),) = fetch_rows(text, values | {"stems": stems})
    return found, unread


def _write_count(wanted: TextQuery, *, indexed: bool) -> str:
    if wanted.mode == "exact":
        condition, source = build_letter_condition(wanted), _COUNT_BACKWARDS
    elif not indexed:
        condition, source = build_stem_condition(wanted), _COUNT_BACKWARDS
    else:
        scoped = wanted.mysis_id is not None
        condition, source = build_word_condition(wanted, scoped=scoped), _COUNT
    columns = COLUMNS[wanted.field]
    return source.format(condition=condition, columns=columns, narrowed=_NARROWED)


def limit_count(number: int, *, more: bool = False) -> Count:
    """A number that was counted up to `MOST_COUNTED` and one."""
    return Count(min(number, MOST_COUNTED), more or number > MOST_COUNTED)


# --- Conditions


def build_word_condition(wanted: TextQuery, *, scoped: bool) -> str:
    """The condition on words, by the index and, for stems, checked again."""
    query = "%(stems)s::tsquery" if wanted.stem else WORDS
    scope = _SCOPE if scoped else ""
    condition = f"{_VECTORS[wanted.field]} @@ ({query}{scope})"
    if wanted.stem:
        condition += f" AND {build_stem_condition(wanted)}"
    else:
        condition = f"numnode({WORDS}) > 0 AND {condition}"
    if wanted.field == "reasoning":
        condition += " AND NOT (reasoning = '')"
    elif wanted.field == "calls":
        condition = _build_call_condition(condition, wanted)
    elif wanted.secret and not wanted.stem:
        alone = _SPOKEN.format(config="simple", text="left(content, %(indexed)s)")
        condition += _UNLESS_HIDDEN.format(alone=alone + WORDS)
    return condition


def _build_call_condition(matches: str, wanted: TextQuery) -> str:
    """Of what matches in content, what is said in calls, and in none that is secret."""
    called = _SPOKEN.format(config="simple", text=_HEADS["calls"]) + WORDS
    # First what costs least: most messages call nothing.
    condition = f"calls_text <> '' AND {matches} AND (content = '' OR {called})"
    return condition + (_UNLESS_HIDDEN.format(alone="false") if wanted.secret else "")


def build_stem_condition(wanted: TextQuery) -> str:
    """The condition on stems, without the index."""
    spoken = _SPOKEN.format(config="english", text=_HEADS[wanted.field]) + _STEMMED
    if wanted.field == "calls":
        spoken += " AND calls_text <> ''"
        spoken += _UNLESS_HIDDEN.format(alone="false") if wanted.secret else ""
    if wanted.field == "content" and wanted.secret:
        alone = _SPOKEN.format(config="english", text="left(content, %(indexed)s)")
        spoken += _UNLESS_HIDDEN.format(alone=alone + _STEMMED)
    return f"numnode({_STEMMED}) > 0 AND {spoken}"


def build_letter_condition(wanted: TextQuery) -> str:
    """The condition on letters, which no index knows."""
    letters = _LETTERS_OF_ANY_CASE if wanted.ignore_case else LETTERS
    own = letters.format(
        field="reasoning" if wanted.field == "reasoning" else "content"
    )
    if wanted.field == "reasoning":
        return own
    calls = f"calls_text <> '' AND {letters.format(field='calls_text')}"
    if wanted.secret:
        calls += _UNLESS_HIDDEN.format(alone="false")
    return f"({calls})" if wanted.field == "calls" else f"({own} OR {calls})"


# --- English stems by an index of whole words

_TREE = "SELECT querytree(websearch_to_tsquery('english', %s))"
_LEXEME = re.compile(r"'((?:[^']|'')*)'")
_PHRASE = re.compile(r"<(?:-|\d+)>")
# Stems that their words do not begin with.
_IRREGULAR = {"die": "dy", "lie": "ly", "tie": "ty", "sky": "ski"}


def build_candidate_query(words: str) -> str:
    """A tsquery on whole words that finds at least what these words' stems find.

    The index holds whole words, so that every language is treated alike. A word and its
    stem begin alike: what begins so is found, and checked by its stem afterwards. Empty
    where the query has nothing to look up, as one of exclusions only.
    """
    ((tree,),) = fetch_rows(_TREE, [words])
    if tree in ("", "T"):
        return ""
    return _PHRASE.sub("&", _LEXEME.sub(_beginnings, tree))


def cut_stem(stem: str) -> str:
    """What every word of a stem begins with, irregular ones aside.

    A final e or i may stand for another letter (hope: hoping, berri: berries), and an
    l after b for a syllable (possibl: possibility).
    """
    short = stem[:-1] if len(stem) > 2 and stem[-1] in "ei" else stem
    return short[:-1] if len(short) > 2 and short.endswith("bl") else short


def _beginnings(found: re.Match[str]) -> str:
    stem = found[1].replace("''", "'")
    known = [cut_stem(stem)]
    if stem in _IRREGULAR:
        known.append(_IRREGULAR[stem])
    quoted = [each.replace("'", "''") for each in known]
    either = " | ".join(f"'{each}':*" for each in quoted)
    return f"({either})"
