"""The audit log: what people and programs did to the fleet, kept for whoever asks later.

An entry is written in the transaction of its act, so it is there exactly when the act is.
Who acts is set once by the door through which they came; what a Mysis does by itself is
in its own log, and not here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from memory.context.types import PEER
from memory.gamestate.values import repair_text
from memory.models import AuditEntry, fetch_rows
from memory.models.audit import FAILED_SIGN_IN
from memory.redaction import HIDDEN, hide_secrets_in_value

# Who writes what comes with the program, such as its first prompt.
SYSTEM = "system"
# What stands in the place of a secret: where there is one, and where there is none.
_BEFORE = ("stored", "none")
_AFTER = ("changed", "removed")
_SEALED = "sealed_"
_SECRET_COLUMNS = frozenset({"password", "digest", "game_session"})
# A name and a password in a web address; a name alone may be a key.
_CREDENTIALS = re.compile(r"//[^/@\s]+@")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
LONGEST_TEXT = 300
LONGEST_DOCUMENT = 4_000

COUNT_FAILED = """
INSERT INTO memory_auditentry (at, who, token, address, action, object, before, after)
VALUES (%(minute)s, %(who)s, '', %(address)s, %(action)s, %(object)s, '{}', '{"tries": 1}')
ON CONFLICT (who, address, at) WHERE action = 'sign_in.failed' DO UPDATE
SET after = jsonb_build_object(
    'tries', (memory_auditentry.after->>'tries')::int + 1)
"""

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who came in by a door: how the log names them, by which token, from where.

    ``who`` is empty while nobody has signed in.
    """

    who: str = ""
    token: str = ""
    address: str = ""


NOBODY = Actor()
_actor: ContextVar[Actor] = ContextVar("actor", default=NOBODY)


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Let what is recorded in here be the acts of this one."""
    before = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(before)


def record(
    action: str,
    thing: str = "",
    *,
    by: str = "",
    before: Values | None = None,
    after: Values | None = None,
) -> None:
    """Store what somebody did to a thing; call it in the transaction of the act.

    ``action`` is a noun and a verb, ``mysis.start``; ``thing`` a kind and a name,
    ``mysis:Ada``. ``by`` names who acts where no door has.
    """
    if by == SYSTEM or by.startswith(PEER):
        return
    actor = _actor.get()
    AuditEntry.objects.create(
        who=repair_text(actor.who or by or SYSTEM)[:200],
        token=actor.token[:100],
        address=actor.address[:64],
        action=action,
        object=repair_text(thing)[:300],
        before=_clean(before or {}, _BEFORE),
        after=_clean(after or {}, _AFTER),
    )


def record_change(
    action: str,
    thing: str,
    *,
    by: str = "",
    before: Values | None = None,
    after: Values | None = None,
) -> None:
    """As `record`, with those values alone that differ; nothing where none does.

    Of what is new or gone, with those that are not empty.
    """
    old, new = before or {}, after or {}
    if before and after:
        changed = {name for name in {**old, **new} if old.get(name) != new.get(name)}
        old, new = _select(old, changed), _select(new, changed)
    else:
        old, new = _drop_empty(old), _drop_empty(new)
    if old or new:
        record(action, thing, by=by, before=old, after=new)


def record_failed_sign_in(who: str, address: str, thing: str) -> None:
    """Count a wrong password or token: one entry a minute for each name and address."""
    values = {
        "minute": timezone.now().replace(second=0, microsecond=0),
        "who": repair_text(who)[:200],
        "address": address[:64],
        "action": FAILED_SIGN_IN,
        "object": repair_text(thing)[:300],
    }
    fetch_rows(COUNT_FAILED, values)


def read_columns(row: Model | None, names: Collection[str] = ()) -> dict[str, Any]:
    """What a row holds, or these of its columns; {} for no row.

    Related rows stand by their names. Secrets are only told apart, by what is stored.
    """
    if row is None:
        return {}
    return {
        field.name: _read_column(row, field)
        for field in row._meta.concrete_fields
        if (field.name in names if names else _is_told(field))
    }


def read_stored(row: Model, names: Collection[str] = ()) -> dict[str, Any]:
    """As `read_columns`, of what the database holds now; {} for a new row."""
    rows = type(row)._base_manager.filter(pk=row.pk)
    return read_columns(rows.first() if row.pk else None, names)


def select_entries(who: str = "", what: str = "") -> QuerySet[AuditEntry]:
    """Entries of whom begins with ``who``, on what begins with ``what``."""
    rows = AuditEntry.objects.all()
    if who:
        rows = rows.filter(who__startswith=who)
    if what:
        rows = rows.filter(Q(action__startswith=what) | Q(object__startswith=what))
    return rows


def delete_entries(ids: Collection[int]) -> None:
    """Delete what is older than it must be kept: the one way to do so."""
    with transaction.atomic():
        fetch_rows("SELECT set_config('zoea.prunes_audit', 'on', true)")
        AuditEntry.objects.filter(pk__in=ids).delete()
        fetch_rows("SELECT set_config('zoea.prunes_audit', 'off', true)")


def _select(values: Values, names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


def _drop_empty(values: Values) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in _EMPTY}


def _is_told(field: Any) -> bool:
    automatic = getattr(field, "auto_now", False) or getattr(
        field, "auto_now_add", False
    )
    return not (field.primary_key or field.generated or automatic)


def _read_column(row: Model, field: Any) -> Any:
    if field.is_relation:
        related = getattr(row, field.name)
        return None if related is None else str(related)
    return getattr(row, field.attname)


def _clean(values: Values, secret: tuple[str, str]) -> dict[str, Any]:
    """The values as they may be read: without secrets, long ones cut.

    ``secret`` is what stands for one that is there, and for one that is not.
    """
    there, missing = secret
    return {
        name.removeprefix(_SEALED): (there if value else missing)
        if _holds_secret(name)
        else _cut(hide_secrets_in_value({name: _write(value)})[name])
        for name, value in values.items()
    }


def _holds_secret(name: str) -> bool:
    return name.startswith(_SEALED) or name in _SECRET_COLUMNS


def _write(value: Any) -> Any:
    """A value as JSON that can be stored."""
    return _repair(json.loads(json.dumps(value, default=str)))


def _repair(value: Any) -> Any:
    """A JSON value without odd characters, and without the credentials of addresses."""
    if isinstance(value, dict):
        return {repair_text(name): _repair(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_repair(item) for item in value]
    if isinstance(value, str):
        return _CREDENTIALS.sub(f"//{HIDDEN}@", repair_text(value))
    return value


def _cut(value: Any) -> Any:
    """A value as it is kept: of a long text its beginning, length and hash."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else _shorten(value)
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= LONGEST_DOCUMENT else _shorten(text)


def _shorten(text: str) -> dict[str, Any]:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    beginning = f"{text[: LONGEST_TEXT - 1]}…"
    return {"text": beginning, "length": len(text), "sha256": digest}
