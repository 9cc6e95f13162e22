"""How the first migrations write a table down: a line for each column.

Later ones are written by ``makemigrations``. Of the search vectors of `memory.models.vectors`
and of `agents.models.alerts.list_default_rules` it sees no change, as the first migrations
call them too: the test in `tests/upgrade` that compares a new database with an upgraded one
does.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db.migrations import CreateModel
from django.db.models import (
    CASCADE,
    DO_NOTHING,
    BigAutoField,
    CharField,
    CheckConstraint,
    DecimalField,
    Expression,
    Field,
    ForeignKey,
    GeneratedField,
    Index,
    OneToOneField,
    Q,
    UniqueConstraint,
)


def create(tables: dict[str, dict[str, Any]]) -> list[CreateModel]:
    return [CreateModel(name, **table) for name, table in tables.items()]


def table(*, indexes=(), constraints=(), meta=(), **columns) -> dict[str, Any]:
    """A table; its rows are numbered where none of the columns is the primary key."""
    options = dict(meta)
    if indexes:
        options["indexes"] = indexes
    if constraints:
        options["constraints"] = constraints
    if not any(column.primary_key for column in columns.values()):
        columns = {"id": number_rows()} | columns
    return {"fields": list(columns.items()), "options": options}


def number_rows() -> Field:
    return BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )


def index(name: str, *columns: str, where: Q | None = None, **options) -> Index:
    return Index(fields=columns, name=name, condition=where, **options)


def index_words(
    name: str, vector: str | Expression, where: Q | None = None
) -> GinIndex:
    """An index of a column with a vector, or of a vector that no column holds."""
    on = {"fields": [vector]} if isinstance(vector, str) else {}
    words = () if on else (vector,)
    return GinIndex(*words, **on, name=name, condition=where, fastupdate=False)


def unique(name: str, *columns: str, where: Q | None = None) -> UniqueConstraint:
    return UniqueConstraint(fields=columns, name=name, condition=where)


def check(name: str, rule: Q) -> CheckConstraint:
    return CheckConstraint(condition=rule, name=name)


def begins_as(*values: str, **options) -> Field:
    """A choice of these words; a row begins with the first."""
    choices = labelled(*values)
    return CharField(choices=choices, default=values[0], max_length=10, **options)


def labelled(*values: str) -> list[tuple[str, str]]:
    """Choices whose labels are their values, written as titles."""
    return [(value, value.replace("_", " ").title()) for value in values]


def dollars(**options) -> Field:
    return DecimalField(decimal_places=6, default=Decimal(0), max_digits=14, **options)


def loose_key(to: str, **options) -> Field:
    """A reference that the database neither checks nor indexes."""
    return ForeignKey(
        to, DO_NOTHING, db_constraint=False, db_index=False, related_name="+", **options
    )


def part_of(to: str, related_name: str) -> Field:
    """A row that goes with another one, by which an index of its own begins."""
    return ForeignKey(to, CASCADE, db_index=False, related_name=related_name)


def row_of(to: str, related_name: str = "+") -> Field:
    """The one row of another one, by which it is known."""
    options = {"primary_key": True, "serialize": False}
    return OneToOneField(to, CASCADE, related_name=related_name, **options)


def maybe(
    to: str, on_delete: Any, related_name: str, kind: type[Field] = ForeignKey
) -> Field:
    return kind(to, on_delete, blank=True, null=True, related_name=related_name)


def vector_column(expression: Expression) -> Field:
    return GeneratedField(
        db_persist=True, expression=expression, output_field=SearchVectorField()
    )
