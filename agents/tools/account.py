"""Who a Mysis is in the game: session ids, register, login, logout, re-login.

The model sees accounts by name only. What the game wants beside that is filled in
here and goes no further than the game.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings

from agents.db import run_in_db
from agents.encryption import SecretUnreadableError
from agents.game import accounts
from agents.game.accounts import AccountRefusedError, ActiveAccount
from agents.game.client import GameCallError, GameUnreachableError, ReplyLostError
from agents.game.sessions import pool
from agents.tools import unknown_outcomes
from agents.tools.request import CallNext, Outcome, Request, refusal

AUTH = frozenset({"register", "login", "logout"})
NOT_LOGGED_IN = "Not logged in. Use register or login."

_LOST_CODES = frozenset(
    {"session_invalid", "session_required", "session_expired", "not_authenticated"}
)
_BAD_LOGIN = frozenset({"auth_failed", "invalid_credentials"})


class _LoginRefusedError(Exception):
    """The login in code did not succeed; ``outcome`` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.text)
        self.outcome = outcome


async def account(request: Request, call_next: CallNext) -> Outcome:
    """Fill in what the game wants to know of the account, and keep its secrets."""
    steps = {"register": _register, "login": _login, "logout": _logout}
    step = steps.get(request.name)
    if step is None:
        return await _play(request, call_next)
    async with pool().lock(request.seat.mysis_id):
        return await step(request, call_next)


# -- playing ---------------------------------------------------------------


async def _play(request: Request, call_next: CallNext) -> Outcome:
    """Call with the session id; when the session is lost, log in and call once more.

    The refused call was not executed, so that is right for actions too.
    """
    tool, card = request.tool, request.seat.card
    if tool is None or "session_id" not in tool.wants:
        return await call_next(_filled(request))
    if card is None:
        if "session_id" in tool.needs:
            return refusal("not_authenticated", NOT_LOGGED_IN)
        return await call_next(_filled(request))
    try:
        session = card.session or await _log_in_again(request, call_next, "")
        outcome = await call_next(_filled(request, session_id=session))
        if not session_lost(outcome):
            return outcome
        session = await _log_in_again(request, call_next, session)
    except _LoginRefusedError as error:
        return error.outcome
    return await call_next(_filled(request, session_id=session))


def session_lost(outcome: Outcome) -> bool:
    """Whether the game refused a call because it knows no such session (1.6)."""
    error = outcome.read().error if outcome.is_error else None
    if error is None:
        return False
    return error.code in _LOST_CODES or error.message.startswith("Unauthorized")


async def _log_in_again(request: Request, call_next: CallNext, failed: str) -> str:
    """A game session that works: another process's newer one, else a new login."""
    seat = request.seat
    async with pool().lock(seat.mysis_id):
        card = seat.card
        if card is None:
            raise _LoginRefusedError(refusal("not_authenticated", NOT_LOGGED_IN))
        newest = await run_in_db(accounts.session_of, card.pk)
        if newest and newest != failed:
            seat.card = replace(card, session=newest)
            seat.secrets.add(newest)
            return newest
        try:
            outcome = await _log_in(request, call_next, card)
        except ReplyLostError as error:
            # Only the login was lost: the call itself was not executed.
            raise GameUnreachableError(error.detail) from error
    if outcome.is_error:
        raise _LoginRefusedError(outcome)
    return seat.card.session if seat.card else ""


# -- register, login, logout -----------------------------------------------


async def _register(request: Request, call_next: CallNext) -> Outcome:
    """A free account if there is one, else a new one upstream; never a second."""
    seat = request.seat
    names = await run_in_db(accounts.owned, seat.mysis_id)
    if names:
        return refusal(
            "already_registered",
            f"You own the account {names[0]} already. "
            f'Call login with {{"username": {json.dumps(names[0])}}}.',
        )
    passed: list[int] = []
    while True:
        card = await run_in_db(
            accounts.claim_free,
            seat.mysis_id,
            username=_argument(request, "username"),
            empire=_argument(request, "empire"),
            passed=tuple(passed),
        )
        if card is None:
            # A turn that is stopped now must not lose the only password there is.
            work = asyncio.ensure_future(_register_upstream(request, call_next))
            return await asyncio.shield(work)
        outcome = await _log_in_or_release(request, call_next, card)
        if not outcome.is_error or not _login_impossible(outcome):
            return _noted(outcome, card.username)
        passed.append(card.pk)


async def _register_upstream(request: Request, call_next: CallNext) -> Outcome:
    seat, wanted = request.seat, _argument(request, "username")
    try:
        await run_in_db(accounts.check_name, seat.mysis_id, wanted)
        return await _register_anew(request, call_next)
    except AccountRefusedError as error:
        return refusal("account_refused", str(error))


async def _register_anew(request: Request, call_next: CallNext) -> Outcome:
    seat = request.seat
    outcome = await call_next(_filled(request))
    if outcome.is_error:
        return outcome
    found = accounts.credentials(outcome.blocks)
    seat.secrets.update({found.password, found.session})
    seat.card = await run_in_db(
        accounts.add_registered,
        seat.mysis_id,
        username=_argument(request, "username"),
        empire=_argument(request, "empire"),
        found=found,
    )
    return outcome


async def _login(request: Request, call_next: CallNext) -> Outcome:
    """Switch to the Mysis's own account, or to a free one, by its name."""
    try:
        card, fresh = await run_in_db(
            accounts.take, request.seat.mysis_id, _argument(request, "username")
        )
    except AccountRefusedError as error:
        return refusal("account_refused", str(error))
    if fresh:
        return await _log_in_or_release(request, call_next, card)
    return await _log_in(request, call_next, card)


async def _log_in_or_release(
    request: Request, call_next: CallNext, card: ActiveAccount
) -> Outcome:
    """Log in to an account claimed just now; it stays free if that fails."""
    try:
        outcome = await _log_in(request, call_next, card)
    except GameCallError:
        await run_in_db(accounts.release, request.seat.mysis_id, card.pk)
        raise
    if outcome.is_error:
        await run_in_db(accounts.release, request.seat.mysis_id, card.pk)
    return outcome


async def _log_in(
    request: Request, call_next: CallNext, card: ActiveAccount
) -> Outcome:
    """Log in with the stored password and play as the account from now on."""
    seat = request.seat
    try:
        password = await run_in_db(accounts.password_of, card.pk)
    except SecretUnreadableError as error:
        return refusal("no_password", str(error))
    if not password:
        return refusal(
            "no_password",
            f"No password is stored for {card.username}: an operator must set it.",
        )
    seat.secrets.add(password)
    given = {"username": card.username, "password": password}
    outcome = await call_next(replace(request, name="login", arguments=given))
    if outcome.is_error:
        return _explained(outcome, card.username)
    session = accounts.credentials(outcome.blocks).session
    seat.secrets.add(session)
    seat.card = await run_in_db(unknown_outcomes.play_as, seat.mysis_id, card, session)
    return outcome


async def _logout(request: Request, call_next: CallNext) -> Outcome:
    """End the game session; the account's state is forgotten at once (A19)."""
    seat = request.seat
    if seat.card is None:
        return refusal("not_authenticated", NOT_LOGGED_IN)
    outcome = Outcome(('{"message": "Logged out."}',))
    if seat.card.session:
        answer = await call_next(_filled(request, session_id=seat.card.session))
        if answer.is_error and not session_lost(answer):
            return answer
        outcome = outcome if answer.is_error else answer
    await run_in_db(accounts.leave, seat.mysis_id, seat.card)
    seat.card = None
    return outcome


# -- words and arguments ---------------------------------------------------


def _filled(request: Request, **known: str) -> Request:
    """The request with what the server wants and only we know."""
    tool = request.tool
    if tool is not None and "registration_code" in tool.wants:
        known["registration_code"] = settings.SPACEMOLT_REGISTRATION_CODE
    given = {name: value for name, value in known.items() if value}
    return replace(request, arguments={**request.arguments, **given})


def _argument(request: Request, name: str) -> str:
    value = request.arguments.get(name, "")
    return value if isinstance(value, str) else ""


def _login_impossible(outcome: Outcome) -> bool:
    """Whether no login to that account can succeed, so that another is tried."""
    error = outcome.read().error
    return error is not None and error.code in {*_BAD_LOGIN, "no_password"}


def _explained(outcome: Outcome, username: str) -> Outcome:
    error = outcome.read().error
    if error is None or error.code not in _BAD_LOGIN:
        return outcome
    return refusal(
        error.code,
        f"The game refuses the stored password of {username}: an operator must "
        "set the right one.",
    )


def _noted(outcome: Outcome, username: str) -> Outcome:
    """Tell a Mysis that registered which existing account it plays now."""
    if outcome.is_error:
        return outcome
    note = f"You were given the existing account {username}. Use this name to log in."
    first, *rest = outcome.blocks
    value = _object(first)
    if value is None:
        return replace(outcome, blocks=(note, first, *rest))
    text = json.dumps({"note": note, **value}, ensure_ascii=False, indent=2)
    return replace(outcome, blocks=(text, *rest))


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
