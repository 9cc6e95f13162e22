"""register, login, logout and lost sessions, against the real sandbox."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from pytest_django import Settings

from agents.db import run_in_db
from agents.game import accounts
from agents.game.client import SecretMissingError
from agents.models import Account, Event, Mysis
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.request import Outcome
from memory.models import GameSnapshot
from sandbox.game.testing import SandboxServer
from tests.agents.game.faulty import FaultyServer, result, rpc_error
from tests.factories import make_account

SESSION = {"session_id": {"type": "string"}}


def _json(**values: Any) -> str:
    return json.dumps(values)


async def _register(box: Toolbox, name: str) -> Outcome:
    return await box.call("register", _json(username=name, empire="solarian"))


async def _playing(mysis: Mysis, name: str) -> Toolbox:
    box = await open_toolbox(mysis.pk)
    registered = await _register(box, name)
    assert not registered.is_error, registered.text
    return box


async def _free(sandbox: SandboxServer, mysis: Mysis, name: str) -> Account:
    """An account that the game knows and nobody owns."""
    await _playing(mysis, name)
    account = await Account.objects.aget(username=name)
    account.assigned_to = None
    account.game_session = ""
    await account.asave()
    mysis.account = None
    await mysis.asave()
    return account


async def test_the_model_is_shown_no_argument_that_is_filled_in(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    shown = {spec.name: spec.parameters for spec in box.specs}
    text = json.dumps(shown)
    for name in ("session_id", "password", "registration_code"):
        assert name not in text
    assert shown["login"]["required"] == ["username"]
    assert shown["register"]["required"] == ["username", "empire"]
    assert shown["get_status"]["properties"] == {}
    assert shown["travel"]["required"] == ["target_poi"]


async def test_register_with_an_empty_pool_goes_upstream(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    answer = json.loads((await _register(box, "Ada Nova")).text)
    assert answer["player"]["username"] == "Ada Nova"
    assert not {"password", "session_id"} & set(answer)
    account = await Account.objects.aget(assigned_to=mysis)
    assert len(account.password) == 64
    assert len(account.game_session) == 32
    assert (account.empire, account.username) == ("solarian", "Ada Nova")
    assert account.player_id == answer["player_id"]
    assert box.username == "Ada Nova"


async def test_a_refused_registration_leaves_nothing(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    refused = await box.call("register", _json(username="Ada Nova", empire="Solarian"))
    assert refused.is_error
    assert "invalid_empire" in refused.text
    assert not await Account.objects.aexists()
    assert box.username is None


async def test_a_name_of_another_is_refused_before_the_game_is_asked(
    sandbox: SandboxServer, mysis: Mysis, other: Mysis
) -> None:
    kept = await run_in_db(
        make_account, username="ada nova", password="hers", assigned_to=other
    )
    box = await open_toolbox(mysis.pk)
    refused = await _register(box, "Ada Nova")
    assert refused.is_error
    assert "belongs to another Mysis. Call register with another" in refused.text
    await kept.arefresh_from_db()
    assert (kept.password, kept.assigned_to_id) == ("hers", other.pk)
    assert not (await _register(box, "Ada Second")).is_error


async def test_a_second_register_names_login(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    box = await _playing(mysis, "Ada Nova")
    again = await _register(box, "Ada Second")
    assert again.is_error
    assert 'Call login with {"username": "Ada Nova"}' in again.text
    assert await Account.objects.acount() == 1


async def test_register_becomes_a_login_to_a_free_account(
    sandbox: SandboxServer, mysis: Mysis, other: Mysis
) -> None:
    await _free(sandbox, other, "Old Hand")
    box = await open_toolbox(mysis.pk)
    answer = json.loads((await _register(box, "Ada Nova")).text)
    assert answer["player"]["username"] == "Old Hand"
    assert "Old Hand" in answer["note"]
    assert await run_in_db(accounts.list_owned_names, mysis.pk) == ["Old Hand"]
    assert not (await box.call("get_ship", "{}")).is_error


async def test_a_free_account_with_a_wrong_password_is_passed_over(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    bad = await run_in_db(make_account, username="Bad", password="f" * 64)
    box = await _playing(mysis, "Ada Nova")
    assert box.username == "Ada Nova"
    await bad.arefresh_from_db()
    assert bad.assigned_to_id is None


async def test_many_registering_at_once_share_no_account(
    sandbox: SandboxServer, mysis: Mysis, other: Mysis
) -> None:
    await _free(sandbox, other, "Old Hand")
    boxes = [await open_toolbox(one.pk) for one in (mysis, other)]
    await asyncio.gather(
        _register(boxes[0], "Ada Nova"), _register(boxes[1], "Bob Nova")
    )
    names = {box.username for box in boxes}
    assert len(names) == 2
    assert "Old Hand" in names


async def test_login_switches_between_own_accounts_and_keeps_their_state(
    sandbox: SandboxServer, mysis: Mysis, other: Mysis
) -> None:
    second = await _free(sandbox, other, "Second")
    second.assigned_to = mysis
    await second.asave()
    box = await open_toolbox(mysis.pk)
    assert not (await box.call("login", _json(username="Second"))).is_error
    await box.call("get_ship", "{}")
    first = await _free(sandbox, other, "First")
    assert not (await box.call("login", _json(username="first"))).is_error
    assert box.username == "First"
    await mysis.arefresh_from_db()
    assert mysis.account_id == first.pk
    status = json.loads((await box.call("get_status", "")).text)
    assert status["player"]["username"] == "First"
    assert await GameSnapshot.objects.filter(username="Second").acount() == 1


async def test_login_to_what_is_not_ones_own_is_an_error_result(
    sandbox: SandboxServer, mysis: Mysis, other: Mysis
) -> None:
    await _playing(other, "Bob Nova")
    box = await open_toolbox(mysis.pk)
    taken = await box.call("login", _json(username="Bob Nova"))
    assert taken.is_error
    assert "belongs to another Mysis" in taken.text
    unknown = await box.call("login", _json(username="Nobody", password="guess"))
    assert unknown.is_error
    assert "Call register" in unknown.text
    missing = await box.call("login", "{}")
    assert "'username' is missing" in missing.text


async def test_an_account_whose_password_is_refused_is_said_so_and_stays_free(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    for name, password in (("Bad", "f" * 64), ("Keyless", "")):
        await run_in_db(make_account, username=name, password=password)
        box = await open_toolbox(mysis.pk)
        refused = await box.call("login", _json(username=name))
        assert refused.is_error
        assert f"{name}: an operator must set" in refused.text
        assert await run_in_db(accounts.list_owned_names, mysis.pk) == []


async def test_logout_after_the_session_was_lost_is_a_logout(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    box = await _playing(mysis, "Ada Nova")
    _end_game_sessions(sandbox)
    assert not (await box.call("logout", "{}")).is_error
    assert box.username is None


def _end_game_sessions(sandbox: SandboxServer) -> None:
    def end() -> None:
        for player in list(sandbox.game.state.players):
            for session in sandbox.game.state.sessions.of(player):
                sandbox.game.state.sessions.close(session.id)

    sandbox.run(end)


@pytest.mark.parametrize("tool", ["get_status", "undock"])
async def test_a_lost_game_session_is_replaced_in_code(
    sandbox: SandboxServer, mysis: Mysis, tool: str
) -> None:
    box = await _playing(mysis, "Ada Nova")
    before = (await Account.objects.aget()).game_session
    _end_game_sessions(sandbox)
    again = await box.call(tool, "{}")
    assert not again.is_error, again.text
    after = (await Account.objects.aget()).game_session
    assert after not in ("", before)
    called = Event.objects.filter(kind="tool.called").order_by("id")
    kinds = [e.data["tool"] async for e in called]
    assert kinds == ["register", tool]


async def test_another_process_uses_the_stored_session_without_a_login(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    await _playing(mysis, "Ada Nova")
    before = (await Account.objects.aget()).game_session
    box = await open_toolbox(mysis.pk)
    assert not (await box.call("get_ship", "{}")).is_error
    assert (await Account.objects.aget()).game_session == before


async def test_a_session_that_another_process_renewed_is_taken_over(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    mine = await _playing(mysis, "Ada Nova")
    theirs = await open_toolbox(mysis.pk)
    _end_game_sessions(sandbox)
    await theirs.call("get_ship", "{}")
    renewed = (await Account.objects.aget()).game_session
    assert not (await mine.call("get_ship", "{}")).is_error
    assert (await Account.objects.aget()).game_session == renewed


async def test_an_account_given_by_an_operator_is_logged_in_at_its_first_call(
    sandbox: SandboxServer, mysis: Mysis, other: Mysis
) -> None:
    account = await _free(sandbox, other, "Given")
    account.assigned_to = mysis
    await account.asave()
    mysis.account = account
    await mysis.asave()
    box = await open_toolbox(mysis.pk)
    assert box.username == "Given"
    assert not (await box.call("get_ship", "{}")).is_error


async def test_a_password_that_no_key_opens_is_not_answered_to_the_model(
    sandbox: SandboxServer, mysis: Mysis, settings: Settings
) -> None:
    await _playing(mysis, "Ada Nova")
    settings.ZOEA_KEYS = ["another key entirely"]
    box = await open_toolbox(mysis.pk)
    with pytest.raises(SecretMissingError, match="ZOEA_SECRET_KEY"):
        await box.call("get_ship", "{}")


async def test_an_action_refused_for_its_session_is_sent_once_more_and_no_more(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    faulty.tools = [
        {"name": "login", "inputSchema": {"type": "object"}},
        {"name": "mine", "inputSchema": {"properties": SESSION, "type": "object"}},
    ]
    account = await run_in_db(make_account, username="Ada", assigned_to=mysis)
    mysis.account = account
    await mysis.asave()
    lost = result("Error: session_invalid: Unauthorized — session lost", is_error=True)
    login = result(_json(message="Welcome", session_id="5" * 32))
    faulty.plan.extend([login, lost, login, lost])
    box = await open_toolbox(mysis.pk)
    refused = await box.call("mine", "{}")
    assert [name for name, _ in faulty.calls] == ["login", "mine", "login", "mine"]
    assert refused.is_error
    assert "session_invalid" in refused.text
    faulty.plan.extend([lost, login, result("mined")])
    assert (await box.call("mine", "{}")).text == "mined"


LOST = "Session not found or expired. Call login() again to get a new session_id."


async def test_a_lost_session_is_known_by_each_of_its_shapes(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    faulty.tools = [
        {"name": "login", "inputSchema": {"type": "object"}},
        {"name": "mine", "inputSchema": {"properties": SESSION, "type": "object"}},
    ]
    mysis.account = await run_in_db(make_account, username="Ada", assigned_to=mysis)
    await mysis.asave()
    login = result(_json(message="Welcome", session_id="5" * 32))
    faulty.plan.append(login)
    box = await open_toolbox(mysis.pk)
    for lost in (
        result("session_invalid", is_error=True),
        result("session_invalid"),
        result(f"session_invalid: {LOST}", is_error=True),
        result(f"session_invalid: {LOST}"),
        result("Error: session_invalid", is_error=True),
        result(LOST, is_error=True),
        result(f"Error: {LOST}", is_error=True),
        result("You must provide a session_id. Get one by calling login() or "
               "register() first.", is_error=True),
        result("not_authenticated: You must login first.", is_error=True),
        result('{"error": {"code": "session_invalid", "message": "Unauthorized"}}'),
        rpc_error(0, "session_invalid"),
        rpc_error(0, f"session_invalid: {LOST}"),
    ):  # fmt: skip
        faulty.plan.extend([lost, login, result("mined")])
        assert (await box.call("mine", "{}")).text == "mined"
    assert len(faulty.calls) == 1 + 3 * 12


async def test_the_registration_code_is_sent_where_it_is_wanted(
    faulty: FaultyServer, mysis: Mysis, settings: Settings
) -> None:
    settings.SPACEMOLT_REGISTRATION_CODE = "code-4711"
    code = {"registration_code": {"type": "string"}, "username": {"type": "string"}}
    faulty.tools = [
        {"name": "register", "inputSchema": {"type": "object", "properties": code}}
    ]
    text = f"Welcome! Session ID: {'5' * 32}\nPassword: {'a' * 64}\ncode-4711"
    faulty.plan.append(result(text))
    box = await open_toolbox(mysis.pk)
    given = _json(username="Ada Nova", registration_code="guessed")
    answer = await box.call("register", given)
    sent = {"username": "Ada Nova", "registration_code": "code-4711"}
    assert faulty.calls == [("register", sent)]
    for secret in ("5" * 16, "a" * 16, "code-4711"):
        assert secret not in answer.text
    account = await Account.objects.aget()
    assert (account.password, account.game_session) == ("a" * 64, "5" * 32)


async def test_no_secret_reaches_results_events_snapshots_or_logs(
    sandbox: SandboxServer, mysis: Mysis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    box = await open_toolbox(mysis.pk)
    texts = [(await _register(box, "Ada Nova")).text]
    account = await Account.objects.aget()
    secrets = {account.password, account.game_session}
    stolen = _json(session_id=account.game_session)
    steps = [("get_status", stolen), ("captains_log_add", _json(entry=str(secrets)))]
    steps += [("captains_log_list", ""), ("undock", ""), ("get_commands", "")]
    texts += [(await box.call(*step)).text for step in steps]
    _end_game_sessions(sandbox)
    steps = [("get_ship", ""), ("login", _json(username="Ada Nova")), ("logout", "")]
    for step in steps:
        texts.append((await box.call(*step)).text)
        await account.arefresh_from_db()
        secrets |= {account.game_session}
    secrets.discard("")
    assert len(secrets) == 4
    texts += [json.dumps(event.data) async for event in Event.objects.all()]
    texts += [row.content async for row in GameSnapshot.objects.all()]
    logged = [r.getMessage() for r in caplog.records if "sandbox" not in r.name]
    for secret in secrets:
        for text in (*texts, *logged):
            assert secret not in text
