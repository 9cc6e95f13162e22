"""The options `tools` and `allow`: what is sent of the tools, and how they are called."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from memory.context import registry
from memory.context.offered_tools import (
    GAME_HELP_TOOL,
    GAME_TOOL,
    LONGEST_LINE,
    allows_call,
    compact_tool,
    find_first_sentence,
    is_allowed,
    offer_tools,
    write_catalogue_line,
)
from memory.context.strategy import OptionError
from memory.context.tokens import estimate_tokens
from memory.context.tool_calls import GAME, get_sent_form, unwrap_call
from memory.context.types import TOOL_MODES, Budget, ToolCall
from tests.context.cases import (
    CASES,
    OFFERED,
    ROOMY,
    STRATEGIES,
    build,
    fast,
    window_options,
)
from tests.context.checks import texts_of
from tests.context.histories import Log
from tests.context.tools import OWN, described, instances, list_described, schemas
from tests.fakes.openai import _check_tool

GOLDEN = Path(__file__).parents[1] / "golden" / "tools"
_LINE = re.compile(r"[A-Za-z0-9_-]+\([^()]*\)(: .+)?")


def tool(about: str = "Dig.", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": []}
    return {"name": "mine", "description": about, "parameters": schema}


@pytest.mark.parametrize("mode", ["compact", "on_demand"])
def test_the_tools_of_the_game_are_sent_as_before(mode: str):
    """Goldens: delete one and run the test to write it anew."""
    offered = offer_tools(list_described(), mode, None)
    found = (
        json.dumps(offered.sent, indent=1) if mode == "compact" else offered.catalogue
    )
    path = GOLDEN / ("compact.json" if mode == "compact" else "catalogue.txt")
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(found + "\n")
    assert found + "\n" == path.read_text()


def test_each_mode_costs_less_than_the_one_before():
    known = list_described()
    full, compact, demand = (offer_tools(known, mode, None) for mode in TOOL_MODES)
    counts = [each.count_tokens(estimate_tokens) for each in (full, compact, demand)]
    assert list(full.sent) == known
    assert counts[0] > counts[1] > 20 * counts[2]
    assert list(demand.sent) == [compact_tool(OWN), GAME_TOOL, GAME_HELP_TOOL]
    lines = demand.catalogue.splitlines()
    assert [line.split("(")[0] for line in lines] == [t["name"] for t in known[:-1]]
    assert 5 * estimate_tokens(demand.catalogue) < counts[0]


@fast
@given(schemas, instances)
def test_a_compact_schema_takes_what_the_whole_one_takes(schema: Any, instance: Any):
    short = compact_tool({"name": "x", "description": "", "parameters": schema})
    Draft202012Validator.check_schema(short["parameters"])
    whole, other = (Draft202012Validator(s) for s in (schema, short["parameters"]))
    assert whole.is_valid(instance) == other.is_valid(instance)
    function = {"function": dict(short, name="x"), "type": "function"}
    _check_tool(function)


@fast
@given(described)
def test_a_compact_tool_is_shorter_and_stays_as_it_is(tool: Any):
    before = json.dumps(tool)
    short = compact_tool(tool)
    assert json.dumps(tool) == before
    assert compact_tool(short) == short == compact_tool(tool)
    assert len(json.dumps(short)) <= len(before)
    assert short["parameters"]["properties"].keys() == (
        tool["parameters"]["properties"].keys()
    )


@fast
@given(described)
def test_a_line_says_what_a_tool_requires_within_ninety_characters(tool: Any):
    line = write_catalogue_line(tool)
    assert len(line) <= LONGEST_LINE
    assert _LINE.fullmatch(line), line
    assert line.startswith(f"{tool['name']}(")
    required = tool["parameters"]["required"]
    if len(f"{tool['name']}({', '.join(required)}, …)") <= LONGEST_LINE:
        inside = line[len(tool["name"]) + 1 : line.index(")")].split(", ")
        assert inside[: len(required)] == required or not required
    assert line == write_catalogue_line(tool)


@pytest.mark.parametrize(
    ("properties", "required", "about", "line"),
    [
        ({}, [], "Dig. It takes a tick.", "mine(): Dig"),
        ({"a": {}, "b": {}}, ["b"], "Dig", "mine(b, [a]): Dig"),
        ({}, [], "", "mine()"),
        ({"x": {}, "z": {}}, ["y", "x", "y"], "Dig.", "mine(x, y, [z]): Dig"),
        ({}, ["y"], "Dig.", "mine(y): Dig"),
        ({"x": {}}, ["x"], "w" * 200, "mine(x)"),
        ({"x" * 50: {}, "y" * 50: {}}, [], "Dig.", "mine([" + "x" * 50 + "], …): Dig"),
    ],
)
def test_lines(properties: Any, required: Any, about: str, line: str):
    given = tool(about, **properties)
    given["parameters"]["required"] = required
    assert write_catalogue_line(given) == line


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Travel to a POI. Takes 2 ticks.", "Travel to a POI."),
        ("Sell, e.g. ore. At once", "Sell, e.g. ore."),
        ("Costs 1.5 fuel! And more", "Costs 1.5 fuel!"),
        ("Lines\nof one sentence. Next", "Lines of one sentence."),
        ("A list\n- one\n- two", "A list"),
        ("  ", ""),
    ],
)
def test_first_sentences(text: str, first: str):
    assert find_first_sentence(text) == first


@pytest.mark.parametrize(
    ("name", "said", "kept"),
    [
        ("quantity", "The quantity (integer)", None),
        ("item_id", "Required. The item's ID", None),
        ("item_id", "The item's ID, from get_cargo. Not its name.", "The item's ID, from get_cargo."),
        ("side", "buy or sell", None),
        ("count", "How many (optional)", "How many"),
        ("name", "採掘", "採掘"),
    ],
)  # fmt: skip
def test_a_parameter_is_not_told_what_its_type_says(name: str, said: str, kept: Any):
    schema: dict[str, Any] = {"type": "string", "description": said}
    if name == "side":
        schema["enum"] = ["buy", "sell"]
    short = compact_tool(tool("Dig.", **{name: schema}))
    assert short["parameters"]["properties"][name].get("description") == kept


def test_the_allow_list_concerns_the_tools_of_the_game():
    known = list_described()
    for mode in TOOL_MODES:
        offered = offer_tools(known, mode, ("get_*", "mine"))
        listed = [line.split("(")[0] for line in offered.catalogue.splitlines()]
        names = [each["name"] for each in offered.sent]
        game = listed or [name for name in names if name != "zoea_recall"]
        assert "zoea_recall" in names
        assert "mine" in game
        assert all(name == "mine" or name.startswith("get_") for name in game)
    assert offer_tools(known, "on_demand", ()).sent == (compact_tool(OWN),)
    assert is_allowed("mine", None)
    assert not is_allowed("mine", ())
    assert not is_allowed("MINE", ("mine",))


def test_of_a_tool_with_several_commands_the_allowed_actions_are_left():
    action = {"type": "string", "enum": ["get_status", "mine", "self_destruct"]}
    parameters = {"type": "object", "properties": {"action": action}}
    tool = {"name": "spacemolt", "description": "", "parameters": parameters}
    for mode in TOOL_MODES[:2]:
        [sent] = offer_tools([tool], mode, ("get_*", "mine")).sent
        kept = sent["parameters"]["properties"]["action"]["enum"]
        assert kept == ["get_status", "mine"]
    assert offer_tools([tool], "full", ("spacemolt",)).sent == (tool,)
    assert offer_tools([tool], "full", ("sell",)).sent == ()
    assert allows_call("spacemolt", "mine", ("mine",))
    assert not allows_call("spacemolt", "self_destruct", ("get_*", "mine"))
    assert not allows_call("travel", "mine", ("mine",))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("allow", "warnings"),
    [
        (None, []),
        ([], []),
        (["mine", "get_*", "zoea_*", "view_market"], []),
        (["nothing"], ['options.allow: no tool fits "nothing".']),
        (
            ["buy", "mine", "MINE", "buy"],
            ['options.allow: no tool fits "buy", "MINE".'],
        ),
        (
            [f"x{n}" for n in range(8)],
            ['options.allow: no tool fits "x0", "x1", "x2", "x3", "x4" and 3 more.'],
        ),
    ],
)
def test_what_fits_no_tool_is_warned_of(
    strategy: str, allow: list[str] | None, warnings: list[str]
):
    action = {"enum": ["view_market", "get_status"]}
    group = {"properties": {"action": action}}
    market = {"name": "spacemolt_market", "description": "", "parameters": group}
    log = Log()
    log.user("Fly on.")
    for mode in TOOL_MODES:
        offered = offer_tools([tool(), market, OWN], mode, allow)
        assert build(log, strategy, offered=offered)[1].warnings == warnings
    assert offer_tools([OWN], "full", allow).unfit == ()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tools": "some"}, "options.tools: must be one of full, compact, on_demand"),
        ({"tools": 1}, "options.tools: must be one of"),
        ({"allow": "mine"}, "options.allow: must be a list of names or patterns"),
        ({"allow": ["mine", 3]}, "options.allow[1]: must be the name of a tool"),
        ({"allow": ["get *"]}, "options.allow[0]: must be the name"),
        ({"allow": ["x"] * 501}, "options.allow: must have at most 500 entries"),
    ],
)
def test_every_strategy_takes_and_checks_the_options(
    strategy: str, options: dict[str, object], error: str
):
    with pytest.raises(OptionError) as found:
        registry.validate_options(strategy, options)
    assert str(found.value).startswith(error)
    good = {"tools": "compact", "allow": ["get_*", "mine"]}
    assert registry.validate_options(strategy, good).allow == ("get_*", "mine")
    assert registry.validate_options(strategy, {}).allow is None


# --- Calls by way of `game`


@fast
@given(
    st.text(min_size=1, max_size=20).filter(lambda t: t.strip() == t != GAME),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.sampled_from([(",", ":"), (", ", ": ")]),
)  # fmt: skip
def test_a_call_is_unwrapped_as_it_was_wrapped(name: str, arguments: Any, signs: Any):
    call = ToolCall("1", name, json.dumps(arguments, separators=signs), GAME)
    sent = ToolCall("1", *get_sent_form(call))
    assert sent.name == GAME
    assert json.loads(sent.arguments) == {"command": name, "arguments": arguments}
    assert unwrap_call(sent) == call


def _spell(inside: str, *, text: bool, first: bool, sign: str) -> str:
    given = json.dumps(inside) if text else inside
    parts = ['"command"' + sign + '"buy"', '"arguments"' + sign + given]
    return "{" + ", ".join(parts if first else parts[::-1]) + "}"


@fast
@given(
    st.builds(
        _spell,
        st.sampled_from(['{"x":1,  "a":2.0}', "{}", '{"t": "é\\u00e9"}', "{ }"]),
        text=st.booleans(),
        first=st.booleans(),
        sign=st.sampled_from([":", ": ", " :  "]),
    )
)
def test_a_call_is_sent_back_as_the_model_spelt_it(arguments: str):
    made = unwrap_call(ToolCall("1", GAME, arguments))
    assert (made.name, made.via) == ("buy", GAME)
    assert get_sent_form(made) == (GAME, arguments)
    log = Log()
    log.user("Fly on.")
    log.calls(astuple(made))
    for dialect in ("openai", "anthropic"):
        more: dict[str, Any] = {"dialect": dialect, "offered": OFFERED[-1]}
        sent = list(_find_calls(build(log, "full", **more)[1]))
        wanted = arguments if dialect == "openai" else json.loads(arguments)
        assert [str(each) for each in sent] == [str(wanted)]


def test_what_a_secret_makes_of_a_call_has_no_other_spelling():
    spelt = '{"arguments":{"password":"hunter2222"},"command":"keep"}'
    made = unwrap_call(ToolCall("1", GAME, spelt))
    log = Log()
    log.user("Fly on.")
    log.calls(astuple(made))
    policy = {"keep": "secret"}
    _, view = build(log, "full", offered=OFFERED[-1], tool_policy=policy)
    assert "hunter" not in json.dumps(view.messages)
    # Nor one that hides a value that another call gave away.
    log.calls(astuple(ToolCall("2", "keep", '{"password": "hunter2222"}')))
    said = '{"arguments":{"entry":"hunter2222"},"command":"captains_log_add"}'
    log.calls(astuple(unwrap_call(ToolCall("3", GAME, said))))
    _, view = build(log, "full", offered=OFFERED[-1], tool_policy=policy)
    assert "hunter" not in json.dumps(view.messages)


@pytest.mark.parametrize("original", ["not json", "[1]", '{"a": "\\ud800"}'])
def test_a_spelling_that_no_provider_takes_is_not_sent(original: str):
    log = Log()
    log.user("Fly on.")
    log.calls(astuple(ToolCall("1", "mine", "{}", GAME, original)))
    [sent] = _find_calls(build(log, "full", offered=OFFERED[-1])[1])
    assert sent == '{"command": "mine", "arguments": {}}'


def _find_calls(view: Any) -> Iterator[Any]:
    for message in view.messages:
        for call in message.get("tool_calls", ()):
            yield call["function"]["arguments"]
        blocks = message["content"] if isinstance(message["content"], list) else []
        yield from (b["input"] for b in blocks if b["type"] == "tool_use")


@pytest.mark.parametrize(
    ("arguments", "name", "inside"),
    [
        ('{"command": "mine"}', "mine", "{}"),
        ('{"command": "mine", "arguments": null}', "mine", "{}"),
        ('{"arguments": {"x": 1}, "command": " mine "}', "mine", '{"x": 1}'),
        ('{"command": "buy", "arguments": "{\\"x\\": 1}"}', "buy", '{"x": 1}'),
        ('{"command": "buy", "arguments": [1]}', "buy", "[1]"),
        ('{"command": "game", "arguments": {"command": "dock"}}', "dock", "{}"),
        ('{"command": "mine", "x": 1}', GAME, '{"command": "mine", "x": 1}'),
        ('{"command": ""}', GAME, '{"command": ""}'),
        ("not json", GAME, "not json"),
        ("[]", GAME, "[]"),
    ],
)
def test_what_game_was_asked_to_call(arguments: str, name: str, inside: str):
    found = unwrap_call(ToolCall("1", GAME, arguments))
    assert (found.id, found.name, found.arguments) == ("1", name, inside)
    assert found.via == ("" if name == GAME else GAME)


@pytest.mark.parametrize("signed", [False, True])
def test_a_schema_outside_the_window_brings_no_old_state_along(signed: bool):
    """In a larger window that state is superseded: it would keep less (I15)."""
    log = Log()
    log.user("Fly on.")
    asked = ("same", "game_help", '{"names": ["mine"]}')
    log.calls(asked, ("same", "get_ship", "{}"), signed=signed)
    schemas = log.result("same", '{"tools": []}')
    old = log.result("same", '{"fuel": 9}')
    log.calls(("same", "get_ship", "{}"))
    log.result("same", '{"fuel": 8}')
    for size in (1, 9):
        options = {"window": size, "result_cap": 0}
        _, view = build(log, "snapshot-window", budget=ROOMY, options=options)
        assert schemas in view.sources
        assert (old in view.sources) == signed
        lines = {line.id: line for line in view.ledger}
        head = lines[schemas - 1]
        assert head.disposition == ("kept" if signed else "truncated")


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "summary:two"])
def test_no_strategy_cuts_a_schema_before_the_turn_ends(case: str, dialect: Any):
    """`summary:two` is the two messages that seed 002 asks for, and no more."""
    asked = json.dumps({"tools": list_described()[:20]})
    log = Log()
    log.user("Fly on.")
    log.turn("game_help", asked, call={"turn": 1}, turn=1)
    for _ in range(6):
        log.turn("mine", "ore " * 500, call={"turn": 1}, turn=1)
    more: dict[str, Any] = {"dialect": dialect, "offered": OFFERED[-1]}
    options = {**window_options(case, 2), "result_cap": 100}
    budget = Budget(60_000, 0)
    _, view = build(log, case, budget=budget, options=options, **more)
    assert any(asked in text for text in texts_of(view))
    log.says("Done.", turn=1)
    log.user("Again.")
    log.turn("mine", "ore", call={"turn": 2}, turn=2)
    _, later = build(log, case, budget=budget, options=options, **more)
    if window_options(case, 2) or case.startswith(("mask:", "coalesced")):
        assert not any(asked in text for text in texts_of(later))


@pytest.mark.parametrize("strategy", ["full", "window", "mask", "summary", "tiered"])
def test_a_huge_answer_pushes_no_schema_out_before_the_turn_ends(strategy: str):
    """It is cut to what they leave; without room for both, it goes before them."""
    asked = json.dumps({"tools": list_described()[:20]})
    log = Log()
    log.user("Fly on.")
    log.turn("game_help", asked, call={"turn": 1}, turn=1)
    log.turn("get_map", "star " * 40_000, call={"turn": 1}, turn=1)
    more: dict[str, Any] = {"offered": OFFERED[-1]}
    _, view = build(log, strategy, budget=Budget(16_000, 4_000), **more)
    texts = texts_of(view)
    assert any(asked in text for text in texts)
    assert any("star star" in text for text in texts)
    _, tight = build(log, strategy, budget=Budget(3_000, 0), **more)
    assert tight.status != "budget_impossible"
