"""The password that a registration brings is there once: it is never lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from agents.db import run_in_db
from agents.models import Account, Event, Mysis
from agents.tools.chain import open_toolbox
from tests.agents.game.faulty import FaultyServer, rpc
from tests.agents.tools.test_grouped_tools import CORE

AUTH = {
    "name": "spacemolt_auth",
    "inputSchema": {
        "type": "object",
        "properties": {
            "action": {"type": "string"},
            "username": {"type": "string"},
            "empire": {"type": "string"},
        },
        "required": ["action"],
    },
}
WELCOME = {"type": "text", "text": "Welcome aboard, Ada! Your account was created."}
PASSWORD, SESSION = "a1b2" * 16, "0f" * 16


async def register(mysis: Mysis, settings: Settings, answer: dict[str, Any]) -> str:
    async with FaultyServer(CORE, AUTH) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        box = await open_toolbox(mysis.pk)
        server.plan.append(rpc({"result": answer}))
        asked = {"action": "register", "username": "Ada", "empire": "solarian"}
        return (await box.call("spacemolt_auth", json.dumps(asked))).text


async def test_it_is_read_in_the_values_beside_a_text(
    mysis: Mysis, settings: Settings
) -> None:
    values = {
        "player": {"username": "Ada"},
        "password": PASSWORD,
        "session_id": SESSION,
    }
    said = await register(
        mysis, settings, {"content": [WELCOME], "structuredContent": values}
    )
    assert PASSWORD not in said
    account = await Account.objects.aget()
    assert (account.password, account.game_session) == (PASSWORD, SESSION)
    assert account.sealed_answer == ""
    assert not await Event.objects.filter(kind="error").aexists()


async def test_an_answer_without_one_is_kept_encrypted_and_told(
    mysis: Mysis, settings: Settings
) -> None:
    odd = {"type": "text", "text": "Your pass phrase: correct horse battery"}
    await register(mysis, settings, {"content": [odd]})
    account = await Account.objects.aget()
    assert account.password == ""
    assert "horse" not in account.sealed_answer
    assert account.registration_answer == odd["text"]
    event = await Event.objects.aget(kind="error")
    assert "registering Ada" in event.data["detail"]
    assert "the page of this account" in event.data["detail"]
    await run_in_db(_look_it_up, account)


def _look_it_up(account: Account) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    page = reverse("admin:agents_account_change", args=[account.pk])
    assert "correct horse battery" in client.get(page).content.decode()
    given = {"username": "Ada", "new_password": "correct horse battery"}
    assert client.post(page, given).status_code == 302
    assert "correct horse battery" not in client.get(page).content.decode()
    account.refresh_from_db()
    assert (account.password, account.sealed_answer) == ("correct horse battery", "")


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_who_may_change_an_account_reads_the_answer(
    db: None, sign_in: Any, role: str
) -> None:
    account = Account(username="Ada")
    account.registration_answer = "correct horse"
    account.save()
    page = reverse("admin:agents_account_change", args=[account.pk])
    assert "correct horse" not in sign_in(role).get(page, follow=True).content.decode()
