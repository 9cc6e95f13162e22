"""One message for a whole history: C1 to C10, A27 to A29, and results in the fleet."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.context import registry
from memory.context.result_types import Assembly
from memory.context.strategies.coalesced import FINAL_TURN
from memory.context.strategy import OptionError
from memory.context.turn_digest import format_box
from memory.context.types import (
    DEFAULT_STRATEGY,
    Budget,
)
from tests.context.histories import Log
from tests.context.views import fate, kinds, line, view


def coalesced(log: Log, **more: Any) -> Assembly:
    return view(log, "coalesced", **more)


def text(result: Assembly) -> str:
    return str(result.messages[-1]["content"])


def asked(result: Assembly) -> dict[str, Any]:
    compression: dict[str, Any] = result.stats["compression"]
    return compression


def seed() -> Log:
    """The example of the seed: one search, one line of output."""
    log = Log()
    log.user("Find well-reviewed products in stock")
    log.calls(
        ("a", "search-reviews", '{"query": "Electronics"}'),
        content="Found 5 matching products",
    )
    log.result("a", "[5 reviews]")
    return log


def turns(calls: int, prints: int = 0) -> Log:
    log = Log()
    log.user("go")
    for number in range(calls):
        log.calls((f"c{number}", "mine", json.dumps({"n": number})))
        log.result(f"c{number}", "ore")
    for number in range(prints):
        log.says(f"print {number}.")
    return log


def test_c4_a27_the_text_of_the_seed() -> None:
    result = coalesced(
        seed(),
        system="Rules.",
        tools={"search-reviews": "query:string -> string"},
        data={"products": [{"name": "Laptop", "price": 1200}] * 7},
        definitions={"electronics": [{"name": "Laptop"}] * 4},
        turns_left=4,
    )
    assert text(result) == (
        "Find well-reviewed products in stock\n\n"
        ";; === tool/ ===\n"
        "(tool/search-reviews query)      ; query:string -> string\n\n"
        ";; === data/ ===\n"
        'data/products                    ; list[7], sample: {:name "Laptop", '
        ":price 1200}\n\n"
        ";; === user/ (your prelude) ===\n"
        'electronics                      ; = list[4], sample: {:name "Laptop"}\n\n'
        ";; Tool calls made:\n"
        ';   search-reviews("Electronics")\n\n'
        ";; Output:\n"
        "Found 5 matching products\n\n"
        "Turns left: 4"
    )


def test_c1_it_is_off_unless_asked_for() -> None:
    assert DEFAULT_STRATEGY != "coalesced"
    assert asked(view(seed(), "full"))["enabled"] is False


def test_c4_a_run_begins_with_its_mission() -> None:
    """C4: it is never removed, also where no turn was made and no row can be sent."""
    more: dict[str, Any] = {"mission": "Shop.", "tools": {"t": ""}, "turns_left": 5}
    log = Log()
    for _ in range(2):
        result = coalesced(log, **more)
        log.user("never attack miners", pinned=True)
        assert result.status == "unchanged"
        assert text(result) == "Shop.\n\n;; === tool/ ===\n(tool/t)\n\nTurns left: 5"
        assert asked(result)["turns_compressed"] == 0
    assert fate(result, 1) == "pinned"
    assert coalesced(Log()).status == "nothing_to_send"


def test_c3_a_system_message_and_one_user_message() -> None:
    result = coalesced(turns(3, 2), system="Rules.")
    assert [m["role"] for m in result.messages] == ["system", "user"]
    assert kinds(result) == ["prompt", "coalesced"]
    assert [fate(result, row) for row in (1, 2, 3)] == ["coalesced"] * 3
    assert line(result, 3).handle == "ctx://self/3", "C7: all of it can be had"


def test_c2_the_newest_are_kept_and_calls_are_counted() -> None:
    result = coalesced(turns(25, 18))
    assert ";   mine(4)" not in text(result)
    assert text(result).index(";   mine(5)") < text(result).index(";   mine(24)")
    assert "print 2." not in text(result)
    assert "print 3." in text(result)
    assert asked(result) == {
        "enabled": True,
        "strategy": "single-user-coalesced",
        "turns_compressed": 43,
        "tool_calls_total": 25,
        "tool_calls_shown": 20,
        "tool_calls_dropped": 5,
        "printlns_total": 18,
        "printlns_shown": 15,
        "printlns_dropped": 3,
        "error_turns_collapsed": 0,
    }


def test_c2_a_print_of_many_lines_is_one() -> None:
    log = turns(0)
    log.says("\n".join("abcdefgh"))
    assert asked(coalesced(log, options={"println_limit": 1}))["printlns_shown"] == 1


def test_c5_errors_are_hidden_once_it_went_well_again() -> None:
    log = turns(1)
    log.turn("travel", "no fuel", is_error=True, call={"content": "I travel."})
    log.turn("travel", "too far", is_error=True)
    failing = coalesced(log)
    assert "no fuel" not in text(failing)
    assert ";; Error:\n;   (unknown program)\ntoo far" in text(failing)
    assert asked(failing)["error_turns_collapsed"] == 1
    assert (asked(failing)["tool_calls_total"], asked(failing)["printlns_total"]) == (
        1,
        0,
    )
    log.turn("refuel", "full")
    recovered = coalesced(log)
    assert "Error" not in text(recovered)
    assert asked(recovered)["error_turns_collapsed"] == 2
    assert asked(recovered)["tool_calls_total"] == 2


def test_a7_what_reads_as_an_error_is_one() -> None:
    log = turns(1)
    log.turn("travel", '{"error": "no fuel"}')
    failing = coalesced(log)
    assert ';; Error:\n;   (unknown program)\n{"error": "no fuel"}' in text(failing)
    assert asked(failing)["tool_calls_total"] == 1
    assert asked(failing)["error_turns_collapsed"] == 0
    log.turn("travel", '{"error": null, "system": "sol"}')
    assert asked(coalesced(log))["tool_calls_total"] == 2


def test_c6_c7_the_box() -> None:
    assert format_box(
        {
            "strategy": "single-user-coalesced",
            "turns_compressed": 9,
            "tool_calls_total": 25,
            "tool_calls_shown": 20,
            "tool_calls_dropped": 5,
            "printlns_total": 18,
            "printlns_shown": 15,
            "printlns_dropped": 3,
            "error_turns_collapsed": 2,
        }
    ) == (
        "+- Compression -------------------------------------------+\n"
        "|   Strategy:     single-user-coalesced\n"
        "|   Turns:        9 compressed\n"
        "|   Tool calls:   20/25 shown (5 dropped)\n"
        "|   Printlns:     15/18 shown (3 dropped)\n"
        "|   Errors:       2 turn(s) collapsed\n"
        "+---------------------------------------------------------+"
    )


def test_c8_one_turn_only_is_not_coalesced() -> None:
    result = coalesced(seed(), max_turns=1)
    assert (result.status, asked(result)["enabled"]) == ("disabled", False)
    assert len(result.messages) == 3


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("{}", "f()"),
        ('{"a": 1, "_h": 2, "b": true, "c": null, "d": 4}', "f(1, true, nil, ...)"),
        ('{"a": [1, 2, 3, 4]}', "f([1 2 3 ...])"),
        ('{"a": {"x": 1, "_y": 2}}', "f({:x 1})"),
        (json.dumps({"a": "y" * 61}), f'f("{"y" * 60}...")'),
        ('{"a": "two\\nlines"}', 'f("two\\nlines")'),
    ],
)
def test_c10_arguments_are_clipped_and_hidden_ones_gone(
    arguments: str, shown: str
) -> None:
    log = turns(0)
    log.calls(("a", "f", arguments))
    log.result("a", "ok")
    assert f";   {shown}\n" in text(coalesced(log)) + "\n"


def test_c10_without_prints_there_is_no_output() -> None:
    assert ";; Output:" not in text(coalesced(turns(2)))


def test_c10_a_print_tool_prints_and_is_no_call() -> None:
    log = turns(0)
    log.turn("println", "hello")
    result = coalesced(log, tool_policy={"println": "print"})
    assert text(result).endswith(";; Output:\nhello")
    assert asked(result)["tool_calls_total"] == 0


def test_c10_the_last_turn_says_so() -> None:
    assert text(coalesced(seed(), turns_left=0)).endswith(FINAL_TURN)
    assert FINAL_TURN.startswith("FINAL WORK TURN")


def test_a29_none_are_shown_for_0_and_less_is_refused() -> None:
    options = {"println_limit": 0, "tool_call_limit": 0}
    result = coalesced(turns(2, 2), options=options)
    assert text(result) == "go"
    assert asked(result)["tool_calls_dropped"] == 2
    with pytest.raises(OptionError, match="println_limit"):
        registry.validate_options("coalesced", {"println_limit": -1})


def test_the_newest_order_stands_after_the_mission() -> None:
    """I17; the state stands last."""
    log = seed()
    log.user("Hurry!", "broadcast")
    result = coalesced(
        log, mission="Shop.", turns_left=2, render_state=lambda n: "FUEL"
    )
    assert text(result).startswith("Shop.\n\nHurry!\n\n;; Tool calls")
    assert text(result).endswith("Turns left: 2\n\nFUEL")
    own = text(coalesced(log))
    assert own.startswith("Find well-reviewed products in stock\n\nHurry!\n\n")


def test_a28_what_is_fixed_comes_first() -> None:
    """A turn more changes nothing before the newest definition."""
    fixed = {"tools": {"t": "x:int -> int"}, "data": {"d": [1]}}
    one = text(coalesced(turns(2), definitions={"a": 1}, **fixed))
    two = text(coalesced(turns(3), definitions={"a": 1, "b": 2}, **fixed))
    prefix = one[: one.index("\n\n;; Tool calls made:")]
    assert two.startswith(prefix)


def test_a_long_signature_stands_apart_from_its_tool() -> None:
    name = "search-the-reviews-of-all-products"
    shown = text(coalesced(seed(), tools={name: "query:string -> string"}))
    assert f"(tool/{name} query) ; query:string -> string\n" in shown


def test_i13_what_is_too_long_is_cut_with_its_handle() -> None:
    log = turns(3)
    log.says("y" * 5_000)
    result = coalesced(log, counter="chars", budget=Budget(1_000, 0))
    assert "ctx://self/8]" in text(result)
    assert len(text(result)) <= 1_000
    tiny = coalesced(turns(400), counter="chars", budget=Budget(60, 0))
    assert text(tiny).startswith("go")
    assert asked(tiny)["tool_calls_shown"] == text(tiny).count("mine(")


def test_parameters_are_read_from_a_schema_too() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    tools = {"travel": {"inputSchema": schema}, "scan": {"description": "Looks."}}
    shown = text(coalesced(seed(), tools=tools))
    assert "(tool/travel id)                 ; id:string\n" in shown
    assert "(tool/scan)                      ; Looks.\n" in shown
