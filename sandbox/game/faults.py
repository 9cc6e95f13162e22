"""What goes wrong on purpose: everything that was seen to go wrong in the real game.

Every call of an account is tried against each kind's rate, by a chance that follows
from the seed, the account and the number of its call: the same play meets the same
faults, whatever other accounts do meanwhile.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

from sandbox.game.config import Json, make_dice

# Kinds that keep an answer back; the first that strikes is the only one.
STOPPING = ("lost-transport", "lost-session", "429", "rate-limit", "502", "lost-answer")
# Kinds that change when or how an answer comes; they may strike together.
SHAPING = ("delay", "null-lists", "text", "sse")
VANISH = "vanish"
KINDS = (*STOPPING, *SHAPING, VANISH)
VANISHED_TICKS = 25
# Tools that never vanish, else nobody could play at all.
STAYING = frozenset({"register", "login", "logout"})


@dataclass(frozen=True, slots=True)
class Plan:
    """How often each kind strikes, from 0 to 1, and the tools that are gone for good."""

    rates: Mapping[str, float] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


def parse_plan(text: str) -> Plan:
    """Read `lost-session=0.01,502=0.02,vanish=get_ship+scan`. Raises ValueError.

    `vanish` takes a rate or the names of tools, joined by `+`.
    """
    rates: dict[str, float] = {}
    gone: frozenset[str] = frozenset()
    for part in filter(None, (one.strip() for one in text.split(","))):
        kind, _, value = part.partition("=")
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no fault; choose from {', '.join(KINDS)}")
        if kind == VANISH and value and not value[0].isdigit():
            gone = frozenset(value.split("+"))
        else:
            rates[kind] = _rate(kind, value)
    return Plan(rates, gone)


def _rate(kind: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise ValueError(f"{kind} needs a rate from 0 to 1, such as {kind}=0.02")
    return rate


@dataclass(frozen=True, slots=True)
class Order:
    """A fault that strikes the next call that fits; an empty field fits every one."""

    kind: str
    tool: str = ""
    username: str = ""

    def fits(self, username: str, tool: str) -> bool:
        return self.tool in ("", tool) and (
            not self.username or self.username.casefold() == username.casefold()
        )


class Faults:
    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.plan = plan or Plan()
        self.struck: Counter[str] = Counter()
        self._seed = seed
        self._orders: list[Order] = []
        self._calls: Counter[str] = Counter()

    def order(self, order: Order) -> None:
        """Let a fault strike once. Raises ValueError for an unknown kind."""
        if order.kind not in (*STOPPING, *SHAPING):
            raise ValueError(f"{order.kind!r} cannot strike once")
        self._orders.append(order)

    @property
    def active(self) -> bool:
        return bool(self.plan.rates or self._orders)

    def strike(self, username: str, tool: str) -> frozenset[str]:
        """Decide what goes wrong with the next call of an account."""
        self._calls[username] += 1
        ordered = [order for order in self._orders if order.fits(username, tool)][:1]
        if ordered:
            self._orders.remove(ordered[0])
        kinds = [order.kind for order in ordered] or [
            kind for kind in (*STOPPING, *SHAPING) if self._hits(kind, username)
        ]
        stopping = [kind for kind in kinds if kind in STOPPING]
        hit = frozenset(stopping[:1] or kinds)
        self.struck.update(hit)
        return hit

    def _hits(self, kind: str, username: str) -> bool:
        rate, number = self.plan.rates.get(kind, 0.0), self._calls[username]
        # No die is made for what cannot happen.
        return rate > 0 and (
            make_dice(self._seed, "fault", kind, username, number).random() < rate
        )

    def hidden(self, tool: str, tick: int) -> bool:
        """Has this tool vanished? By chance it does so for a while."""
        if tool in self.plan.gone:
            return True
        rate = self.plan.rates.get(VANISH, 0.0)
        if not rate or tool in STAYING:
            return False
        period = tick // VANISHED_TICKS
        return make_dice(self._seed, "vanish", tool, period).random() < rate


def render_text(value: Any) -> str:
    """Render a JSON answer for a person: lines, and tables with tabs for lists."""
    if value == [] or (isinstance(value, Mapping) and value.get("count") == 0):
        return "No notifications."
    return "\n".join(_lines(value, ""))


def _lines(value: Any, title: str) -> list[str]:
    if isinstance(value, Mapping):
        return _section(value, title)
    if isinstance(value, list):
        return _table(value, title)
    return [f"{title}: {_cell(value)}"]


def _section(view: Mapping[str, Any], title: str) -> list[str]:
    lines = [f"## {title}"] if title else []
    plain = {k: v for k, v in view.items() if not isinstance(v, Mapping | list)}
    lines += [f"{_words(name)}: {_cell(value)}" for name, value in plain.items()]
    for name, value in view.items():
        if name not in plain:
            lines += ["", *_lines(value, _words(name))]
    return lines


def _table(rows: list[Any], title: str) -> list[str]:
    lines = [f"{title} ({len(rows)})"]
    if not all(isinstance(row, Mapping) for row in rows):
        return [*lines, ", ".join(_cell(row) for row in rows)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines.append("\t".join(names))
    return lines + ["\t".join(_cell(row.get(name)) for name in names) for row in rows]


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_cell(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ",".join(_cell(one) for one in value)
    return str(value).replace("\t", " ").replace("\n", " ")


class Reshaped:
    """An ASGI `send` that keeps the answer to a call until it is whole.

    Forms: `null-lists` (empty lists become null), `text` (no JSON any more), `sse` (an
    event stream). Errors keep their words.
    """

    def __init__(self, send: Send, forms: AbstractSet[str]) -> None:
        self._send = send
        self._forms = forms
        self._start: Message = {}
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        headers = MutableHeaders(scope=self._start)
        kind, body = self._reshape(headers.get("content-type", ""))
        headers["content-type"], headers["content-length"] = kind, str(len(body))
        await self._send(self._start)
        await self._send({"type": "http.response.body", "body": body})

    def _reshape(self, kind: str) -> tuple[str, bytes]:
        streamed = kind.startswith("text/event-stream")
        answer = _answer(self._body, streamed=streamed)
        if self._start.get("status") != 200 or answer is None:
            return kind, self._body
        _change(answer, self._forms)
        text = json.dumps(answer, ensure_ascii=False)
        if streamed or "sse" in self._forms:
            return "text/event-stream", f"event: message\ndata: {text}\n\n".encode()
        return "application/json", text.encode()


def _answer(body: bytes, *, streamed: bool) -> Json | None:
    """Find the answer to the call in a body; None where it has another form."""
    lines = [body]
    if streamed:
        lines = [one[5:] for one in body.splitlines() if one.startswith(b"data:")]
    found = (json.loads(line) for line in lines if line.strip())
    answers = (one for one in found if isinstance(one, dict) and "result" in one)
    return next(answers, None)


def _change(answer: Json, forms: AbstractSet[str]) -> None:
    result = answer["result"]
    if result.get("isError"):
        return
    block = result["content"][0]
    try:
        value = json.loads(block["text"])
    except ValueError:
        return  # a text already: it has no lists
    if "null-lists" in forms:
        value = null_empty_lists(value)
        block["text"] = json.dumps(value, indent=2, ensure_ascii=False)
    if "text" in forms:
        block["text"] = render_text(value)


def null_empty_lists(value: Any) -> Any:
    """Write every empty list as null, as Go writes a nil slice."""
    if isinstance(value, dict):
        return {name: null_empty_lists(one) for name, one in value.items()}
    if isinstance(value, list):
        return [null_empty_lists(one) for one in value] or None
    return value
