"""The generated full-text columns.

The ``simple`` configuration neither stems nor drops words, so it treats every
language alike. Only the first 32,000 characters are indexed: above about one
megabyte of lexemes PostgreSQL refuses the row; exact search covers the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.postgres.search import SearchVectorField
from django.db.models import Expression, F, Func, TextField, Value
from django.db.models.functions import Cast, Concat, Left

INDEXED_CHARACTERS = 32_000
# The parser would take paths, hosts, addresses and tags as one token, or drop
# them: "Sol/Belt" could not be found by "belt". Texts and queries alike have
# these signs replaced by spaces, so that words are what stands between them.
SIGNS = "<>/\\@.:=&?#%~+*|"


# The lexeme of an owner begins with one of them, as no word or beginning of a word does.
OWNER = "@"


def words_of(query: str) -> str:
    """A query as the vectors see texts: signs that glue words become spaces."""
    return query.translate(str.maketrans(SIGNS, " " * len(SIGNS)))


def mysis_lexeme(mysis_id: int) -> str:
    """The lexeme that stands for one Mysis inside a scoped vector."""
    return f"{OWNER}{mysis_id}"


def plain_vector(*fields: str, config: str = "simple") -> Func:
    """``to_tsvector`` of the heads of text columns."""
    heads: list[Expression] = [Left(F(name), INDEXED_CHARACTERS) for name in fields]
    head = Func(
        heads[0] if len(heads) == 1 else _joined(heads),
        Value(SIGNS),
        Value(" " * len(SIGNS)),
        function="translate",
        output_field=TextField(),
    )
    return Func(
        head,
        template=f"to_tsvector('{config}'::regconfig, %(expressions)s)",
        output_field=SearchVectorField(),
    )


def _joined(parts: Sequence[Expression]) -> Func:
    """Texts with a blank between them; ``concat`` would not do in a generated column."""
    return Func(
        *parts,
        arg_joiner=" || ' ' || ",
        template="(%(expressions)s)",
        output_field=TextField(),
    )


def scoped_vector(*fields: str) -> Func:
    """A vector that carries its Mysis as one more lexeme.

    One GIN index then answers "this word, in this Mysis" by intersecting two
    posting lists, without the btree_gin extension.
    """
    owner = Func(
        Concat(
            Value(OWNER),
            Cast(F("mysis"), TextField()),
            output_field=TextField(),
        ),
        template="array_to_tsvector(ARRAY[%(expressions)s])",
        output_field=SearchVectorField(),
    )
    return Func(
        plain_vector(*fields),
        owner,
        arg_joiner=" || ",
        template="(%(expressions)s)",
        output_field=SearchVectorField(),
    )
