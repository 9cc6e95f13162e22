"""POST /myses/{id}/command: the operator at the helm, against the real sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone
from psycopg_pool import PoolTimeout
from pytest_django import Settings

from agents import actions, manual_command
from agents.context_inputs import preview_context
from agents.models import Event, Mysis, ToolCatalogue, Turn
from agents.runtime import turn_rows
from agents.runtime.finish import Ending, finish_turn
from agents.statements import LONGEST_COMMAND
from agents.tools.chain import Toolbox
from agents.tools.request import INTERRUPTED, Outcome
from agents.views.by_hand import MOST, CommandForm
from memory.assembly import log_rows
from memory.context.types import Described
from memory.models import AuditEntry, GameSnapshot, Memory
from sandbox.game.testing import SandboxServer
from tests.factories import make_memory, make_mysis, make_turn
from tests.programs import Program
from tests.statements import record_statements
from zoea.models import IdempotencyRecord

pytestmark = pytest.mark.django_db(transaction=True)
REGISTER = {
    "tool": "register",
    "arguments": {"username": "AdaPilot", "empire": "solarian"},
}


@pytest.fixture
def sandbox(settings: Settings) -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        settings.SPACEMOLT_MCP_URL = server.url
        yield server


@pytest.fixture
def ada() -> Mysis:
    return make_mysis(name="Ada")


def command(by: Program, tool: str, **arguments: Any) -> Any:
    body = {"tool": tool, "arguments": arguments}
    return by.post("/myses/Ada/command", body)


def flying(by: Program) -> None:
    assert by.post("/myses/Ada/command", REGISTER).status_code == 200


def test_a_tool_is_run_and_recorded_as_the_operator_s(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    flying(operator_program)
    answer = command(operator_program, "get_status")
    assert answer.status_code == 200
    item = answer.json()
    assert (item["role"], item["tool_name"], item["is_error"]) == (
        "tool",
        "get_status",
        False,
    )
    assert json.loads(item["content"])["player"]["username"] == "AdaPilot"
    assert item["sender"] == "token:test operator"
    speech, result = ada.memories.order_by("-pk")[:2][::-1]
    assert speech.content == "(Run by hand by token:test operator.)"
    assert (speech.role, speech.origin) == ("assistant", "agent")
    assert result.pk == item["id"]
    assert speech.tool_calls[0]["id"] == result.tool_call_id
    called = Event.objects.filter(kind="tool.called").order_by("-pk")[0]
    assert called.data["by"] == "token:test operator"
    assert called.data["tool"] == "get_status"
    assert GameSnapshot.objects.filter(tool_name="get_status").exists()
    ada.refresh_from_db()
    assert ada.state == "idle"


def test_the_mysis_sees_what_was_done(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    make_memory(ada, content="go")
    flying(operator_program)
    command(operator_program, "get_version")
    shown = preview_context(Mysis.objects.get(pk=ada.pk)).assembly.messages
    text = json.dumps(shown)
    assert "(Run by hand by token:test operator.)" in text
    # An order is somebody's words, never a call that was made by hand.
    intent = log_rows.read_newest_order(ada.pk)
    assert intent is not None
    assert intent.content == "go"


def test_no_password_or_session_is_told(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    flying(operator_program)
    command(operator_program, "login", username="AdaPilot", password="guess-guess")
    kept = json.dumps(list(ada.memories.values("content", "args", "tool_calls")))
    kept += json.dumps(list(Event.objects.values_list("data", flat=True)))
    assert ada.accounts.get().password not in kept
    assert "guess-guess" not in kept


def test_an_error_of_the_game_is_a_result(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    answer = command(operator_program, "get_status")
    assert answer.status_code == 200
    assert answer.json()["is_error"] is True


def test_a_bad_command_is_422_and_leaves_no_trace(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    for body, says in (
        ({"tool": "dance"}, "no tool 'dance'"),
        ({"tool": "zoea_recall", "arguments": {"handle": "x"}}, "no tool"),
        ({"tool": "travel", "arguments": {}}, "is missing"),
        ({"tool": "get_status", "arguments": {"colour": 1}}, "colour"),
        ({"tool": "get_status", "arguments": [1]}, "arguments"),
        ({"arguments": {}}, "tool"),
        ({"tool": "get_status", "speed": 1}, "speed"),
    ):
        answer = operator_program.post("/myses/Ada/command", body)
        assert answer.status_code == 422
        assert says in answer.json()["detail"]
    assert not Memory.objects.exists()


def test_roles_and_strangers(sandbox: SandboxServer, ada: Mysis) -> None:
    assert command(Program("viewer"), "get_version").status_code == 403
    found = Program("operator").post("/myses/Bob/command", {"tool": "get_version"})
    assert found.status_code == 404


def test_no_game_is_503_and_leaves_no_trace(
    settings: Settings, ada: Mysis, operator_program: Program
) -> None:
    settings.SPACEMOLT_MCP_URL = "http://127.0.0.1:9/mcp"
    answer = command(operator_program, "get_status")
    assert answer.status_code == 503
    assert answer.json()["code"] == "game_unreachable"
    assert not Memory.objects.exists()


def test_in_the_middle_of_a_turn_the_account_stays(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    make_turn(ada)
    answer = operator_program.post("/myses/Ada/command", REGISTER)
    assert answer.status_code == 409
    assert "stop it first" in answer.json()["detail"]
    assert command(operator_program, "get_version").status_code == 200


def test_one_command_at_a_time(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    waiting = make_memory(ada, role="tool", pending=True, content="")
    answer = command(operator_program, "get_version")
    assert (answer.status_code, answer.json()["code"]) == (409, "busy")
    long_ago = timezone.now() - LONGEST_COMMAND - timedelta(seconds=1)
    Memory.objects.filter(pk=waiting.pk).update(created_at=long_ago)
    assert command(operator_program, "get_version").status_code == 200
    waiting.refresh_from_db()
    assert (waiting.pending, waiting.is_error) == (False, True)
    assert "outcome unknown" in waiting.content


def test_a_stopped_mysis_can_be_flown_by_hand(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    actions.stop_mysis(mysis=ada, by="test")
    assert command(operator_program, "get_version").status_code == 200
    ada.refresh_from_db()
    assert ada.state == "stopped"


KEY = {"Idempotency-Key": "4711"}
GET_VERSION = {"tool": "get_version"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("the process runs out of memory"), 500),
        (PoolTimeout("couldn't get a connection after 20 s"), 503),
    ],
)
def test_a_command_that_broke_off_is_never_run_again_under_its_key(
    sandbox: SandboxServer,
    ada: Mysis,
    operator_program: Program,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
) -> None:
    async def broken(self: Toolbox, *_: str, **__: object) -> Outcome:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Toolbox, "call", broken)
        failed = operator_program.post("/myses/Ada/command", GET_VERSION, **KEY)
        assert failed.status_code == status
    again = operator_program.post("/myses/Ada/command", GET_VERSION, **KEY)
    assert again.status_code == 409
    assert again.json()["code"] == "idempotency_outcome_unknown"
    assert ada.memories.filter(role="tool").count() == 1


def test_the_key_of_a_killed_process_s_command_stays_taken(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    """While it may run, and after that: nobody knows what became of it."""
    operator_program.post("/myses/Ada/command", GET_VERSION, **KEY)
    record = IdempotencyRecord.objects.filter(key="4711")
    for age, code in (
        (timedelta(minutes=14), "idempotency_in_progress"),
        (timedelta(hours=23), "idempotency_outcome_unknown"),
    ):
        record.update(status=None, body="", created_at=timezone.now() - age)
        again = operator_program.post("/myses/Ada/command", GET_VERSION, **KEY)
        assert (again.status_code, again.json()["code"]) == (409, code)
    assert ada.memories.filter(role="tool").count() == 1


def test_a_result_counts_also_after_it_was_given_up(ada: Mysis) -> None:
    row = make_memory(ada, role="tool", content=INTERRUPTED, is_error=True)
    manual_command._end(row.pk, Outcome(("docked",), is_error=False))
    row.refresh_from_db()
    assert (row.content, row.is_error) == ("docked", False)


def test_the_end_of_a_turn_leaves_a_command_that_still_runs(ada: Mysis) -> None:
    actions.start_mysis(mysis=ada, by="x")
    ada.refresh_from_db()
    begun = turn_rows.begin_turn(ada.pk, job_id=ada.next_job or 0, trigger="start")
    assert begun is not None
    row = make_memory(ada, role="tool", pending=True, content="")
    old = make_memory(ada, role="tool", pending=True, content="")
    long_ago = timezone.now() - LONGEST_COMMAND - timedelta(seconds=1)
    Memory.objects.filter(pk=old.pk).update(created_at=long_ago)
    finish_turn(begun, Ending(Turn.Outcome.DONE), 0)
    row.refresh_from_db()
    old.refresh_from_db()
    assert (row.pending, old.pending, old.content) == (True, False, INTERRUPTED)


def test_a_result_locks_the_mysis_before_its_row_as_a_turn_does(ada: Mysis) -> None:
    row = make_memory(ada, role="tool", pending=True, content="")
    for end in (
        lambda: manual_command._end(row.pk, Outcome(("docked",), is_error=False)),
        lambda: manual_command._interrupt(row.pk),
    ):
        with record_statements() as asked:
            end()
        writing = [
            sql for sql in asked if "FOR UPDATE" in sql or sql.startswith("UPDATE")
        ]
        assert 'FROM "agents_mysis"' in writing[0]


def test_a_result_of_a_mysis_that_is_deleted_meanwhile_has_no_place(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = make_memory(ada, role="tool", pending=True, content="")
    look = manual_command._locked

    def deleted_before(mysis_id: int) -> bool:
        ada.delete()
        return look(mysis_id)

    monkeypatch.setattr(manual_command, "_locked", deleted_before)
    manual_command._end(row.pk, Outcome(("docked",), is_error=False))
    assert not Memory.objects.filter(pk=row.pk).exists()


def doubts() -> dict[str, str]:
    rows = GameSnapshot.objects.values_list("tool_name", "stale_reason")
    return dict(rows)


def test_what_a_command_given_up_may_have_changed_is_in_doubt(
    sandbox: SandboxServer, ada: Mysis, operator_program: Program
) -> None:
    flying(operator_program)
    command(operator_program, "get_status")
    command(operator_program, "get_cargo")
    row = make_memory(ada, role="tool", pending=True, content="", tool_name="undock")
    long_ago = timezone.now() - LONGEST_COMMAND - timedelta(seconds=1)
    Memory.objects.filter(pk=row.pk).update(created_at=long_ago)
    assert command(operator_program, "get_version").status_code == 200
    assert (doubts()["get_status"], doubts()["get_cargo"]) == ("undock", "")
    assert Event.objects.filter(kind="snapshot.stale").exists()


@pytest.mark.parametrize(
    ("tool", "reason"), [("undock", "undock"), ("get_notifications", "lost events")]
)
def test_a_command_that_breaks_off_leaves_a_doubt(
    sandbox: SandboxServer,
    ada: Mysis,
    operator_program: Program,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    reason: str,
) -> None:
    flying(operator_program)
    command(operator_program, "get_status")

    async def break_off(*_: Any, **__: Any) -> Outcome:
        raise ConnectionResetError

    monkeypatch.setattr(Toolbox, "call", break_off)
    with pytest.raises(ConnectionResetError):
        manual_command.run_command(
            mysis=Mysis.objects.get(pk=ada.pk), tool=tool, arguments={}, by="test"
        )
    assert doubts()["get_status"] == reason
    newest = ada.memories.order_by("-pk")[0]
    assert (newest.pending, newest.content) == (False, INTERRUPTED)


TRAVEL: dict[str, Any] = {
    "name": "travel",
    "description": "Fly to a place.",
    "policy": "mutation",
    "parameters": {
        "type": "object",
        "properties": {
            "target_poi": {"type": "string"},
            "hurry": {"type": "boolean"},
            "times": {"type": "integer"},
            "speed": {"enum": [1, 2.5]},
        },
        "required": ["target_poi"],
    },
}
STATUS = {**TRAVEL, "name": "get_status", "policy": "snapshot", "parameters": {}}
BY_HAND = "/myses/Ada/command/"


def offer_tools(sandbox: SandboxServer) -> None:
    ToolCatalogue.objects.create(url=sandbox.url, tools=[TRAVEL, STATUS])


def test_what_is_wrong_on_the_page_of_a_tool_runs_nothing(
    sandbox: SandboxServer,
    ada: Mysis,
    operator_program: Program,
    sign_in: Callable[..., Client],
) -> None:
    flying(operator_program)
    page = sign_in("operator")
    assert "has not listed its tools" in page.get(BY_HAND).content.decode()
    offer_tools(sandbox)
    form = page.get(f"{BY_HAND}?tool=travel", headers={"HX-Request": "true"})
    text = form.content.decode()
    assert "<html" not in text
    assert 'name="arg_target_poi"' in text
    assert "Fly to a place." in text
    # What does not fit is refused at its field, and nothing is run.
    before = Memory.objects.count()
    chosen = {"tool": "travel", "shown": "travel"}
    bad = page.post(BY_HAND, chosen | {"arg_times": "x", "arg_speed": "3"})
    assert bad.status_code == 422
    assert set(bad.context["form"].errors) == {
        "arg_target_poi",
        "arg_times",
        "arg_speed",
    }
    # What explains a field, and what is wrong with it, is tied to it.
    text = bad.content.decode()
    for tied in ("by-hand-tool_helptext", "by-hand-arg_times_error"):
        assert re.search(rf'aria-describedby="[^"]*{tied}', text), tied
        assert f'id="{tied}"' in text
    assert page.post(BY_HAND, {"tool": "explode"}).status_code == 422
    # The game's own schema is asked too.
    odd = page.post(BY_HAND, chosen | {"arg_target_poi": "x", "arg_hurry": "true"})
    assert "hurry" in str(odd.context["form"].non_field_errors())
    # Whose fields were not on the screen is drawn, not run.
    for shown in ({}, {"shown": "travel"}):
        drawn = page.post(BY_HAND, {"tool": "get_status", **shown})
        assert drawn.status_code == 200
        assert 'name="shown" value="get_status"' in drawn.content.decode()
    assert Memory.objects.count() == before


def test_an_operator_runs_a_tool_on_the_page(
    sandbox: SandboxServer,
    ada: Mysis,
    operator_program: Program,
    sign_in: Callable[..., Client],
) -> None:
    flying(operator_program)
    page = sign_in("operator")
    offer_tools(sandbox)
    # The result has an BY_HAND, so that a reload runs nothing again.
    asked = {"tool": "get_status", "shown": "get_status"}
    answer = page.post(BY_HAND, asked)
    row = Memory.objects.latest("pk")
    assert (row.tool_name, row.is_error) == ("get_status", False)
    assert answer["Location"] == f"{BY_HAND}?tool=get_status&line={row.pk}"
    done = page.get(answer["Location"]).content.decode()
    assert f"?at={row.pk}" in done
    assert f'id="line-{row.pk}"' not in done
    direct = page.post(BY_HAND, asked, headers={"HX-Request": "true"})
    assert f"?at={row.pk + 2}" in direct.content.decode()
    row = Memory.objects.latest("pk")
    # What is refused has its status, which htmx would draw nothing of.
    make_memory(ada, role="tool", pending=True, content="")
    refused = page.post(BY_HAND, asked)
    assert refused.status_code == 409
    assert "still runs" in refused.content.decode()
    assert page.post(BY_HAND, asked, headers={"HX-Request": "true"}).status_code == 200
    row = Memory.objects.latest("pk")
    # A viewer neither sees the form nor runs anything.
    viewer = sign_in("viewer")
    viewer.get(BY_HAND)
    viewer.post(BY_HAND, {"tool": "get_status"})
    refused = viewer.post(
        BY_HAND, {"tool": "get_status"}, headers={"HX-Request": "true"}
    )
    assert refused.status_code == 403
    assert Memory.objects.latest("pk") == row


def test_numbers_to_choose_from_and_parameters_past_the_fields() -> None:
    many = {f"p{number}": {"type": "string"} for number in range(MOST + 2)}
    tool: Described = {
        "name": "build",
        "description": "Build it.",
        "parameters": {"properties": {"size": {"enum": [1, 2.5]}, **many}},
    }

    def fill(**values: str) -> CommandForm:
        data = QueryDict(mutable=True)
        data.update({"tool": "build", "shown": "build", **values})
        return CommandForm(data, {"build": tool}, "build")

    form = fill(arg_size="2.5", arg_p0="x", others='{"p41": "y"}')
    assert form.is_valid(), form.errors
    assert form.read_arguments() == {"size": 2.5, "p0": "x", "p41": "y"}
    assert "p39, p40, p41" in form.fields["others"].help_text
    assert fill(arg_size="1").fields["arg_size"].clean("1") == 1
    assert "Write an object" in str(fill(others="[1]").errors["others"])


def test_the_audit_log_knows_who_runs_a_command_and_from_where(
    ada: Mysis, sandbox: SandboxServer, admin_program: Program
) -> None:
    admin_program.client.defaults["REMOTE_ADDR"] = "192.0.2.7"
    command(admin_program, "get_version")
    row = AuditEntry.objects.get(action="mysis.command")
    assert (row.token, row.address) == ("test admin", "192.0.2.7")
    assert (row.object, row.after["tool"]) == ("mysis:Ada", "get_version")
