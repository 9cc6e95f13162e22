"""What is looked for, and the conditions by which rows match it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
