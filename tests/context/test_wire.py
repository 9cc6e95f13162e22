"""The anthropic dialect, thinking blocks, secrets, and the validator itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.context import registry
from memory.context.call_ids import make_call_id
from memory.context.documents import build_result_document
from memory.context.report import count_shared_bytes
from memory.context.wire import find_problems
from tests.context.histories import SECRET, Log
from tests.context.views import fate, line, sent, view


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_anthropic_joins_what_follows_on_one_side() -> None:
    log = Log()
    log.user("one")
    log.user("two", "broadcast")
    log.says("Hm.")
    log.calls(("odd id!", "mine", '{"n": 1}'), content="Mining.")
    log.result("odd id!", "no", is_error=True)
    log.user("three")
    result = view(
        log, dialect="anthropic", system="You are Ada.", render_state=lambda size: "S"
    )
    assert result.system == "You are Ada."
    assert result.messages == [
        {"role": "user", "content": [text("one"), text("two")]},
        {
            "role": "assistant",
            "content": [
                text("Hm."),
                text("Mining."),
                {
                    "type": "tool_use",
                    "id": make_call_id("odd id!", 4, 0),
                    "name": "mine",
                    "input": {"n": 1},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": make_call_id("odd id!", 4, 0),
                    "content": "no",
                    "is_error": True,
                },
                text("three"),
                text("S"),
            ],
        },
    ]
    assert result.sources == [[1, 2], [3, 4], [5, 6]]
    assert [(e.position, e.kind) for e in result.synthetic] == [(2, "state")]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ("get_ship", "get_ship"),
        ("functions.get_ship", "functions_get_ship"),
        ("kaufe Öl!", "kaufe__l_"),
        ("", "unknown"),
        ("x" * 65, "x" * 64),
        ("fly\x00\ud800", "fly__"),
    ],
)
def test_stored_names_go_out_as_providers_take_them(
    dialect: Any, stored: str, named: str
) -> None:
    """A name that was stored once must not have every later request refused."""
    log = Log()
    log.user("go")
    log.calls(("a", stored, "{}"))
    log.result("a", "ok")
    result = view(log, dialect=dialect)
    if dialect == "openai":
        name = result.messages[1]["tool_calls"][0]["function"]["name"]
    else:
        name = result.messages[1]["content"][0]["name"]
    assert name == named
    assert find_problems(dialect, result.messages) == []


def test_anthropic_refuses_blank_texts_so_none_are_sent() -> None:
    log = Log()
    log.user(" \n")
    log.user("go")
    log.calls("mine", content="  ")
    log.result("c3.0", "", is_error=True)
    result = view(log, dialect="anthropic")
    assert fate(result, 1) == "empty"
    assert [block["type"] for block in result.messages[1]["content"]] == ["tool_use"]
    assert result.messages[2]["content"][0]["content"] == "(empty)"
    assert sent(view(log))[0] == 1, "chat completions take them"


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("strategy", registry.list_names())
def test_i27_a_secret_is_hidden_however_json_spells_it(
    strategy: str, dialect: Any
) -> None:
    secret = 'p\u00e4ss "w0rd" \\ 1'
    log = Log()
    log.calls(("s", "login", json.dumps({"password": secret})))
    log.result("s", "ok")
    log.user(f"Note {secret}.")
    for ascii_only in (True, False):
        text = json.dumps({"note": f"It is {secret}!"}, ensure_ascii=ascii_only)
        log.calls((f"n{ascii_only}", "write_note", text))
        log.result(f"n{ascii_only}", text)
    policy = {"login": "secret"}
    result = view(log, strategy, dialect=dialect, tool_policy=policy)
    wire = json.dumps(result.messages)
    assert "w0rd" not in wire
    if strategy != "coalesced":
        assert wire.count("It is [redacted]!") == 4


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("strategy", registry.list_names())
@pytest.mark.parametrize("depth", [100, 500, 900])
def test_arguments_may_be_nested_deeply(
    strategy: str, dialect: Any, depth: int
) -> None:
    """Whatever can be read can be sent, by every strategy, and asked to be told."""
    arguments = '{"a":' * depth + "1" + "}" * depth
    log = Log()
    log.user("go")
    log.calls(("a", "mine", arguments))
    log.result("a", "ore")
    log.says("Done.")
    options = {"threshold": 1, "keep_recent": 0, "max_summary_tokens": 1}
    more = {"options": options} if strategy == "summary" else {}
    data = {"deep": json.loads(arguments)}
    result = view(log, strategy, dialect=dialect, data=data, **more)
    text = json.dumps(build_result_document(result))
    assert (arguments[:100] in text.replace('\\"', '"').replace(" ", "")) == (
        strategy != "coalesced"
    )


def test_a_number_without_end_can_be_sent() -> None:
    """1e999 is JSON and infinity is not."""
    log = Log()
    log.user("go")
    log.calls(("a", "mine", '{"n": 1e999, "m": 1.5}'))
    log.result("a", "ore")
    result = view(log, dialect="anthropic")
    assert result.messages[1]["content"][0]["input"] == {"n": "inf", "m": 1.5}
    json.dumps(result.messages, allow_nan=False)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_reasoning_goes_out_signed_or_not_at_all(dialect: Any) -> None:
    log = Log()
    log.user("go")
    log.turn("mine", "a", call={"reasoning": "secret plan", "signature": "c2ln"})
    log.turn("mine", "b", call={"reasoning": "unsigned plan"})
    log.turn("mine", "c", call={"reasoning": "odd \ud800 plan", "signature": "c2ln"})
    log.turn("mine", "d", call={"reasoning": "odd plan", "signature": "c2\ud800"})
    wire = json.dumps(view(log, dialect=dialect).messages)
    assert ("secret plan" in wire) == (dialect == "anthropic")
    assert "unsigned plan" not in wire
    assert "odd" not in wire


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a11_what_a_secret_tool_took_and_gave_is_hidden_everywhere(
    dialect: Any,
) -> None:
    log = Log()
    log.prompt(f"Your password is {SECRET}.")
    log.user(f"Use {SECRET}!")
    log.calls(("a", "login", json.dumps({"username": "Void", "password": SECRET})))
    log.result("a", json.dumps({"token": "tok-123456", "message": "Welcome, Void."}))
    log.says("I noted tok-123456 for Void.")
    log.user("go on")
    result = view(
        log,
        tool_policy={"login": "secret"},
        dialect=dialect,
        pins=(f"pin {SECRET}",),
        render_state=lambda size: f"state {SECRET}",
    )
    wire = json.dumps([result.messages, result.system])
    assert SECRET not in wire
    assert "tok-123456" not in wire
    assert "for Void." in wire, "what is no secret stays"
    assert "[redacted]" in wire
    assert (fate(result, 4), line(result, 4).handle) == ("kept", None)


def user(content: Any = "go") -> dict[str, Any]:
    return {"role": "user", "content": content}


def calling(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    """Calls under ids of nine letters, of which one is given."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": call_id * 9,
                "type": "function",
                "function": {"name": "mine", "arguments": arguments},
            }
            for call_id in ids
        ],
    }


def answer(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id * 9, "content": ""}


SAID = {"role": "assistant", "content": "Aye."}
LOOP = [calling("a"), answer("a")]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "assistant", "content": "hi"}, user()],
        [user(), {"role": "assistant", "content": "hi"}],
        [user(), {"role": "system", "content": "late"}],
        [user("")],
        [user("lone \ud800")],
        [user("nul \x00")],
        [user(None)],
        [user(), {"role": "assistant", "content": None}, user()],
        [user(), calling("a")],
        [user(), calling("a"), user()],
        [user(), calling("a", "b"), answer("a")],
        [user(), calling("a"), answer("a"), answer("a")],
        [user(), calling("a"), user(), answer("a")],
        [user(), answer("a")],
        [user(), calling("a", "a"), answer("a"), answer("a")],
        [user(), calling("a"), answer("a"), calling("a"), answer("a")],
        [user(), calling("a", arguments="[]"), answer("a")],
        [user(), calling("a", arguments="no"), answer("a")],
        [user(), calling("", arguments="{}"), answer("")],
        [{"role": "robot", "content": "x"}],
        [user(), calling("call_"), answer("call_")],
        [user(), user()],
        [user(), SAID, SAID, user()],
        [user(), *LOOP, user()],
        [user(), SAID, *LOOP, SAID, user()],
    ],
)
def test_the_validator_refuses_what_some_server_refuses(messages: list[Any]) -> None:
    assert find_problems("openai", messages)


def blocks(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


USE = {"type": "tool_use", "id": "aaaaaaaaa", "name": "mine", "input": {}}
GOT = {"type": "tool_result", "tool_use_id": "aaaaaaaaa", "content": "x"}


@pytest.mark.parametrize(
    "messages",
    [
        [blocks("assistant", text("x")), blocks("user", text("x"))],
        [blocks("user", text("x")), blocks("user", text("x"))],
        [blocks("user", text("x")), blocks("assistant", text("x"))],
        [blocks("user")],
        [blocks("user", text(" "))],
        [blocks("user", USE)],
        [blocks("user", {"type": "thinking"})],
        [
            blocks("user", text("x")),
            blocks("assistant", GOT),
            blocks("user", text("x")),
        ],
        [
            blocks("user", text("x")),
            blocks("assistant", USE),
            blocks("user", text("x")),
        ],
        [
            blocks("user", text("x")),
            blocks("assistant", USE),
            blocks("user", text("x"), GOT),
        ],
        [
            blocks("user", text("x")),
            blocks("assistant", {"type": "thinking", "thinking": "t"}, USE),
            blocks("user", GOT),
        ],
        [blocks("user", GOT)],
        [{"role": "system", "content": [text("x")]}],
        [{"role": "user", "content": "x"}],
    ],
)
def test_the_validator_refuses_what_anthropic_refuses(messages: list[Any]) -> None:
    assert find_problems("anthropic", messages)


def test_the_validator_takes_what_is_valid() -> None:
    both = [user(), calling("a", "b"), answer("b"), answer("a")]
    assert find_problems("openai", both) == []
    by_turns = [user(), *LOOP, SAID, user(), calling("b"), answer("b"), SAID, user()]
    assert find_problems("openai", by_turns) == []
    good = [blocks("user", text("x")), blocks("assistant", USE), blocks("user", GOT)]
    assert find_problems("anthropic", good) == []


def test_shared_bytes_end_inside_the_first_message_that_differs() -> None:
    one, two = user("aaaa"), user("aabb")
    size = len('{"role":"user","content":"aaaa"}')
    assert count_shared_bytes(None, [one]) == 0
    assert count_shared_bytes([one, two], [one, one]) == size + size - 4
    assert count_shared_bytes([one], [one, two]) == size
