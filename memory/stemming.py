"""English stems by an index of whole words.

The index holds words as they stand in the texts, so that every language is treated
alike. A word and its stem begin alike, so the words that begin so are all that can
match; which of them do, their stems decide afterwards.
"""

from __future__ import annotations

import re

from django.db import connection

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
