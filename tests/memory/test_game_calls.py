"""What a call asks of the game: no action is ever taken for a read, nor a read for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.context.tool_calls import (
    build_policy_lookup,
    choose_call_policy,
    guess_policy,
    unwrap_call,
)
from memory.context.types import ToolCall
from memory.game_calls import (
    COMMANDS,
    READS,
    WRITES,
    Route,
    find_api_version,
    find_command,
    find_route,
    is_group,
    is_secret_call,
    list_secret_names,
    resolve_call,
    resolve_call_text,
)
from memory.gamestate.effects import ACTIONS
from memory.gamestate.invalidation import is_mutation
from sandbox.game.api import group_tools
from sandbox.game.table import TOOLS, list_tools

# The account's life cycle changes no snapshot.
LIFE_CYCLE = {"register", "login", "logout", "claim", "session", "agentlogs"}
READ_POLICIES = {"snapshot", "query", "drain"}
GROUPS = group_tools(list_tools("v2"))
SCHEMAS = {name: group.schema() for name, group in GROUPS.items()}
CALLS = [
    (group.name, action, tool)
    for group in GROUPS.values()
    for action, tool in group.actions.items()
]


def test_reads_and_writes_have_nothing_in_common() -> None:
    assert not READS & WRITES
    assert ACTIONS.keys() <= WRITES
    assert not ACTIONS.keys() & READS


@pytest.mark.parametrize(("group", "action", "tool"), CALLS)
def test_every_action_is_of_the_kind_of_its_command(group, action, tool) -> None:
    """Over the whole list of tools: as the game says of the command itself."""
    call = resolve_call(group, {"action": action})
    assert call.name == tool.name
    policy = build_policy_lookup({group: "mutation"})(
        group, json.dumps({"action": action})
    )
    assert (policy in READ_POLICIES) == tool.read_only
    if tool.name not in LIFE_CYCLE:
        told = policy == "mutation"
        assert is_mutation(call.name, told) == (not tool.read_only)


@pytest.mark.parametrize("name", sorted(COMMANDS - LIFE_CYCLE))
def test_a_command_is_of_one_kind_in_both_versions(name: str) -> None:
    call = resolve_call("spacemolt", {"action": name})
    policy = choose_call_policy(call, "mutation")
    assert (policy in READ_POLICIES) == (name in READS)
    assert is_mutation(name, None if name in READS else True) == (name in WRITES)
    by_name = guess_policy(name)
    if by_name != "mutation":
        assert policy == by_name


def test_every_tool_of_v1_is_known() -> None:
    assert set(TOOLS) <= COMMANDS, set(TOOLS) - COMMANDS
    for name, tool in TOOLS.items():
        assert (name in READS) == tool.read_only, name


@example("claim", "spacemolt")
@given(st.text(max_size=30), st.sampled_from(sorted(SCHEMAS)))
def test_an_unknown_action_counts_as_one_that_changes_the_game(action, tool) -> None:
    call = resolve_call(tool, {"action": action})
    if call.name in READS:
        assert find_command(tool, action.strip()) in READS
        return
    # It changes no snapshot, whatever the game says of it.
    if tool == "spacemolt_catalog" or call.name in LIFE_CYCLE:
        return
    assert choose_call_policy(call, "mutation") == "mutation"
    assert is_mutation(call.name, True)


@given(
    st.text(max_size=20),
    st.dictionaries(
        st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=4
    ),
)
def test_the_wrapper_and_the_text_name_the_same_command(tool, arguments) -> None:
    plain = resolve_call(tool, arguments)
    text = resolve_call_text(tool, json.dumps(arguments))
    assert text.name == plain.name
    if tool and tool.strip() == tool != "game":
        wrapped = resolve_call("game", {"command": tool, "arguments": arguments})
        assert (wrapped.name, wrapped.arguments) == (plain.name, plain.arguments)


def test_generic_arguments_become_the_commands_own() -> None:
    call = resolve_call("spacemolt", {"action": "travel", "id": "sol_belt"})
    assert (call.name, call.arguments) == ("travel", {"target_poi": "sol_belt"})
    both = {"action": "buy", "id": "x", "item_id": "ore_iron", "quantity": 2}
    assert resolve_call("spacemolt", both).arguments["item_id"] == "ore_iron"
    market = resolve_call("spacemolt_market", {"action": "view_market", "id": "ore"})
    assert market.arguments == {"item_id": "ore"}


@pytest.mark.parametrize(
    ("tool", "action", "name"),
    [
        ("spacemolt_storage", "view", "view_storage"),
        ("spacemolt_salvage", "sell", "sell_wreck"),
        ("spacemolt_faction", "info", "faction_info"),
        ("spacemolt_faction_admin", "create_role", "faction_create_role"),
        ("spacemolt_battle", "retreat", "battle"),
        ("spacemolt_facility", "list", "facility"),
        ("spacemolt_fleet", "get_status", "fleet"),
        ("spacemolt_shipping", "help", "help"),
        ("spacemolt_shipping", "quote", "spacemolt_shipping/quote"),
    ],
)
def test_actions_by_their_tool(tool: str, action: str, name: str) -> None:
    assert find_command(tool, action) == name


def test_a_server_that_says_a_tool_only_reads_is_believed_but_for_known_actions() -> (
    None
):
    unknown = resolve_call("spacemolt_intel", {"action": "get_rumours"})
    assert unknown.name == "spacemolt_intel/get_rumours"
    assert choose_call_policy(unknown, "mutation") == "mutation"
    assert choose_call_policy(unknown, "query") == "snapshot"
    known = resolve_call("spacemolt_intel", {"action": "travel"})
    assert choose_call_policy(known, "query") == "mutation"


def test_a_route_leads_to_each_command() -> None:
    for _, _, tool in CALLS:
        route = find_route(tool.name, SCHEMAS)
        assert route is not None, tool.name
        assert resolve_call(route.tool, dict(route.arguments)).name == tool.name
    assert find_route("mine", {"mine": {}}) == Route("mine")
    assert find_route("mine", {"dock": {}}) is None
    bare = {"spacemolt": {"properties": {"action": {"type": "string"}}}}
    assert find_route("get_status", bare) == Route(
        "spacemolt", {"action": "get_status"}
    )


def test_a_tool_that_nobody_knows_has_actions_of_its_own() -> None:
    call = resolve_call("spacemolt_citizenship", {"action": "get_status"})
    assert call.name == "spacemolt_citizenship/get_status"
    assert resolve_call("spacemolt_citizenship", {"action": "help"}).name == "help"
    enum = {"properties": {"action": {"enum": ["get_status"]}}}
    route = Route("spacemolt", {"action": "get_status"})
    assert find_route("get_status", {"spacemolt_citizenship": enum}) is None
    # Also where another known tool has an action of that name, and comes first.
    both = {"spacemolt_social": enum, "spacemolt": enum}
    assert find_route("get_status", both) == route
    assert find_route("get_status", {**both, "spacemolt": {}}) == route


def test_the_version_is_that_of_the_tools() -> None:
    assert find_api_version("SpaceMolt (v2)", ["mine", "login"]) == 1
    assert find_api_version("spacemolt-gameserver", SCHEMAS) == 2
    assert find_api_version("SpaceMolt (v2)", {}) == 2
    assert find_api_version("", {}) == 1


def test_what_a_secret_group_holds_is_secret() -> None:
    assert list_secret_names(frozenset({"chat"})) == {"chat"}
    assert "login" in list_secret_names(frozenset({"spacemolt_auth"}))
    assert "mine" not in list_secret_names(frozenset({"spacemolt_auth"}))
    assert list_secret_names(frozenset({"spacemolt"})) >= COMMANDS


def test_a_name_of_ours_is_no_group() -> None:
    assert is_group("spacemolt")
    assert is_group("spacemolt_auth")
    assert not is_group("spacemolt/foo")
    assert not is_group("zoea_recall")


@pytest.mark.parametrize(
    "given",
    [
        {"command": " sell ", "arguments": {"item_id": "x"}},
        {"command": "sell", "arguments": '{"item_id": "x"}'},
        {"command": "game", "arguments": {"command": "sell", "arguments": {"item_id": "x"}}},
        {"command": "sell", "arguments": {"item_id": "x"}, "reason": "because"},
    ],
)  # fmt: skip
def test_what_the_wrapper_names_is_read_as_it_is_called(given) -> None:
    """As `unwrap_call` reads it, which refuses only what stands beside."""
    found = resolve_call("game", given)
    assert (found.name, dict(found.arguments)) == ("sell", {"item_id": "x"})
    if "reason" not in given:
        inner = unwrap_call(ToolCall("1", "game", json.dumps(given)))
        assert (inner.name, json.loads(inner.arguments)) == ("sell", {"item_id": "x"})


def test_the_wrapper_may_hold_itself_many_times() -> None:
    given: dict[str, object] = {"command": "sell"}
    for _ in range(5000):
        given = {"command": "game", "arguments": given}
    assert resolve_call("game", given).name == "sell"


@pytest.mark.parametrize(
    ("arguments", "hidden"),
    [
        ('{"command": "login", "arguments": {"x": 1}, "reason": "r"}', True),
        ('{"command": "login", "arguments": {"x": 1', True),
        ("{}", True),
        ('{"command": "sell", "reason": "r"}', False),
    ],
)
def test_a_call_of_what_cannot_be_read_is_hidden(arguments: str, hidden: bool) -> None:
    assert is_secret_call("game", arguments, {"login"}) is hidden
    assert not is_secret_call("sell", arguments, {"login"})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("spacemolt_auth", '{"action": "login", "username": "Ada", "password": "x'),
        ("spacemolt", '["login"]'),
        ("game", '{"command": "spacemolt", "arguments": "{\\"action\\": \\"login"}'),
    ],
)
def test_a_grouped_call_that_cannot_be_read_is_hidden(
    tool: str, arguments: str
) -> None:
    """It counted as an action whose result anybody may read."""
    assert is_secret_call(tool, arguments, {"login"})
    assert build_policy_lookup({"login": "secret"})(tool, arguments) == "secret"
    assert build_policy_lookup({})(tool, arguments) == "mutation"
    assert not is_secret_call(tool, arguments, set())
