"""The generated full-text columns, and what calls say as a text to search and show.

The ``simple`` configuration neither stems nor drops words, so it treats every language
alike. Only the first 32,000 characters are indexed: above about one megabyte of lexemes
PostgreSQL refuses the row; exact search covers the rest.

Log entries, chat and orders are said in the arguments of calls, often beside an empty
content. Their text is as it was meant: without the escapes of JSON, which would glue
letters to words, and without secrets (A11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Expression, F, Func, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Left

from memory.game_calls import is_secret_call
from memory.gamestate import values
from memory.redaction import HIDDEN, hide_secrets

INDEXED_CHARACTERS = 32_000
# The parser takes paths, hosts, addresses and tags as one token, or drops them: "belt"
# would not find "Sol/Belt". So these signs become spaces, in texts and in queries.
SIGNS = "<>/\\@.:=&?#%~+*|"
# The lexeme of an owner begins with one of them, as no word does.
OWNER = "@"


# Signs of "not" in a row; PostgreSQL skips what stands between them, and refuses some
# thirty in a row with an internal error.
_MANY_NOTS = re.compile(r"(?:-[\s!&|()]*){9,}")


def replace_signs(query: str) -> str:
    """A query as the vectors see texts: signs that glue words become spaces."""
    spaced = query.translate(str.maketrans(SIGNS, " " * len(SIGNS)))
    return _MANY_NOTS.sub(lambda nots: " -" if nots[0].count("-") % 2 else " ", spaced)


def make_mysis_lexeme(mysis_id: int) -> str:
    """The lexeme that stands for one Mysis inside a scoped vector."""
    return f"{OWNER}{mysis_id}"


def build_json_text(field: str, keys: Iterable[str]) -> Func:
    """What a JSON column says under these keys, joined by blanks."""
    return _joined(
        [
            Coalesce(KeyTextTransform(key, field), Value(""), output_field=TextField())
            for key in keys
        ]
    )


def build_plain_vector(*fields: str | Expression, config: str = "simple") -> Func:
    """``to_tsvector`` of the heads of text columns."""
    heads: list[Expression] = [
        Left(F(one) if isinstance(one, str) else one, INDEXED_CHARACTERS)
        for one in fields
    ]
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
    """Texts joined by a blank; generated columns do not allow ``concat``."""
    return Func(
        *parts,
        arg_joiner=" || ' ' || ",
        template="(%(expressions)s)",
        output_field=TextField(),
    )


def build_scoped_vector(*fields: str) -> Func:
    """A vector that carries its Mysis as one more lexeme.

    One GIN index then answers "this word, in this Mysis" by intersecting two
    posting lists, without the btree_gin extension.
    """
    owner = Func(
        Value(OWNER),
        Cast(F("mysis"), TextField()),
        arg_joiner=" || ",
        template="array_to_tsvector(ARRAY[%(expressions)s])",
        output_field=SearchVectorField(),
    )
    return Func(
        build_plain_vector(*fields),
        owner,
        arg_joiner=" || ",
        template="(%(expressions)s)",
        output_field=SearchVectorField(),
    )


_ESCAPES = re.compile(r'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))+')


def describe_calls(
    calls: Iterable[Mapping[str, Any]], secret: Collection[str] = ()
) -> str:
    """A line for each call; those of ``secret`` tools without their arguments."""
    return "\n".join(_said(call["function"], secret) for call in calls)


def _said(function: Mapping[str, Any], secret: Collection[str]) -> str:
    name, arguments = function["name"], function["arguments"]
    if is_secret_call(name, arguments, secret):
        return f"[called {name} with {HIDDEN}]"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    # As JSON first, and what was hidden behind escapes after them.
    plain = hide_secrets(_ESCAPES.sub(_meant, hide_secrets(arguments)))
    return values.repair_text(f"[called {name} with {plain}]")


def _meant(escapes: re.Match[str]) -> str:
    """What escapes stand for; decoded together, as some are halves of one character."""
    text: str = json.loads(f'"{escapes[0]}"')
    return text


class CallsText(models.TextField[str, str]):
    """What a row's calls say, set from them whenever it is saved."""

    def pre_save(self, model_instance: Any, add: bool) -> str:
        text = describe_calls(model_instance.tool_calls)
        setattr(model_instance, self.attname, text)
        return text
