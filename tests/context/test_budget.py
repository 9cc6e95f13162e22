"""The hard budget (I13, I15, I17, I18), the result cap and the state block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory.context import registry
from memory.context.budget import SHORT_STATE_BYTES
from memory.context.offered_tools import offer_tools
from memory.context.result_types import Assembly
from memory.context.types import (
    CRITICAL_REMINDERS,
    NUDGE_TEXT,
    Budget,
    Dialect,
    split_nudge,
)
from memory.context.units import CUT_ARGUMENTS
from memory.gamestate.render import split_state
from tests.context.cases import render_state
from tests.context.histories import Log
from tests.context.tools import list_described
from tests.context.views import fate, kinds, line, sent, text_of, view
from tests.long_run import few_or_many

STATE_HEAD = "## Current Game State\n"
#: All there are.
any_strategy = pytest.mark.parametrize("strategy", registry.list_names())
#: All that send stored messages one by one.
every_strategy = pytest.mark.parametrize(
    "strategy", [name for name in registry.list_names() if name != "coalesced"]
)


def orders(count: int, length: int = 50) -> Log:
    log = Log()
    for number in range(count):
        log.user(f"{number:02}".ljust(length, "."))
    return log


@every_strategy
def test_what_fits_exactly_is_sent_whole(strategy: str) -> None:
    # Four texts of 50 characters, and three times the empty line that joins them.
    result = view(orders(4), strategy, budget=Budget(236, 30), counter="chars")
    assert sent(result) == [1, 2, 3, 4]
    assert result.stats["over_budget"] is False


@every_strategy
def test_one_token_less_drops_the_oldest(strategy: str) -> None:
    result = view(orders(4), strategy, budget=Budget(235, 30), counter="chars")
    assert sent(result) == [2, 3, 4]
    assert fate(result, 1) == "dropped_for_budget"
    assert line(result, 1).handle == "ctx://self/1"
    assert result.stats["over_budget"] is True
    assert result.stats["units_dropped"] == 1


@every_strategy
def test_a_filler_is_paid_for(strategy: str) -> None:
    """A unit is left out where only the user message before it does not fit."""
    log = Log()
    log.user("an old note", "nudge")
    log.says("x" * 40)
    log.user("go")
    for tokens in range(130, 40, -1):
        result = view(log, strategy, budget=Budget(tokens, 0), counter="chars")
        assert result.stats["tokens_out"] <= tokens
        assert sent(result) == ([1, 2, 3] if tokens >= 53 else [3])


@any_strategy
@pytest.mark.parametrize(
    ("tokens", "reserve", "tools", "component"),
    [
        (10, 11, 0, "reserve"),
        (110, 10, 101, "tools"),
        (110, 10, 90, "system"),
        (110, 10, 80, "pins"),
        (200, 10, 80, "newest_unit"),
    ],
)
def test_i13_what_cannot_fit_is_named(
    strategy: str, tokens: int, reserve: int, tools: int, component: str
) -> None:
    result = view(
        orders(1, 200),
        strategy,
        system="s" * 20,
        pins=("p" * 40,),
        budget=Budget(tokens, reserve),
        tools_tokens=tools,
        counter="chars",
    )
    assert result.status == "budget_impossible"
    assert result.impossible is not None
    if strategy == "coalesced" and component == "newest_unit":
        component = "coalesced"
    assert result.impossible.component == component
    need, have = result.impossible.need, result.impossible.have
    assert need > have
    if component == "reserve":
        assert f"{need} tokens are kept for the answer" in result.reason
    else:
        said = (
            f"{need} tokens, and {have} are left (budget {tokens}, of which {reserve}"
        )
        assert said in result.reason
        assert "Raise the budget" in result.reason
    assert (result.messages, result.sources, result.synthetic) == ([], [], [])
    assert fate(result, 1) == "dropped_for_budget"
    assert result.stats["over_budget"] is True


@pytest.mark.parametrize(("allow", "component"), [(None, "tools"), ((), "system")])
def test_a_list_of_tools_without_room_is_no_matter_of_the_prompt(
    allow: tuple[str, ...] | None, component: str
) -> None:
    offered = offer_tools(list_described(), "on_demand", allow)
    result = view(
        orders(1),
        system="s" * (100 if component == "tools" else 700),
        offered=offered,
        budget=Budget(600, 0),
        counter="chars",
    )
    assert result.impossible is not None
    assert result.impossible.component == component
    assert ("shorten the prompt" in result.reason) == (component == "system")
    assert ("`tools: on_demand`" in result.reason) == (component == "tools")
    assert ("`allow`" in result.reason) == (component == "tools")


@every_strategy
def test_i17_a_long_order_is_cut_in_the_middle_with_a_handle(strategy: str) -> None:
    log = Log()
    log.user("START " + "x" * 5_000 + " END")
    log.turn("mine", "ore")
    result = view(log, strategy, budget=Budget(400, 0), counter="chars")
    text = text_of(result, 1)
    assert text.startswith("START")
    assert text.endswith("END")
    assert "ctx://self/1" in text
    assert fate(result, 1) == "truncated"
    assert line(result, 1).by == "budget"
    assert result.stats["tokens_out"] <= 400


@every_strategy
def test_i18_the_newest_unit_is_cut_but_never_its_calls(strategy: str) -> None:
    """LangChain's context editing keeps a newest giant as it is."""
    log = Log()
    log.user("go")
    log.calls("mine", "scan", "scan", content="Working.", signed=True)
    for index, size in enumerate((100_000, 30, 60_000)):
        log.result(f"c2.{index}", "y" * size)
    result = view(log, strategy, budget=Budget(700, 0), counter="chars", result_cap=0)
    assert sent(result) == [1, 2, 3, 4, 5]
    assert text_of(result, 2) == "Working."
    assert text_of(result, 4) == "y" * 30, "what is small stays whole"
    assert len(result.messages[1]["tool_calls"]) == 3
    assert fate(result, 3) == fate(result, 5) == "truncated"


GIANT = json.dumps(
    {"text": 'All the "ore" is at Earth Station. ' * 1_500, "to": "Brahe"}
)


def calling(arguments: str, count: int = 1, **more: Any) -> Log:
    """An order, and an answer that makes so many calls."""
    log = Log()
    log.user("go")
    log.calls(*((f"c{n}", "chat", arguments) for n in range(count)), **more)
    for number in range(count):
        log.result(f"c{number}", "said " * 50)
    return log


@any_strategy
@pytest.mark.parametrize(("count", "dialect"), [(1, "anthropic"), (16, "openai")])
def test_giant_arguments_are_cut_where_nothing_else_helps(
    strategy: str, count: int, dialect: Dialect
) -> None:
    log = calling(GIANT, count)
    result = view(log, strategy, budget=Budget(8_192, 2_000), dialect=dialect)
    assert result.messages, result.reason
    assert result.stats["tokens_out"] <= 6_192
    if strategy == "coalesced":
        return
    assert fate(result, 2) == "truncated"
    for arguments in read_arguments(result):
        head, _, rest = arguments[CUT_ARGUMENTS].partition("[... ")
        assert GIANT.startswith(head.removesuffix("\n"))
        assert "characters omitted, see ctx://self/2]" in rest
    # Byte for byte the same again, and whole where there is room.
    assert view(
        log, strategy, budget=Budget(8_192, 2_000), dialect=dialect
    ).messages == (result.messages)
    whole = view(log, strategy, dialect=dialect)
    assert list(read_arguments(whole)) == [json.loads(GIANT)] * count


def read_arguments(result: Assembly) -> Iterator[dict[str, Any]]:
    """What the calls of a view are given."""
    for message in result.messages:
        for call in message.get("tool_calls", ()):
            yield json.loads(call["function"]["arguments"])
        if isinstance(message["content"], list):
            for block in message["content"]:
                if block["type"] == "tool_use":
                    yield block["input"]


@every_strategy
def test_what_is_left_out_of_arguments_is_counted(strategy: str) -> None:
    result = view(calling(GIANT), strategy, budget=Budget(8_192, 2_000))
    [arguments] = read_arguments(result)
    head, omitted, tail = re.split(r"\n\[... (\d+) .*\]\n", arguments[CUT_ARGUMENTS])
    assert GIANT.startswith(head)
    assert GIANT.endswith(tail)
    assert int(omitted) == len(GIANT) - len(head) - len(tail)


@every_strategy
def test_giant_arguments_of_a_signed_answer_are_not_cut(strategy: str) -> None:
    signed = calling(GIANT, signed=True)
    result = view(signed, strategy, budget=Budget(8_192, 2_000))
    assert result.status == "budget_impossible"
    assert result.impossible is not None
    assert result.impossible.component == "newest_unit"


@every_strategy
def test_small_calls_beside_a_giant_stay(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.calls(("a", "chat", GIANT), ("b", "travel", '{"to": "sol"}'))
    log.result("a", "said")
    log.result("b", "y" * 60_000)
    result = view(log, strategy, budget=Budget(8_192, 2_000), result_cap=0)
    giant, small = read_arguments(result)
    assert list(giant) == [CUT_ARGUMENTS]
    assert small == {"to": "sol"}
    assert fate(result, 4) == "truncated"


@every_strategy
def test_signed_text_is_cut_only_when_its_unit_cannot_fit_otherwise(
    strategy: str,
) -> None:
    log = Log()
    log.user("go")
    log.turn("mine", "ore " * 50, call={"content": "z" * 900, "signed": True})
    roomy = view(log, strategy, budget=Budget(1_000, 0), counter="chars")
    assert text_of(roomy, 2) == "z" * 900
    tight = view(log, strategy, budget=Budget(300, 0), counter="chars")
    assert "ctx://self/2" in text_of(tight, 2)
    assert len(tight.messages[1]["tool_calls"]) == 1


@every_strategy
def test_one_giant_result_is_capped_in_every_strategy(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.turn("get_map", '{"systems": [' + '{"id": "sol"}, ' * 20_000 + "]}")
    result = view(log, strategy)
    text = text_of(result, 3)
    assert fate(result, 3) == "truncated"
    assert line(result, 3).by == "result_cap"
    assert line(result, 3).tokens_out <= 20_000
    assert text.startswith('{"systems": [')
    assert text.endswith("]}")
    assert "characters omitted, see ctx://self/3]" in text
    whole = view(log, strategy, result_cap=0)
    assert fate(whole, 3) == "kept"


@every_strategy
@given(cap=st.integers(200, 3_000), tokens=st.integers(300, 4_000))
def test_the_note_of_a_text_cut_twice_counts_all_that_is_missing(
    strategy: str, cap: int, tokens: int
) -> None:
    """First to the cap of a result, then to the budget: the reader is told of both."""
    stored = "".join(f"system {n} lies there, " for n in range(1_000))
    log = Log()
    log.user("go")
    log.turn("get_map", stored)
    result = view(
        log, strategy, budget=Budget(tokens, 0), counter="chars", result_cap=cap
    )
    assume(result.messages)
    text = "\n".join(each["content"] or "" for each in result.messages)
    found = re.search(
        r"\n\[\.\.\. (\d+) characters omitted, see ctx://self/3\]\n?", text
    )
    assert found is not None
    head = text[: found.start()].rpartition("\n")[2]
    tail = text[found.end() :].partition("\n")[0]
    assert stored.startswith(head)
    assert stored.endswith(tail)
    assert int(found[1]) == len(stored) - len(head) - len(tail)


@any_strategy
def test_a26_the_state_block_is_last_and_made_up(strategy: str) -> None:
    """What changes at every call stands behind all that a provider may cache."""
    result = view(orders(2), strategy, render_state=render_state)
    whole = strategy == "coalesced"
    assert kinds(result) == (["coalesced"] if whole else ["state"])
    assert result.messages[-1]["role"] == "user"
    block = render_state(2_048).strip()
    assert result.messages[-1]["content"].endswith(block)
    assert result.messages[-1]["content"].endswith(f"\n\n{block}")
    assert (result.stats["tokens_by_category"]["state"] > 0) != whole
    without = view(orders(2), strategy, render_state=render_state, state_block=False)
    assert block not in without.messages[-1]["content"]
    other = view(orders(2), strategy, render_state=lambda size: "## Another")
    assert other.messages[:-1] == result.messages[:-1]
    shared = len(result.messages[-1]["content"].removesuffix(block))
    assert (
        result.messages[-1]["content"][:shared]
        == (other.messages[-1]["content"][:shared])
    )


@any_strategy
@pytest.mark.parametrize("show_results", [False, True])
@given(size=st.integers(0, 3_000), secrets=st.integers(0, 40))
@settings(max_examples=few_or_many(8, 100))
def test_the_state_block_never_has_more_than_its_bytes(
    strategy: str, show_results: bool, size: int, secrets: int
) -> None:
    """Whatever ends the message behind it, and though a secret is hidden in it."""
    lines = [STATE_HEAD, *["- Sold to: s3cret\n"] * secrets, "- Fuel: 60/100\n" * 200]
    block = "".join(lines)
    log = orders(2)
    log.calls(("1", "login", '{"password": "s3cret"}'))
    log.result("1", "ok")
    result = view(
        log,
        strategy,
        render_state=lambda limit: block[:limit],
        state_bytes=size,
        nudge=f"{NUDGE_TEXT}\n\n{CRITICAL_REMINDERS}",
        show_results=show_results,
        tool_policy={"login": "secret"},
    )
    text = str(result.messages[-1]["content"])
    _, head, rest = text.rpartition(STATE_HEAD)
    shown = split_nudge(head + rest)[0].rstrip() if head else ""
    assert len(shown.encode()) <= size
    assert "s3cret" not in text
    if size > 1_000:
        assert len(shown) > size // 2


@every_strategy
def test_the_state_block_is_shortened_then_left_out(strategy: str) -> None:
    seen: dict[int, str] = {}
    for tokens in range(1_000, 10, -10):
        result = view(
            orders(2),
            strategy,
            render_state=render_state,
            budget=Budget(tokens, 0),
            counter="chars",
        )
        if result.status == "budget_impossible":
            break
        block = split_state(result.messages[-1]["content"])[1]
        assert bool(block) == (kinds(result)[-1:] == ["state"])
        assert bool(block) != any("left out" in said for said in result.warnings)
        seen[len(block)] = block
    sizes = list(seen)
    assert sizes[0] == len(render_state(2_048).strip())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0
    assert len(sizes) > 5
    assert len(render_state(SHORT_STATE_BYTES).strip()) in sizes


@every_strategy
def test_old_results_get_no_room_before_the_short_form_of_the_state(
    strategy: str,
) -> None:
    log = Log()
    log.user("Look around.")
    for number in range(12):
        log.turn("get_poi", f"{number} " + 20 * "rock ")
    short = len(render_state(SHORT_STATE_BYTES).strip())
    for tokens in range(900, 3_000, 150):
        result = view(
            log,
            strategy,
            render_state=render_state,
            budget=Budget(tokens, 0),
            counter="chars",
        )
        assert kinds(result)[-1:] == ["state"]
        assert result.stats["tokens_by_category"]["state"] >= short - 100


def test_a_pinned_message_is_an_order_that_stands() -> None:
    log = Log()
    log.user("never attack miners", pinned=True)
    for number in range(30):
        log.user(f"order {number}")
    result = view(log, "window", system="You are Ada.", pins=("stay near Sol",))
    assert result.messages[0]["content"] == (
        "You are Ada.\n\n## Standing orders\n- stay near Sol\n- never attack miners"
    )
    assert 1 not in sent(result)
    assert (fate(result, 1), line(result, 1).handle) == ("pinned", None)
    assert line(result, 1).tokens_out == line(result, 1).tokens_in


def test_pins_that_stand_in_the_prompt_already_are_not_repeated() -> None:
    log = Log()
    log.prompt("You are Ada.\n\n## Standing orders\n- one\n- two\nlines")
    log.user("go")
    result = view(log, "window", pins=("one", "two\nlines", "three", "one"))
    assert result.messages[0]["content"] == (
        "You are Ada.\n\n## Standing orders\n- one\n- two\nlines\n- three"
    )


def test_what_happened_last_is_what_the_ledger_says() -> None:
    log = Log()
    log.user("go")
    log.turn("get_map", "long " * 50)
    log.turn("get_map", "long " * 50)
    for prune in ("prune", "stub"):
        result = view(log, result_cap=30, prune=prune)
        assert (fate(result, 3), fate(result, 5)) == ("superseded", "truncated")


def test_the_text_of_a_pinned_call_moves_and_the_call_stays() -> None:
    log = Log()
    log.user("go")
    log.calls("mine", content="I promised to mine.", pinned=True)
    log.result(
        "c2.0", "a long result that is pinned as well, for its text", pinned=True
    )
    result = view(log, "window")
    assert sent(result) == [1, 2, 3]
    assert "- I promised to mine.\n- a long result" in result.messages[0]["content"]
    assert result.messages[2]["content"] is None
    assert "pinned" in result.messages[3]["content"]
