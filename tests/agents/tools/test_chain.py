"""The whole chain against a real sandbox: playing, accounts, secrets."""

from __future__ import annotations

import json

from agents.game.sandbox.testing import SandboxServer
from agents.models import Account, Mysis
from agents.tools.chain import open_toolbox
from memory.models import GameSnapshot

REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})


async def test_plays_from_registration_to_mining(
    sandbox: SandboxServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    registered = await box.call("register", REGISTER)
    assert not registered.is_error, registered.text
    status = await box.call("get_status", "{}")
    assert not status.is_error, status.text
    assert json.loads(status.text)["player"]["username"] == "Ada Nova"
    row = await GameSnapshot.objects.aget(tool_name="get_status")
    assert row.username == "Ada Nova"
    undocked = await box.call("undock", "")
    assert json.loads(undocked.text)["queued"] is True
    await row.arefresh_from_db()
    assert row.stale_reason == "undock"
    account = await Account.objects.aget(username="Ada Nova")
    await mysis.arefresh_from_db()
    assert mysis.account_id == account.pk == account.pk
