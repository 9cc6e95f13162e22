"""Orders as pages show them: how far each has come as a bar and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from django.utils import timezone

from agents.models import Mysis, OrderState
from agents.models.fleet import find_page_key
from agents.models.orders import OPEN_STATES
from agents.order_status import (
    OrderCounts,
    OrderStatus,
    RecipientStatus,
    read_order,
    read_orders,
    select_orders,
)
from agents.templatetags.zoea import order_state

# Orders under the composer, and on a page of their own list.
SHOWN = 10
PAGE = 50
# Names of those who will never take an order up.
NAMED = 3
# The states of a bar, the end first.
BAR = ("done", "not_done", "superseded", "answered", "shown", "queued")
# Minutes from which on hours are told.
HOURS_FROM = 120
# Widths of a bar are parts of this.
WHOLE = 100.0


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: those in one state, from ``x`` on."""

    state: str
    count: int
    x: float
    width: float

    @property
    def words(self) -> str:
        return f"{self.count} {order_state(self.state)}"


@dataclass(frozen=True, slots=True)
class Act:
    """What an operator may say of an order."""

    state: str
    words: str
    icon: str = ""


# Of one that is open, and of one that has ended.
ENDS = (
    Act("done", "Done", "check"),
    Act("not_done", "Not done", "close"),
    Act("superseded", "Clear"),
)
REOPENS = (Act("open", "Open again"),)


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One order of a list; ``whom`` it was for, ``said`` how far it has come."""

    order: OrderStatus
    whom: str
    said: str
    bar: tuple[Segment, ...]

    @property
    def acts(self) -> tuple[Act, ...]:
        return ENDS if self.order.is_open else REOPENS


@dataclass(frozen=True, slots=True)
class RecipientLine:
    """What became of an order with one Mysis; ``key`` names it in addresses."""

    status: RecipientStatus
    key: str

    @property
    def acts(self) -> tuple[Act, ...]:
        return ENDS if self.status.is_open else REOPENS

    @property
    def silence(self) -> str:
        """For how long it has owed a word: "12 turns, 35 min"."""
        turns = self.status.turns
        minutes = (timezone.now() - self.status.since_at) // timedelta(minutes=1)
        told = f"{turns} {'turn' if turns == 1 else 'turns'}"
        if not minutes:
            return told
        time = f"{minutes} min" if minutes < HOURS_FROM else f"{minutes // 60} h"
        return f"{told}, {time}"

    @property
    def was_missed(self) -> bool:
        """Whether the order ended before it was shown."""
        return not self.status.is_open and self.status.shown_at is None


@dataclass(frozen=True, slots=True)
class StateGroup:
    """The recipients in one state, by name."""

    state: str
    recipients: tuple[RecipientLine, ...]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


def load_lines(
    state: str = "", before: int | None = None, most: int = SHOWN
) -> list[OrderLine]:
    """The newest orders, newest first; of those in a state, and before one."""
    rows = select_orders(state).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = read_orders(list(rows[:most]), NAMED, stuck_only=True)
    names = _name_targets(found)
    return [make_line(one, names) for one in found]


def _name_targets(orders: Iterable[OrderStatus]) -> dict[int, str]:
    """The names of the first Myses that orders name."""
    ids = {number for one in orders for number in one.to.get("myses", [])[:NAMED]}
    return dict(Mysis.objects.filter(pk__in=ids).values_list("pk", "name"))


def make_line(order: OrderStatus, names: dict[int, str]) -> OrderLine:
    """An order as a line; its recipients are those who will never take it up."""
    stuck = [one for one in order.recipients if one.never]
    return OrderLine(
        order,
        name_target(order, names),
        describe_counts(order.counts, stuck),
        tuple(draw_bar(order.counts)),
    )


def name_target(order: OrderStatus, names: dict[int, str]) -> str:
    """Whom an order was for, in words."""
    if "myses" not in order.to:
        [(what, name)] = order.to.items() or [("fleet", True)]
        return "the fleet" if what == "fleet" else f"{what} {name}"
    ids = order.to["myses"]
    told = [names.get(number, "one that is gone") for number in ids[:NAMED]]
    rest = len(ids) - len(told)
    return ", ".join(told) + (f" and {rest} more" if rest > 0 else "")


def describe_counts(counts: OrderCounts, stuck: Sequence[RecipientStatus]) -> str:
    """ "14 sent, 12 shown, 9 done, 1 never will: errored Xeno"."""
    if not counts.sent:
        return "reached nobody"
    parts = [f"{counts.sent} sent", f"{counts.shown} shown", f"{counts.done} done"]
    parts += [f"{counts.not_done} not done"] if counts.not_done else []
    parts += (
        [f"{counts.superseded} {order_state('superseded')}"]
        if counts.superseded
        else []
    )
    parts += [f"{counts.overdue} without a word"] if counts.overdue else []
    if counts.never:
        names = [f"{one.never.partition(':')[0]} {one.name}" for one in stuck[:NAMED]]
        more = counts.never - len(names)
        names += [f"{more} more"] if more > 0 else []
        parts.append(f"{counts.never} never will: {', '.join(names)}")
    return ", ".join(parts)


def draw_bar(counts: OrderCounts) -> Iterable[Segment]:
    """The parts of a bar; each recipient is in one of them."""
    x = 0.0
    for state in BAR:
        if count := counts.count_in(state):
            width = WHOLE * count / counts.sent
            yield Segment(state, count, round(x, 2), round(width, 2))
            x += width


def load_order(number: int) -> tuple[OrderLine, list[StateGroup]] | None:
    """One order with its recipients by state, those that are open first."""
    found = read_order(number)
    if found is None:
        return None
    places = {str(state): place for place, state in enumerate(OrderState)}
    rows = sorted(found.recipients, key=lambda one: (places[one.state], one.name))
    groups = [
        StateGroup(
            state,
            tuple(
                RecipientLine(one, find_page_key(one.mysis_id, one.name))
                for one in each
            ),
        )
        for state, each in groupby(rows, key=lambda one: one.state)
    ]
    return make_line(found, _name_targets([found])), groups
