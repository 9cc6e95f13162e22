"""The table of tool policies (A1)."""

from __future__ import annotations

import pytest

from memory.context.tool_calls import (
    ToolFacts,
    build_policy_lookup,
    build_policy_table,
    guess_policy,
)


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


def test_a_bad_policy_names_the_tool() -> None:
    with pytest.raises(ValueError, match=r"tool_policy\.mine"):
        build_policy_lookup({"mine": "fun"})
