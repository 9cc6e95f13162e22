"""What goes wrong on purpose: everything that was seen to go wrong in the real game.

Every call of an account is tried against each kind's rate, by a chance that follows
from the seed, the account and the number of its call: the same play meets the same
faults, whatever other accounts do meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sandbox.game.dice import dice

STOPPING = ("lost-transport", "lost-session", "429", "rate-limit", "502", "lost-answer")
"""Kinds that keep an answer back; the first that strikes is the only one."""

SHAPING = ("delay", "null-lists", "text", "sse")
"""Kinds that change when or how an answer comes; they may strike together."""

VANISH = "vanish"
KINDS = (*STOPPING, *SHAPING, VANISH)
VANISHED_TICKS = 25
STAYING = frozenset({"register", "login", "logout"})
"""Tools that never vanish, else nobody could play at all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How often each kind strikes, from 0 to 1, and the tools that are gone for good."""

    rates: Mapping[str, float] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


def parse(text: str) -> Plan:
    """Read `lost-session=0.01,502=0.02,vanish=get_ship+scan`.

    `vanish` takes a rate or the names of tools, joined by `+`. Raises ValueError with
    one line that says what is wrong.
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
    """A fault that strikes once, at the next call that fits.

    An empty `tool` or `username` fits every one.
    """

    kind: str
    tool: str = ""
    username: str = ""

    def fits(self, username: str, tool: str) -> bool:
        return self.tool in ("", tool) and (
            not self.username or self.username.casefold() == username.casefold()
        )


class Faults:
    """The faults of one running game."""

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
        hit = self._ordered(username, tool) or self._by_chance(username)
        self.struck.update(hit)
        return hit

    def _ordered(self, username: str, tool: str) -> frozenset[str]:
        for order in self._orders:
            if order.fits(username, tool):
                self._orders.remove(order)
                return frozenset({order.kind})
        return frozenset()

    def _by_chance(self, username: str) -> frozenset[str]:
        number = self._calls[username]
        for kind in STOPPING:
            if self._hits(kind, username, number):
                return frozenset({kind})
        return frozenset(k for k in SHAPING if self._hits(k, username, number))

    def _hits(self, kind: str, username: str, number: int) -> bool:
        rate = self.plan.rates.get(kind, 0.0)
        if not rate:
            return False
        return dice(self._seed, "fault", kind, username, number).random() < rate

    def hidden(self, tool: str, tick: int) -> bool:
        """Has this tool vanished? By chance it does so for a while."""
        if tool in self.plan.gone:
            return True
        rate = self.plan.rates.get(VANISH, 0.0)
        if not rate or tool in STAYING:
            return False
        period = tick // VANISHED_TICKS
        return dice(self._seed, "vanish", tool, period).random() < rate
