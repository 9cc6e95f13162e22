"""Made-up logs: short builders for single cases, nasty generators for properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from hypothesis import strategies as st

from memory.context.types import Message, Origin, ToolCall

SECRET = "hunter2-is-my-password"

ODD_TEXTS = (
    "",
    " ",
    "\n\n",
    "Mining now.",
    "採掘中です",
    "👩‍🚀 to 🚀",
    "שלום עולם",
    "nul \x00 inside",
    "lone \ud800 surrogate",
    "\x00",
    "[TOOL_CALLS]a:b|c",
    '{"hull": 85, "note": "\\u0000"}',
    '{"error": "not docked"}',
    '{"throttled": true}',
    "Error: rate_limited: wait",
    "cafe\u0301 " * 4,
    "null",
)
NAMES = (
    "get_ship",
    "get_system",
    "get_cargo",
    "get_notifications",
    "mine",
    "travel",
    "login",
    "find_route",
    "game_help",
    "odd name!",
    "",
)
ARGUMENTS = (
    "{}",
    "",
    "null",
    '{"id": "sol"}',
    '{ "id":"sol" }',
    '{"id": "alpha", "n": [1, 2]}',
    "[1, 2]",
    "not json",
    '{"n": NaN}',
    '{"bad": "\\ud800"}',
    '{"password": "' + SECRET + '"}',
)
IDS = ("call_1", "call_2", "call_1", "", "odd id!", "x" * 45)

BIG = st.sampled_from(
    [
        base * times
        for times in (40, 400, 3_000)
        for base in ("word ", '{"a": 1}, ', "漢字", "e\u0301", "👩‍🚀", "\\n", "x")
    ]
)
HUGE = st.builds(
    lambda base, times: base * times,
    st.sampled_from(["word ", '{"a": 1}, ', "漢"]),
    st.sampled_from([30_000, 100_000]),
)
TEXTS = st.one_of(
    st.sampled_from(ODD_TEXTS),
    st.sampled_from(ODD_TEXTS),
    st.text(max_size=12),
    BIG,
)
PLAIN_TEXTS = st.sampled_from([text for text in ODD_TEXTS if text.strip(" \n\x00")])


@dataclass(slots=True)
class Log:
    """A log under construction; ids rise in the order of the calls."""

    messages: list[Message] = field(default_factory=list)
    step: int = 1

    def add(self, role: Any, content: str, origin: Origin, **more: Any) -> int:
        number = len(self.messages) * self.step + self.step
        self.messages.append(Message(number, role, origin, content, **more))
        return number

    def user(self, content: str, origin: Origin = "human", **more: Any) -> int:
        return self.add("user", content, origin, **more)

    def prompt(self, content: str, **more: Any) -> int:
        return self.add("system", content, "prompt", **more)

    def says(self, content: str, **more: Any) -> int:
        return self.add("assistant", content, "agent", **more)

    def calls(self, *calls: str | tuple[str, ...], **more: Any) -> int:
        """An assistant message; a call is a tool name or (id, name, arguments)."""
        number = len(self.messages) * self.step + self.step
        made = tuple(
            ToolCall(*call)
            if isinstance(call, tuple)
            else ToolCall(f"c{number}.{index}", call, "{}")
            for index, call in enumerate(calls)
        )
        content = more.pop("content", "")
        return self.add("assistant", content, "agent", tool_calls=made, **more)

    def result(self, call_id: str, content: str, **more: Any) -> int:
        origin = more.pop("origin", "tool")
        return self.add("tool", content, origin, tool_call_id=call_id, **more)

    def turn(self, name: str, content: str, **more: Any) -> int:
        """One call of one tool with its result; the id of the result."""
        number = self.calls(name, **more.pop("call", {}))
        return self.result(f"c{number}.0", content, **more)

    def done(self) -> tuple[Message, ...]:
        return tuple(self.messages)


@st.composite
def histories(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS) -> Log:
    """A log with everything that goes wrong in practice, in stored order."""
    log = Log(step=draw(st.sampled_from([1, 1, 7])))
    late: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 14))):
        kind = draw(st.integers(0, 11))
        if kind <= 5:
            _draw_block(draw, log, texts, late)
        elif kind <= 7:
            origin = draw(_USER_ORIGINS)
            log.user(draw(texts), origin, pinned=draw(_SELDOM))
        elif kind == 8:
            log.says(draw(texts), signed=draw(_SELDOM), pinned=draw(_SELDOM))
        elif kind == 9:
            origin = draw(_SYSTEM_ORIGINS)
            log.add("system", draw(texts), origin)
        elif kind == 10:
            log.result(draw(st.sampled_from([*IDS, "unknown"])), draw(texts))
        elif late:
            call_id, text = late.pop(0)
            log.result(call_id, text)
    return log


_USER_ORIGINS: st.SearchStrategy[Origin] = st.sampled_from(
    ["human", "human", "broadcast", "nudge"]
)
_SYSTEM_ORIGINS: st.SearchStrategy[Origin] = st.sampled_from(
    ["prompt", "prompt", "warning", "human"]
)
_RARE = [False] * 9 + [True]
_SELDOM = st.sampled_from(_RARE)
# Several choices in one: each draw costs more than a strategy's whole work on the log.
_CALLS = st.sampled_from(list(product(IDS, NAMES, ARGUMENTS)))
_BLOCKS = st.sampled_from(
    list(
        product(
            (False, True),
            (False, True),
            (1, 2, 3, 4),
            (None, "thinking", "odd \ud800"),
            (None, None, "c2ln"),
            _RARE,
            _RARE,
        )
    )
)
_RESULTS = st.sampled_from(list(product(_RARE, repeat=3)))


def _draw_block(
    draw: st.DrawFn,
    log: Log,
    texts: st.SearchStrategy[str],
    late: list[tuple[str, str]],
) -> None:
    unique, mixed, count, reasoning, signature, signed, pinned = draw(_BLOCKS)
    calls = [draw(_CALLS) for _ in range(count)]
    if unique:
        number = len(log.messages)
        calls = [(f"u{number}.{i}", *call[1:]) for i, call in enumerate(calls)]
    log.calls(
        *calls,
        content=draw(texts),
        signed=signed,
        reasoning=reasoning,
        signature=signature,
        pinned=pinned,
    )
    rows: list[tuple[str, bool]] = []
    for call_id, _, _ in calls:
        fate = draw(st.integers(0, 9))
        if fate == 0:
            continue
        if fate == 1:
            late.append((call_id, draw(texts)))
            continue
        if fate in (2, 3):
            rows.append((call_id, True))
        if fate != 3:
            rows.append((call_id, False))
        if fate == 4:
            rows.append((call_id, False))
    if mixed:
        rows = draw(st.permutations(rows))
    for call_id, pending in rows:
        interrupted, is_error, pinned = draw(_RESULTS)
        if interrupted:
            log.user(draw(texts), "broadcast")
        log.result(
            call_id, draw(texts), pending=pending, is_error=is_error, pinned=pinned
        )


@st.composite
def valid_histories(draw: st.DrawFn) -> Log:
    """A log that a provider would take as it is."""
    log = Log()
    log.user(draw(PLAIN_TEXTS_CLEAN))
    for number in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            log.says(draw(PLAIN_TEXTS_CLEAN))
            log.user(draw(PLAIN_TEXTS_CLEAN))
            continue
        names = draw(st.lists(st.sampled_from(NAMES[:6]), min_size=1, max_size=4))
        ids = [f"t{number}.{index}" for index in range(len(names))]
        arguments = draw(st.sampled_from(['{"id": "sol"}', "{}", '{"n":1.50}']))
        log.calls(*((i, name, arguments) for i, name in zip(ids, names, strict=True)))
        for call_id in draw(st.permutations(ids)):
            log.result(call_id, draw(PLAIN_TEXTS_CLEAN))
    log.says(draw(PLAIN_TEXTS_CLEAN))
    log.user("And now?")
    return log


PLAIN_TEXTS_CLEAN = st.sampled_from(
    ["Mining now.", "採掘中です", "👩‍🚀 to 🚀", "שלום", '{"hull": 85}', "  spaced  "]
)


def renamed(messages: Sequence[Message], prefix: str) -> tuple[Message, ...]:
    """The same log with every call id consistently changed."""
    return tuple(
        replace(
            message,
            tool_calls=tuple(
                replace(call, id=prefix + call.id) for call in message.tool_calls
            ),
            tool_call_id=None
            if message.tool_call_id is None
            else prefix + message.tool_call_id,
        )
        for message in messages
    )


def shuffled(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same rows as a store might hand them out."""
    return tuple(sorted(messages, key=lambda message: message.id * 7919 % 101))
