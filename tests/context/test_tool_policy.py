"""The table of tool policies (A1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.tool_calls import (
    GAME,
    ToolFacts,
    build_policy_lookup,
    build_policy_table,
    guess_policy,
)
from tests.context.cases import OFFERED, build, in_every_way, slow
from tests.context.histories import Log


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("get_ship", "snapshot"),
        ("view_market", "snapshot"),
        ("list_ships", "snapshot"),
        ("captains_log_list", "snapshot"),
        ("zoea_swarm_status", "snapshot"),
        ("get_notifications", "drain"),
        ("find_route", "query"),
        ("search_systems", "query"),
        ("zoea_search_messages", "query"),
        ("captains_log_add", "mutation"),
        ("mine", "mutation"),
        ("something_new", "mutation"),
    ],
)
def test_names_suggest_a_policy(name: str, policy: str) -> None:
    assert guess_policy(name) == policy


def test_annotations_win_over_marks_and_marks_over_names() -> None:
    table = build_policy_table(
        [
            ToolFacts("get_ship"),
            ToolFacts("get_loot", is_mutation=True),
            ToolFacts("browse", is_mutation=False),
            ToolFacts("peek", read_only=True, is_mutation=True),
            ToolFacts("get_notifications", read_only=True),
            ToolFacts("login"),
        ],
        {"login": "secret"},
    )
    assert table == {
        "get_ship": "snapshot",
        "get_loot": "mutation",
        "browse": "query",
        "peek": "query",
        "get_notifications": "drain",
        "login": "secret",
    }


def test_the_table_comes_before_the_name() -> None:
    policy_of = build_policy_lookup({"get_ship": "query"})
    assert policy_of("get_ship") == "query"
    assert policy_of("get_cargo") == "snapshot"


WRAPPED = '{"command":"login","arguments":{"password":"hunter2222"}}'


@slow
@given(st.integers(0, len(WRAPPED)), st.sampled_from(["", "]", "}}}", "\x00", '"']))
@in_every_way
def test_i27_a_call_that_cannot_be_read_may_be_of_a_secret_tool(
    strategy: str, dialect: Any, length: int, end: str
) -> None:
    log = Log()
    log.user("Log in.")
    log.calls(("1", GAME, WRAPPED[:length] + end), ("2", "mine", "{}"))
    log.result("1", "Welcome. hunter2222 is your password.")
    log.result("2", "iron")
    for offered in (None, OFFERED[-1]):
        more: dict[str, Any] = {"offered": offered, "show_results": True}
        policy = {"login": "secret"}
        _, made = build(log, strategy, dialect=dialect, tool_policy=policy, **more)
        assert made.messages
        assert "hunter" not in json.dumps(made.messages)


def test_a_bad_policy_names_the_tool() -> None:
    with pytest.raises(ValueError, match=r"tool_policy\.mine"):
        build_policy_lookup({"mine": "fun"})
