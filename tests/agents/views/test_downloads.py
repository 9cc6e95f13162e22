"""Logs as files, streamed and without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from agents.models import ToolPolicy
from agents.views import logs
from memory.transfer import in_out
from tests.factories import make_memory, make_mysis, make_turn

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "token: abcdefghijklmnopqrstuvwxyz012345"


def read(answer: Any) -> tuple[list[bytes], str]:
    """The pieces as they are sent, and all of them as a text."""

    async def collect() -> list[bytes]:
        return [piece async for piece in answer]

    assert answer.is_async
    pieces = async_to_sync(collect)()
    return pieces, b"".join(pieces).decode()


@pytest.fixture
def log() -> dict[str, Any]:
    """A log with a turn, a secret tool's call and a text with a token."""
    mysis = make_mysis(name="Ada")
    turn = make_turn(mysis)
    make_memory(mysis, content=f"Sell it. {TOKEN}")
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "vault", "arguments": '{"code": "vault-4711x"}'},
    }
    make_memory(
        mysis, role="assistant", turn=turn, content="I open it.", tool_calls=[call],
        reasoning="Why not?",
    )  # fmt: skip
    make_memory(
        mysis, role="tool", turn=turn, tool_name="vault", tool_call_id="c1",
        content="It has ``` vault-4711x", args={"code": "vault-4711x"},
    )  # fmt: skip
    ToolPolicy.objects.create(tool="vault", policy="secret")
    return {"mysis": mysis, "turn": turn}


@pytest.mark.parametrize("form", in_out.FORMATS)
def test_a_viewer_reads_a_log_as_a_file_without_secrets(
    sign_in: Callable[..., Client], log: dict[str, Any], form: str
):
    viewer = sign_in("viewer")
    answer = viewer.get(f"/myses/Ada/download/?format={form}")
    ending = logs.KINDS[form][0]
    assert answer["Content-Disposition"] == f'attachment; filename="Ada.{ending}"'
    _, text = read(answer)
    assert "vault-4711x" not in text
    assert TOKEN not in text
    assert "I open it." in text
    address = f"/turns/{log['turn'].pk}/download/?format={form}"
    answer = viewer.get(address)
    assert f'filename="Ada turn 1.{ending}"' in answer["Content-Disposition"]
    _, text = read(answer)
    assert "I open it." in text
    assert "Sell it." not in text


def test_each_form_can_be_read_again(admin: Client, log: dict[str, Any]):
    _, text = read(admin.get("/myses/Ada/download/"))
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant", "tool"]
    assert lines[2]["args"] == {}
    _, text = read(admin.get("/myses/Ada/download/?format=openai"))
    roles = [message["role"] for message in json.loads(text)["messages"]]
    assert roles == ["user", "assistant", "tool"]
    _, text = read(admin.get("/myses/Ada/download/?format=markdown"))
    assert "## tool: vault" in text
    assert "> Why not?" in text


def test_a_long_log_is_sent_piece_by_piece(
    admin: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logs, "AT_ONCE", 1_500)
    monkeypatch.setattr(in_out, "CHUNK", 2)
    mysis = make_mysis(name="Ada")
    for number in range(5):
        make_memory(mysis, content=f"order {number}: " + "fly " * 200)
    # As a browser asks, which reads one gzip file and no second.
    packed = {"Accept-Encoding": "gzip"}
    pieces, text = read(admin.get("/myses/Ada/download/", headers=packed))
    assert [piece.count(b"\n") for piece in pieces] == [2, 2, 1]
    assert text.count("order") == 5


def test_what_is_not_there_is_not_found(admin: Client, log: dict[str, Any]):
    for address in (
        "/myses/Ada/download/?format=exe",
        "/myses/Nobody/download/",
        "/turns/999999/download/",
    ):
        assert admin.get(address).status_code == 404
    assert Client().get("/myses/Ada/download/").status_code == 302
