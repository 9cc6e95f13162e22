"""The secrets in the database: which the keys open, and sealing them under the newest."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import Model, Q

from agents.encryption import SealedProperty, SecretUnreadableError, opens, reseal

PREFIX = "sealed_"
BATCH = 200


@dataclass(slots=True)
class Tally:
    """What became of secrets; ``unreadable`` names each that no key opens.

    With ``forget`` such a secret is given up.
    """

    forget: bool = False

    resealed: int = 0
    current: int = 0
    unreadable: list[str] = field(default_factory=list)


def list_sealed_columns() -> list[tuple[type[Model], list[str]]]:
    """The models with secrets, and the columns that hold them."""
    found = []
    for model in apps.get_models():
        own = vars(model).values()
        columns = [one.column for one in own if isinstance(one, SealedProperty)]
        if columns:
            found.append((model, columns))
    return found


def count_secrets() -> int:
    """How many rows hold a secret."""
    return sum(
        _select_sealed(model, columns).count()
        for model, columns in list_sealed_columns()
    )


def find_unreadable() -> list[str]:
    """The names of the secrets that no key opens."""
    return [name for name, token in _list_tokens() if not opens(token)]


def opens_any() -> bool:
    """Whether the keys open one of the secrets, where there are any."""
    tokens = [token for _, token in _list_tokens() if token]
    return not tokens or any(map(opens, tokens))


def _list_tokens() -> Iterator[tuple[str, str]]:
    """All secrets, by their names; a column may be empty."""
    for model, columns in list_sealed_columns():
        rows = _select_sealed(model, columns).values_list("pk", *columns)
        for pk, *tokens in rows:
            for column, token in zip(columns, tokens, strict=True):
                yield _name(model, pk, column), token


def reseal_all(tally: Tally) -> Generator[int, None, None]:
    """Seal all secrets under the newest key; yields the number of rows of each batch.

    A batch is a transaction, so an end at any moment leaves every secret readable. What
    no key opens stays as it is, or is given up.
    """
    for model, columns in list_sealed_columns():
        last = 0
        while pks := list(
            _select_sealed(model, columns)
            .filter(pk__gt=last)
            .order_by("pk")
            .values_list("pk", flat=True)[:BATCH]
        ):
            last = pks[-1]
            _reseal_batch(model, columns, pks, tally)
            yield len(pks)


@transaction.atomic
def _reseal_batch(
    model: type[Model], columns: list[str], pks: list[Any], tally: Tally
) -> None:
    # Locked, so that a secret which is stored meanwhile is not written over.
    rows = model._default_manager.select_for_update(no_key=True).filter(pk__in=pks)
    for row in rows.order_by("pk"):
        changed = {}
        for column in columns:
            token = getattr(row, column)
            try:
                fresh = reseal(token)
            except SecretUnreadableError:
                tally.unreadable.append(_name(model, row.pk, column))
                if not tally.forget:
                    continue
                fresh = ""
            if fresh != token:
                changed[column] = fresh
            elif token:
                tally.current += 1
        if changed:
            model._default_manager.filter(pk=row.pk).update(**changed)
            tally.resealed += sum(map(bool, changed.values()))


def _select_sealed(model: type[Model], columns: list[str]) -> Any:
    empty = Q(*((column, "") for column in columns))
    return model._default_manager.exclude(empty)


def _name(model: type[Model], pk: Any, column: str) -> str:
    return f"{column.removeprefix(PREFIX)} of {model._meta.verbose_name} {pk}"
