"""OpenAI-compatible servers that refuse what one of the field's strict ones refuses.

with StrictServer("mistral", answers=[say("Aye.")]) as server:
    ...                          # any client against server.url
    server.refusals["mistral"]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from tests.fakes.openai import (
    FakeProvider,
    Json,
    RefusedError,
    Reply,
    call,
    completion,
)

Messages = Sequence[Json]
Answers = Iterable[Json] | Callable[[Json], Json]

SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
LONGEST_ID = 40


def say(text: str) -> Json:
    """An answer in words."""
    return completion(text)


def ask(*tools: str, ids: Iterable[str] = ()) -> Json:
    """An answer that calls these tools, under these ids or such as OpenAI gives."""
    given = list(ids) or [f"call_{name:0<24.24}" for name in tools]
    calls = [call(name, "{}", one) for name, one in zip(tools, given, strict=True)]
    return completion(None, tool_calls=calls)


class StrictServer(FakeProvider):
    """A provider with the rules of one of `RULES`, or of several at once.

    ``answers`` are given one after the other, then "Aye."; or are made of the request.
    """

    def __init__(self, *rules: str, answers: Answers = ()) -> None:
        super().__init__()
        self.rules = rules
        self.refusals: Counter[str] = Counter()
        self._make = answers if callable(answers) else None
        if not callable(answers):
            self.answers.extend(Reply(body=one) for one in answers)

    @property
    def count(self) -> int:
        """How many requests came."""
        return len(self.requests)

    def check(self, body: Json) -> None:
        """Raise RefusedError by the first rule that is broken, and count whose it is."""
        for name in self.rules:
            try:
                for rule in RULES[name]:
                    rule(body["messages"])
            except RefusedError:
                self.refusals[name] += 1
                raise
        super().check(body)

    def reply(self, body: Json) -> Reply:
        """What a good request is answered."""
        return Reply(body=self._make(body)) if self._make else super().reply(body)


def read_calls(messages: Messages) -> list[str]:
    """The ids of all calls, in order."""
    return [one["id"] for each in messages for one in each.get("tool_calls") or ()]


# --- Mistral's API


def refuse_user_after_tool(messages: Messages) -> None:
    roles = [each["role"] for each in messages]
    if ("tool", "user") in pairwise(roles):
        said = "Unexpected role 'user' after role 'tool'"
        raise _refuse_as_mistral(said, "invalid_request_message_order", "3230")


def refuse_odd_ids(messages: Messages) -> None:
    ids = read_calls(messages)
    results = [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    for one in (*ids, *results):
        if not SHORT_ID.fullmatch(one):
            said = (
                f"Tool call id was {one} but must be a-z, A-Z, 0-9, with a length of 9."
            )
            raise _refuse_as_mistral(said, "invalid_function_call", "3280")
    if len(set(ids)) < len(ids):
        said = "Duplicate tool call id in assistant messages"
        raise _refuse_as_mistral(said, "invalid_function_call", "3280")


def _refuse_as_mistral(said: str, kind: str, code: str) -> RefusedError:
    body = {
        "object": "error",
        "message": said,
        "type": kind,
        "param": None,
        "code": code,
    }
    return RefusedError(said, body=body)


# --- A chat template of a local server

ALTERNATE = (
    "After the optional system message, conversation roles must alternate user and "
    "assistant roles except for tool calls and results."
)


def refuse_unless_alternating(messages: Messages) -> None:
    rest = messages[1:] if messages[0]["role"] == "system" else messages
    counted = [
        each["role"]
        for each in rest
        if each["role"] != "tool" and not each.get("tool_calls")
    ]
    for place, role in enumerate(counted):
        if role != ("user", "assistant")[place % 2]:
            raise _refuse_as_template(ALTERNATE)


def refuse_assistants_in_a_row(messages: Messages) -> None:
    roles = [each["role"] for each in messages]
    if ("assistant", "assistant") in pairwise(roles):
        raise _refuse_as_template(ALTERNATE)


def refuse_other_ends(messages: Messages) -> None:
    last = messages[-1]["role"]
    if last not in ("user", "tool"):
        raise _refuse_as_template(f"Expected last role user or tool, but got {last}.")


def _refuse_as_template(said: str) -> RefusedError:
    message = f"Error: Jinja Exception: {said}"
    error = {"code": 500, "type": "server_error", "message": message}
    return RefusedError(message, 500, body={"error": error})


# --- OpenAI's API


def refuse_long_ids(messages: Messages) -> None:
    for place, each in enumerate(messages):
        for number, one in enumerate(each.get("tool_calls") or ()):
            where = f"messages[{place}].tool_calls[{number}].id"
            _check_length(where, one["id"])
        if each["role"] == "tool":
            _check_length(f"messages[{place}].tool_call_id", each["tool_call_id"])


def _check_length(where: str, given: str) -> None:
    if len(given) > LONGEST_ID:
        said = (
            f"Invalid '{where}': string too long. Expected a string with maximum "
            f"length {LONGEST_ID}, but got a string with length {len(given)} instead."
        )
        raise _refuse_as_openai(said, where, "string_above_max_length")


def refuse_equal_ids(messages: Messages) -> None:
    for one, times in Counter(read_calls(messages)).items():
        if times > 1:
            said = f"Duplicate value for 'tool_call_id' of '{one}'."
            raise _refuse_as_openai(said, "messages", None)


def refuse_open_calls(messages: Messages) -> None:
    waiting: list[str] = []
    for each in (*messages, {"role": "user"}):
        if each["role"] == "tool" and each["tool_call_id"] in waiting:
            waiting.remove(each["tool_call_id"])
        elif waiting or each["role"] == "tool":
            said = (
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'."
            )
            raise _refuse_as_openai(said, "messages", None)
        waiting += [one["id"] for one in each.get("tool_calls") or ()]


def _refuse_as_openai(said: str, where: str, code: str | None) -> RefusedError:
    error = {
        "message": said,
        "type": "invalid_request_error",
        "param": where,
        "code": code,
    }
    return RefusedError(said, body={"error": error})


Rule = Callable[[Messages], None]
_TEMPLATE: tuple[Rule, ...] = (refuse_unless_alternating,)
RULES: Mapping[str, tuple[Rule, ...]] = {
    "mistral": (refuse_user_after_tool, refuse_odd_ids),
    "template": _TEMPLATE,
    "strict-template": (*_TEMPLATE, refuse_assistants_in_a_row, refuse_other_ends),
    "openai": (refuse_long_ids, refuse_equal_ids, refuse_open_calls),
}
