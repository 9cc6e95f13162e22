"""What of a turn in full is drawn beside what a coalesced view tells of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from agents.dashboard.context_tabs import lay_steps
from memory.assembly.prepare import PreparedRequest
from memory.context.assemble import assemble
from memory.context.types import AssemblyRequest
from memory.redaction import HIDDEN
from tests.context.histories import Log


def test_no_secret_is_drawn_in_full() -> None:
    log = Log()
    log.user("Log in.")
    log.calls(("a", "login", '{"username": "bob", "password": "hunter2222"}'))
    log.result("a", '{"session_id": "abcdef1234567890abcdef", "ok": true}')
    log.calls(("b", "get_status", "{}"), content="I used hunter2222.")
    log.result("b", '{"token": "abcdef0987654321abcdef", "fuel": 3}')
    request = AssemblyRequest(
        log.done(),
        strategy="coalesced",
        tool_policy={"login": "secret"},
        show_results=True,
        max_turns=5,
        turns_left=4,
    )
    prepared: Any = SimpleNamespace(request=request, assembly=assemble(request))
    steps = lay_steps(cast("PreparedRequest", prepared)).steps
    login, status = steps
    drawn = str([step.messages for step in steps])
    for secret in ("hunter2222", "abcdef1234567890", "abcdef0987654321"):
        assert secret not in drawn
    assert login.messages[0].tool_calls[0].arguments == HIDDEN
    assert login.messages[1].content == HIDDEN
    assert '"fuel": 3' in status.messages[1].content
