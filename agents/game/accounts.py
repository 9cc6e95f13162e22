"""The pool of game accounts: who owns which, and who plays as whom.

An account is claimed by one statement and freed only when its Mysis is deleted.
Passwords and session ids leave this module only toward the game server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents import db
from agents.encryption import SecretUnreadableError
from agents.game.client import SecretMissingError
from agents.models import Account, CreditChange, Mysis
from memory.gamestate.values import find_value, parse_text
from memory.snapshots import writes

logger = logging.getLogger(__name__)
LONGEST_NAME = 100
LONGEST_EMPIRE = 50

# One statement: two Myses never claim the same account.
CLAIM = """
UPDATE agents_account SET assigned_to_id = %(mysis)s
WHERE id = (
  SELECT id FROM agents_account
  WHERE assigned_to_id IS NULL AND sealed_password <> '' AND NOT id = ANY(%(passed)s)
  ORDER BY lower(username) = lower(%(username)s) DESC,
           lower(empire) = lower(%(empire)s) DESC, id
  LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id, username
"""

_SESSION = re.compile(r"\bsession[ _-]?id\b\W{1,4}([0-9a-zA-Z_-]{8,})", re.IGNORECASE)
_PASSWORD = re.compile(r"\bpassword\b(?: is)?\W{1,4}([0-9a-zA-Z]{16,})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ActiveAccount:
    """An account as the tool chain holds it; ``session`` is "" when not logged in."""

    pk: int
    username: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the answer to a login or registration holds for us alone."""

    session: str = ""
    password: str = ""
    username: str = ""
    player_id: str = ""


class AccountRefusedError(Exception):
    """An account may not be used; the text says what to do instead."""


def list_owned_names(mysis_id: int) -> list[str]:
    """The names of the accounts that a Mysis owns, oldest first."""
    rows = Account.objects.filter(assigned_to=mysis_id).order_by("pk")
    return list(rows.values_list("username", flat=True))


def claim_free(
    mysis_id: int, *, username: str = "", empire: str = "", passed: Collection[int] = ()
) -> ActiveAccount | None:
    """Give a Mysis a free account; None when there is none.

    One of the wanted name goes first, then of the empire; none of those ``passed``.
    """
    wanted = {"mysis": mysis_id, "username": username, "empire": empire}
    row = db.fetch_row(CLAIM, wanted | {"passed": list(passed)})
    return ActiveAccount(*row) if row else None


def take_account(mysis_id: int, username: str) -> tuple[ActiveAccount, bool]:
    """An account by its name, for its owner or, if it is free, for a new one.

    Returns the account and whether it was claimed just now. Raises
    AccountRefusedError for an unknown one and for another Mysis's.
    """
    account = _find(username)
    if account is None:
        raise AccountRefusedError(
            f"No account named {username} is known here. {_advice(mysis_id)}"
        )
    if account.assigned_to_id == mysis_id:
        return make_card(account), False
    free = Account.objects.filter(pk=account.pk, assigned_to=None)
    if not free.update(assigned_to=mysis_id):
        raise AccountRefusedError(
            f"The account {account.username} belongs to another Mysis. "
            f"{_advice(mysis_id)}"
        )
    return make_card(account), True


def check_name(mysis_id: int, username: str) -> None:
    """Raise AccountRefusedError where a name, in any case, is another Mysis's."""
    account = _find(username)
    if account is not None and account.assigned_to_id not in (None, mysis_id):
        raise AccountRefusedError(
            f"The account {account.username} belongs to another Mysis. "
            "Call register with another username."
        )


@transaction.atomic
def release_claim(mysis_id: int, account_id: int) -> None:
    """Undo a claim whose login was refused."""
    Mysis.objects.filter(pk=mysis_id, account=account_id).update(account=None)
    rows = Account.objects.filter(pk=account_id, assigned_to=mysis_id)
    rows.update(assigned_to=None)


def _find(username: str) -> Account | None:
    name = username.strip()
    rows = Account.objects.filter(Q(username=name) | Q(username__iexact=name))
    return min(rows, key=lambda row: row.username != name, default=None)


def _advice(mysis_id: int) -> str:
    names = list_owned_names(mysis_id)
    if names:
        return f"Call login with username {' or '.join(names)}."
    return "Call register to get an account."


def make_card(account: Account) -> ActiveAccount:
    """An account as the tool chain holds it; of the row, three columns are used."""
    try:
        session = account.game_session
    except SecretUnreadableError:
        session = ""  # a login makes a new one
    return ActiveAccount(account.pk, account.username, session)


def load_password(account_id: int) -> str:
    """The stored password, "" where there is none.

    Raises SecretMissingError for one under another key, as another worker may have that.
    """
    try:
        return str(Account.objects.get(pk=account_id).password)
    except SecretUnreadableError as error:
        raise SecretMissingError(str(error)) from error


def load_session(account_id: int) -> str:
    """The game session as any process stored it last."""
    return make_card(Account.objects.get(pk=account_id)).session


def _store_session(account_id: int, session: str) -> None:
    account = Account(pk=account_id)
    account.game_session = session
    account.save(update_fields=["sealed_session"])


def read_credentials(blocks: Iterable[str]) -> Credentials:
    """Read what a login or registration answered, JSON or text (API.md 2.2)."""
    found = Credentials()
    for block in blocks:
        read = _from_json(block)
        if read is None:
            read = Credentials(_first(_SESSION, block), _first(_PASSWORD, block))
        pairs = zip(astuple(found), astuple(read), strict=True)
        found = Credentials(*(before or now for before, now in pairs))
    return found


def _from_json(block: str) -> Credentials | None:
    value = parse_text(block)
    if not isinstance(value, dict):
        return None
    for key in ("result", "data", "payload", "credentials"):
        inner = value.get(key)
        if isinstance(inner, Mapping):
            value = {**value, **inner}
    return Credentials(
        session=_read_word(value, "session_id", "session.id"),
        password=_read_word(value, "password", "token"),
        username=_read_word(value, "player.username", "username"),
        player_id=_read_word(value, "player_id", "player.id"),
    )


def _read_word(value: object, *paths: str) -> str:
    found = (find_value(value, path) for path in paths)
    return next((word for word in found if isinstance(word, str) and word), "")


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""


@transaction.atomic
def play_as(mysis_id: int, card: ActiveAccount, session: str) -> ActiveAccount:
    """Make an account the active one after its login; its old rows show again.

    The account played before keeps its snapshots, unseen until its next login.
    """
    # The row of the Mysis before the lock of the account, as whoever ends a turn.
    played = _activate(mysis_id, card, session)
    writes.revive_snapshots(card.username)
    return played


@transaction.atomic
def add_registered(
    mysis_id: int, *, username: str, empire: str, found: Credentials, answer: str = ""
) -> ActiveAccount:
    """Store a new account of a Mysis, its password sealed, and play as it.

    Where the password was not found, the game's ``answer`` is kept instead, sealed too.
    Raises AccountRefusedError where the name is another Mysis's: nothing is overwritten.
    """
    name = (found.username or username)[:LONGEST_NAME]
    check_name(mysis_id, name)
    account = _find(name) or Account()
    account.username = name
    account.password = found.password
    account.registration_answer = "" if found.password else answer
    account.empire = empire[:LONGEST_EMPIRE]
    account.player_id = found.player_id[:LONGEST_NAME]
    # A name registered anew after a reset of the server is its new owner's.
    account.assigned_to_id = mysis_id
    account.save()
    played = _activate(mysis_id, ActiveAccount(account.pk, name), found.session)
    # The account's entry begins, empty: rows of that name are another life's.
    writes.begin_account(name)
    CreditChange.objects.create(username=name, mysis_id=mysis_id, at=timezone.now())
    return played


def _activate(mysis_id: int, card: ActiveAccount, session: str) -> ActiveAccount:
    _store_session(card.pk, session)
    Mysis.objects.filter(account=card.pk).exclude(pk=mysis_id).update(account=None)
    Mysis.objects.filter(pk=mysis_id).update(account=card.pk)
    return ActiveAccount(card.pk, card.username, session)


@transaction.atomic
def leave_account(mysis_id: int, card: ActiveAccount) -> None:
    """Play as nobody after a logout; the account's state is cleared at once."""
    _store_session(card.pk, "")
    Mysis.objects.filter(pk=mysis_id, account=card.pk).update(account=None)
    writes.log_out_account(card.username)
