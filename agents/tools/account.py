"""The account step: session ids, register, login, logout, and login when a session is lost.

The model sees names of accounts; what else the game wants is filled in here, for it alone.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from django.conf import settings
from django.db import transaction

from agents import events
from agents.db import run_in_db
from agents.game import accounts
from agents.game.accounts import AccountRefusedError, ActiveAccount, Credentials
from agents.game.client import GameCallError, GameUnreachableError, ReplyLostError
from agents.game.sessions import get_pool
from agents.tools import unknown_outcomes
from agents.tools.request import (
    CallNext,
    Outcome,
    Request,
    make_refusal,
    route_command,
)
from memory.game_calls import Route
from memory.gamestate.extract import SESSION_CODES
from memory.gamestate.values import parse_text

AUTH = frozenset({"register", "login", "logout"})
NOT_LOGGED_IN = "Not logged in. Use register or login."
ANSWER_KEPT = (
    "No password was found in the game's answer to registering {}. The answer is kept, "
    "encrypted: an admin finds it on the page of this account, and sets the password there."
)

# Its words for that where it gives no code, as recorded (API.md 1.6).
_LOST_WORDS = (
    "Unauthorized",
    "Session not found or expired",
    "You must provide a session_id",
    "You must login first",
)

_BAD_LOGIN = frozenset({"auth_failed", "invalid_credentials"})


class _LoginRefusedError(Exception):
    """A login by the program was refused; ``outcome`` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.text)
        self.outcome = outcome


async def use_account(request: Request, call_next: CallNext) -> Outcome:
    """Fill in what the game wants to know of the account, and keep its secrets."""
    steps = {"register": _register, "login": _login, "logout": _logout}
    step = steps.get(request.command.name)
    if step is None:
        return await _call_with_session(request, call_next)
    async with get_pool().lock(request.caller.mysis_id):
        return await step(request, call_next)


async def _call_with_session(request: Request, call_next: CallNext) -> Outcome:
    """Call with the session id; if it is lost, so not executed, log in and call again."""
    tool, card = request.tool, request.caller.card
    if tool is None or "session_id" not in (tool.wants if card else tool.needs):
        return await call_next(_filled(request))
    if card is None:
        return make_refusal("not_authenticated", NOT_LOGGED_IN)
    try:
        session = card.session or await _log_in_again(request, call_next, "")
        outcome = await call_next(_filled(request, session_id=session))
        if not _is_session_lost(outcome):
            return outcome
        session = await _log_in_again(request, call_next, session)
    except _LoginRefusedError as error:
        return error.outcome
    return await call_next(_filled(request, session_id=session))


def _is_session_lost(outcome: Outcome) -> bool:
    """Whether the game refused a call because it knows no such session (1.6)."""
    error = outcome.read().error if outcome.is_error else None
    if error is None:
        return False
    return error.code in SESSION_CODES or error.message.startswith(_LOST_WORDS)


async def _log_in_again(request: Request, call_next: CallNext, failed: str) -> str:
    """A game session that works: another process's newer one, else a new login."""
    caller = request.caller
    async with get_pool().lock(caller.mysis_id):
        card = caller.card
        if card is None:
            raise _LoginRefusedError(make_refusal("not_authenticated", NOT_LOGGED_IN))
        newest = await run_in_db(accounts.load_session, card.pk)
        if newest and newest != failed:
            caller.card = replace(card, session=newest)
            caller.secrets.add(newest)
            return newest
        try:
            outcome = await _log_in(request, call_next, card)
        except ReplyLostError as error:
            # Only the login was lost: the call itself was not executed.
            raise GameUnreachableError(error.detail) from error
    if outcome.is_error:
        raise _LoginRefusedError(outcome)
    return caller.card.session if caller.card else ""


async def _register(request: Request, call_next: CallNext) -> Outcome:
    """A free account if there is one, else a new one upstream; never a second."""
    caller = request.caller
    names = await run_in_db(accounts.list_owned_names, caller.mysis_id)
    if names:
        return make_refusal(
            "already_registered",
            f"You own the account {names[0]} already. "
            f'Call login with {{"username": {json.dumps(names[0])}}}.',
        )
    passed: list[int] = []
    wanted = {name: _argument(request, name) for name in ("username", "empire")}
    while True:
        card = await run_in_db(
            accounts.claim_free, caller.mysis_id, **wanted, passed=passed
        )
        if card is None:
            # A turn that is stopped now must not lose the only password there is.
            work = asyncio.ensure_future(_register_upstream(request, call_next))
            return await asyncio.shield(work)
        outcome = await _log_in_or_release(request, call_next, card)
        error = outcome.read().error if outcome.is_error else None
        # Where no login to that account can succeed, another is tried.
        if error is None or error.code not in {*_BAD_LOGIN, "no_password"}:
            return _with_note(outcome, card.username)
        passed.append(card.pk)


async def _register_upstream(request: Request, call_next: CallNext) -> Outcome:
    caller, username = request.caller, _argument(request, "username")
    try:
        await run_in_db(accounts.check_name, caller.mysis_id, username)
        outcome = await call_next(_filled(request))
        if outcome.is_error:
            return outcome
        found = accounts.read_credentials(_list_texts(outcome))
        caller.secrets.update({found.password, found.session})
        caller.card = await run_in_db(_keep_registered, request, outcome, found)
    except AccountRefusedError as error:
        return make_refusal("account_refused", str(error))
    return outcome


@transaction.atomic
def _keep_registered(
    request: Request, outcome: Outcome, found: Credentials
) -> ActiveAccount:
    """Store the new account; without a password in it, the answer, and say where."""
    mysis_id = request.caller.mysis_id
    card = accounts.add_registered(
        mysis_id,
        username=_argument(request, "username"),
        empire=_argument(request, "empire"),
        found=found,
        answer="\n".join(_list_texts(outcome)),
    )
    if not found.password:
        events.append_error(mysis_id, ANSWER_KEPT.format(card.username))
    return card


def _list_texts(outcome: Outcome) -> list[str]:
    """The texts of an answer; first its values, which need no guessing."""
    values = [json.dumps(dict(outcome.structured))] if outcome.structured else []
    return [*values, *outcome.blocks]


async def _login(request: Request, call_next: CallNext) -> Outcome:
    """Switch to the Mysis's own account, or to a free one, by its name."""
    try:
        card, fresh = await run_in_db(
            accounts.take_account,
            request.caller.mysis_id,
            _argument(request, "username"),
        )
    except AccountRefusedError as error:
        return make_refusal("account_refused", str(error))
    log_in = _log_in_or_release if fresh else _log_in
    return await log_in(request, call_next, card)


async def _log_in_or_release(
    request: Request, call_next: CallNext, card: ActiveAccount
) -> Outcome:
    """Log in to an account claimed just now; it stays free if that fails."""
    try:
        outcome = await _log_in(request, call_next, card)
    except GameCallError:
        await run_in_db(accounts.release_claim, request.caller.mysis_id, card.pk)
        raise
    if outcome.is_error:
        await run_in_db(accounts.release_claim, request.caller.mysis_id, card.pk)
    return outcome


async def _log_in(
    request: Request, call_next: CallNext, card: ActiveAccount
) -> Outcome:
    caller = request.caller
    password = await run_in_db(accounts.load_password, card.pk)
    if not password:
        return make_refusal(
            "no_password",
            f"No password is stored for {card.username}: an operator must set it.",
        )
    caller.secrets.add(password)
    given = {"username": card.username, "password": password}
    route = route_command("login", caller.tools) or Route("login")
    given = {**route.arguments, **given}
    outcome = await call_next(replace(request, name=route.tool, arguments=given))
    if outcome.is_error:
        return _explain_refusal(outcome, card.username)
    session = accounts.read_credentials(_list_texts(outcome)).session
    caller.secrets.add(session)
    caller.card = await run_in_db(
        unknown_outcomes.play_as, caller.mysis_id, card, session
    )
    return outcome


async def _logout(request: Request, call_next: CallNext) -> Outcome:
    """End the game session; the account's state is forgotten at once (A19)."""
    caller = request.caller
    if caller.card is None:
        return make_refusal("not_authenticated", NOT_LOGGED_IN)
    outcome = Outcome(('{"message": "Logged out."}',))
    if caller.card.session:
        answer = await call_next(_filled(request, session_id=caller.card.session))
        if not answer.is_error:
            outcome = answer
        elif not _is_session_lost(answer):
            return answer
    await run_in_db(accounts.leave_account, caller.mysis_id, caller.card)
    caller.card = None
    return outcome


def _filled(request: Request, **known: str) -> Request:
    tool = request.tool
    if tool is not None and "registration_code" in tool.wants:
        known["registration_code"] = settings.SPACEMOLT_REGISTRATION_CODE
    given = {name: value for name, value in known.items() if value}
    return replace(request, arguments={**request.arguments, **given})


def _argument(request: Request, name: str) -> str:
    value = request.arguments.get(name, "")
    return value if isinstance(value, str) else ""


def _explain_refusal(outcome: Outcome, username: str) -> Outcome:
    error = outcome.read().error
    if error is None or error.code not in _BAD_LOGIN:
        return outcome
    return make_refusal(
        error.code,
        f"The game refuses the stored password of {username}: an operator must "
        "set the right one.",
    )


def _with_note(outcome: Outcome, username: str) -> Outcome:
    if outcome.is_error:
        return outcome
    note = f"You were given the existing account {username}. Use this name to log in."
    first, *rest = outcome.blocks
    value = parse_text(first)
    if not isinstance(value, dict):
        return replace(outcome, blocks=(note, first, *rest))
    text = json.dumps({"note": note, **value}, ensure_ascii=False, indent=2)
    return replace(outcome, blocks=(text, *rest))
