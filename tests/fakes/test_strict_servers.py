"""What each of the strict servers refuses, and that it answers what it takes."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.fakes.openai import KEY, Json, call
from tests.fakes.strict_servers import ALTERNATE, RULES, StrictServer, ask, say

SYSTEM = {"role": "system", "content": "You fly a ship."}
USER = {"role": "user", "content": "Look around."}
TEXT = {"role": "assistant", "content": "Aye."}


def calls(*ids: str, text: str | None = None) -> Json:
    made = [call("get_status", "{}", one) for one in ids]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(call_id: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": "docked"}


def loop(call_id: str = "abcDEF012") -> list[Json]:
    return [calls(call_id), result(call_id)]


def post(server: StrictServer, *messages: Json) -> httpx2.Response:
    return httpx2.post(
        f"{server.url}/chat/completions",
        json={"model": "gpt-5-nano", "messages": list(messages)},
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=60,
    )


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    "messages",
    [
        [SYSTEM, USER],
        [USER],
        [SYSTEM, USER, *loop()],
        [SYSTEM, USER, *loop("abcDEF012"), *loop("abcDEF013")],
        [SYSTEM, USER, *loop(), TEXT, USER],
        [SYSTEM, USER, calls("a" * 9, "b" * 9), result("a" * 9), result("b" * 9)],
        [SYSTEM, USER, TEXT, USER, *loop()],
    ],
)
def test_what_every_server_takes_is_answered(rules: str, messages: list[Json]) -> None:
    with StrictServer(rules, answers=[ask("get_ship"), say("Done.")]) as server:
        answers = [post(server, *messages).json() for _ in range(3)]
    first, second, third = (one["choices"][0]["message"] for one in answers)
    assert first["tool_calls"][0]["function"]["name"] == "get_ship"
    assert (second["content"], third["content"]) == ("Done.", "Aye.")
    assert (server.count, server.refusals.total()) == (3, 0)


JINJA = f"Error: Jinja Exception: {ALTERNATE}"
LONG = "x" * 41


@pytest.mark.parametrize(
    ("rules", "messages", "status", "said"),
    [
        ("mistral", [*loop(), USER], 400, "Unexpected role 'user' after role 'tool'"),
        ("mistral", loop("call_0001"), 400, "Tool call id was call_0001 but must be"),
        ("mistral", loop("a" * 10), 400, "with a length of 9."),
        ("mistral", [*loop(), *loop()], 400, "Duplicate tool call id"),
        ("template", [USER], 500, JINJA),
        ("template", [*loop(), USER], 500, JINJA),
        ("template", [TEXT, TEXT, USER], 500, JINJA),
        ("template", [TEXT, *loop(), TEXT, USER], 500, JINJA),
        ("strict-template", [USER], 500, JINJA),
        ("strict-template", [TEXT, *loop()], 500, JINJA),
        ("strict-template", [TEXT], 500, "Expected last role user or tool"),
        ("openai", loop(LONG), 400, "length 40, but got a string with length 41"),
        ("openai", [*loop(), *loop()], 400, "Duplicate value for 'tool_call_id'"),
        ("openai", [calls("a", "b"), result("a")], 400, "must be followed by tool"),
        ("openai", [result("a")], 400, "must be followed by tool"),
    ],
)
def test_what_breaks_a_rule_is_refused_in_the_servers_own_words(
    rules: str, messages: list[Json], status: int, said: str
) -> None:
    with StrictServer(rules) as server:
        answer = post(server, SYSTEM, USER, *messages)
    assert answer.status_code == status
    body: Any = answer.json()
    assert said in (body if rules == "mistral" else body["error"])["message"]
    assert server.refusals == {rules: 1}
    assert server.count == 1
    if rules == "mistral":
        assert body["object"] == "error"
        assert body["code"] in ("3230", "3280")


def test_several_rules_count_apart_and_answers_may_be_made_of_the_request() -> None:
    def count(body: Json) -> Json:
        return say(f"{len(body['messages'])} messages")

    with StrictServer("openai", "mistral", answers=count) as server:
        answer = post(server, SYSTEM, USER, *loop()).json()
        post(server, SYSTEM, USER, *loop("call_1"))
        post(server, SYSTEM, USER, *loop(LONG))
    assert answer["choices"][0]["message"]["content"] == "4 messages"
    assert server.refusals == {"mistral": 1, "openai": 1}
    assert server.count == 3
