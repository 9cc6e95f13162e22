"""Whose the credits are: the sum of a fleet is the sum of its purses, in every report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from agents.dashboard.charts import load_last_hours
from agents.dashboard.compare import CompareView, compare
from agents.dashboard.digest import make_digest
from agents.dashboard.mysis import load_credits_trend
from agents.dashboard.time_axis import TimeSpan
from agents.dashboard.yields import (
    GROUPINGS,
    NO_TURN,
    add_up_lines,
    add_up_yield,
    list_lines,
)
from agents.game import accounts
from agents.game.accounts import Credentials, make_card
from agents.lab.analytics import add_up_outcomes
from agents.models import Account, CreditChange, Mysis, Turn
from agents.runtime.turn_rows import close_open_turns
from agents.tools.request import (
    INTERRUPTED,
    Answer,
    CallPlace,
    Outcome,
    Request,
    Tool,
    ToolSession,
    ToolSpec,
)
from agents.tools.snapshot import store_call
from agents.tools.unknown_outcomes import lose_events
from memory.models import GameSnapshot
from tests.factories import make_account, make_memory, make_mysis

pytestmark = pytest.mark.django_db

POLICIES = {
    "get_status": "snapshot",
    "get_notifications": "drain",
    "sell": "mutation",
    "refuel": "mutation",
}
TOOLS = {
    name: Tool(ToolSpec(name, "", {}, policy, policy != "mutation"))
    for name, policy in POLICIES.items()
}
# What each action brings.
BRINGS = {"sell": 88, "refuel": -7}
SETTINGS = ("thrift", "haste")


@dataclass
class Purse:
    """What an account truly has, what it is about to do, and what it was not told yet."""

    credits: int = 100
    queued: list[str] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)


class World:
    """A game without a server, and what the program stores of its answers."""

    def __init__(self, *names: str) -> None:
        self.tick, self.told = 100, 0
        self.myses, self.purses = [], {}
        for name in names:
            account = make_account()
            mysis = make_mysis(name=name, state="running", account=account)
            self.myses.append(mysis)
            self.purses[account.username] = Purse()

    def answer(self, mysis: Mysis, tool: str, body: Any, turn: Turn | None) -> None:
        assert mysis.account is not None
        session = ToolSession(mysis.pk, TOOLS, card=make_card(mysis.account))
        place = CallPlace(turn=turn.pk if turn else None)
        request = Request(session, tool, place=place)
        outcome, now = Outcome((json.dumps(body),)), timezone.now()
        answer = Answer(request, outcome, mysis.account.username, now)
        request.unstored.append(answer)
        store_call(request, ())

    def find_purse(self, mysis: Mysis) -> Purse:
        assert mysis.account is not None
        return self.purses[mysis.account.username]

    def begin(self, mysis: Mysis, settings: str = "thrift") -> Turn:
        close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
        assert mysis.account is not None
        return Turn.objects.create(
            mysis=mysis,
            number=mysis.turns.count() + 1,
            trigger="nudge",
            username=mysis.account.username,
            model=settings,
            policy_name=settings,
        )

    def act(self, mysis: Mysis, tool: str = "sell", **values: Any) -> Turn | None:
        """Queue an action, in the turn that runs, else by hand."""
        turn = mysis.turns.filter(outcome=None).first()
        row = {"role": "tool", "tool_name": tool, "turn": turn, **values}
        make_memory(mysis, **row)
        if not values.get("is_error") or INTERRUPTED in values["content"]:
            self.answer(mysis, tool, {"queued": True, "tick": self.tick}, turn)
            self.find_purse(mysis).queued.append(tool)
        return turn

    def pass_tick(self) -> None:
        self.tick += 1
        for purse in self.purses.values():
            for tool in purse.queued:
                purse.credits += BRINGS[tool]
                about = {"source": "station", "cost": 7}
                result = {"total_earned": 88} if tool == "sell" else about
                self.tell(purse, "action_result", command=tool, result=result)
            purse.queued = []

    def tell(self, purse: Purse, kind: str, **data: Any) -> None:
        self.told += 1
        now = timezone.now().isoformat()
        data["tick"] = self.tick
        event = {"id": f"e{self.told}", "msg_type": kind, "data": data}
        purse.waiting.append(event | {"timestamp": now})

    def read(self, mysis: Mysis) -> None:
        """Ask for the status."""
        assert mysis.account is not None
        told = {
            "username": mysis.account.username,
            "credits": self.find_purse(mysis).credits,
        }
        turn = mysis.turns.filter(outcome=None).first()
        self.answer(mysis, "get_status", {"player": told, "tick": self.tick}, turn)

    def drain(self, mysis: Mysis) -> None:
        """Ask for the events, in the turn that runs or between two."""
        purse = self.find_purse(mysis)
        body = {"notifications": purse.waiting, "current_tick": self.tick}
        turn = mysis.turns.filter(outcome=None).first()
        self.answer(mysis, "get_notifications", body, turn)
        purse.waiting = []

    def die(self, mysis: Mysis) -> None:
        self.tick += 1
        purse = self.find_purse(mysis)
        purse.credits -= 50
        self.tell(purse, "player_died", clone_cost=50, killer_name="Cold Mercy")

    def switch(self) -> None:
        """Let the Myses play as each other's account."""
        first, second = self.myses
        ours, theirs = first.account, second.account
        Mysis.objects.update(account=None)
        for mysis, account in ((first, theirs), (second, ours)):
            mysis.account = account
            mysis.save()


def end(mysis: Mysis) -> None:
    close_open_turns(mysis, outcome=Turn.Outcome.DONE)


def read_known() -> dict[str, int]:
    """What the program knows that each account has."""
    rows = GameSnapshot.objects.filter(tool_name="get_status", args_key="")
    known = dict(rows.values_list("username", "credits"))
    return {name: credits for name, credits in known.items() if credits is not None}


def list_changes(mysis: Mysis) -> list[tuple[int, int | None]]:
    """Each change with its turn; not what is known first."""
    rows = CreditChange.objects.filter(mysis=mysis).exclude(amount=0).order_by("pk")
    return list(rows.values_list("amount", "turn"))


# --- Whose


@pytest.fixture
def world() -> World:
    made = World("Ada", "Bea")
    for mysis in made.myses:
        made.read(mysis)
    return made


@pytest.fixture
def ada(world: World) -> Mysis:
    return world.myses[0]


@pytest.mark.parametrize("told", ["between", "next", "read", "late"])
def test_a_sale_is_of_the_turn_that_queued_it(world: World, ada: Mysis, told: str):
    world.begin(ada)
    sold = world.act(ada)
    end(ada)
    assert sold is not None
    if told != "late":
        world.pass_tick()
    if told in ("next", "late"):
        world.begin(ada)
    if told == "late":
        # Woken before the tick, and refused while that action waits.
        world.act(ada, content="Error: action_pending: Wait.", is_error=True)
        end(ada)
        world.begin(ada)
        world.pass_tick()
    (world.read if told == "read" else world.drain)(ada)
    end(ada)
    world.begin(ada)
    world.read(ada)
    assert list_changes(ada) == [(88, sold.pk)]


def test_an_action_of_unknown_outcome_that_happened_is_of_its_turn(
    world: World, ada: Mysis
):
    world.begin(ada)
    lost = world.act(ada, content=INTERRUPTED, is_error=True)
    world.begin(ada)
    world.pass_tick()
    world.read(ada)
    assert lost is not None
    assert list_changes(ada) == [(88, lost.pk)]


def test_two_outcomes_of_one_answer_are_of_two_turns(world: World, ada: Mysis):
    world.begin(ada)
    sold = world.act(ada)
    world.pass_tick()
    world.begin(ada)
    fuelled = world.act(ada, "refuel")
    world.pass_tick()
    world.drain(ada)
    assert sold is not None and fuelled is not None
    assert list_changes(ada) == [(88, sold.pk), (-7, fuelled.pk)]


@pytest.mark.parametrize("what", ["by hand", "gift", "death", "gift after a sale"])
def test_what_no_turn_caused_is_of_the_mysis(world: World, ada: Mysis, what: str):
    wanted: list[tuple[int, int | None]] = []
    if what == "gift after a sale":
        world.begin(ada)
        sold = world.act(ada)
        world.pass_tick()
        world.drain(ada)
        assert sold is not None
        wanted = [(88, sold.pk)]
    end(ada)
    if what == "by hand":
        assert world.act(ada) is None
        wanted = [(88, None)]
    elif what == "death":
        world.die(ada)
        wanted = [(-50, None)]
    else:
        world.find_purse(ada).credits += 30
        wanted = [*wanted, (30, None)]
    world.pass_tick()
    world.drain(ada)
    world.begin(ada)
    world.read(ada)
    assert list_changes(ada) == wanted
    since = timezone.now() - timedelta(minutes=5)
    found = add_up_yield(since, timezone.now())
    whole = sum(amount for amount, _ in wanted)
    assert add_up_lines(found).credits == whole
    for by in ("prompt", "policy", "model"):
        lines = {line.label: line.sums.credits for line in list_lines(found, by)}
        assert lines[NO_TURN] == wanted[-1][0]
        assert sum(filter(None, lines.values())) == whole


def test_a_starting_purse_and_another_account_are_no_gain(world: World, ada: Mysis):
    rich = next(iter(world.purses.values()))
    world.purses[make_account(username="Rich").username] = Purse(50_000)
    ada.account = Account.objects.get(username="Rich")
    ada.save()
    world.begin(ada)
    world.read(ada)
    assert rich.credits == 100
    assert list_changes(ada) == []


def test_a_name_that_is_registered_anew_starts_anew(world: World, ada: Mysis):
    assert ada.account is not None
    world.find_purse(ada).credits = 7_000
    world.read(ada)
    name = ada.account.username
    found = Credentials(password="p" * 32)
    accounts.add_registered(ada.pk, username=name, empire="", found=found)
    world.purses[name] = Purse()
    world.read(ada)
    assert list_changes(ada) == [(6_900, None)]
    assert load_credits_trend(name) is None


def test_the_page_of_a_mysis_tells_what_the_board_tells(world: World, ada: Mysis):
    world.begin(ada)
    world.act(ada)
    world.pass_tick()
    world.drain(ada)
    assert ada.account is not None
    trend = load_credits_trend(ada.account.username)
    now = timezone.now()
    lines = list_lines(add_up_yield(now - timedelta(hours=1), now), "mysis")
    assert trend is not None
    assert trend.change == lines[0].sums.credits == 88


# --- The sum


@dataclass
class Watched:
    """A moment, and what was known of each account then, or as soon as it was."""

    since: datetime
    first: dict[str, int]

    def expect(self) -> int:
        return sum(credits - self.first[name] for name, credits in read_known().items())


def check_reports(world: World, watched: Watched) -> None:
    now = timezone.now()
    wanted = watched.expect()
    found = add_up_yield(watched.since, now)
    for by in GROUPINGS:
        lines = list_lines(found, by)
        assert sum(line.sums.credits or 0 for line in lines) == wanted, by
    assert (add_up_lines(found).credits or 0) == wanted
    assert (make_digest(watched.since, now).sums.credits or 0) == wanted
    outcomes = add_up_outcomes(watched.since, now)
    assert (add_up_lines(outcomes.found).credits or 0) == wanted


def check_hour(world: World, watched: Watched) -> None:
    """What shows the last hour alone, in which all has happened."""
    now = timezone.now()
    hours = load_last_hours([mysis.pk for mysis in world.myses], now)
    assert sum(hour.earned or 0 for hour in hours.values()) == watched.expect()
    a, b = (mysis.pk for mysis in world.myses)
    span = TimeSpan.parse("1h", None, now)
    assert span is not None
    found = compare(CompareView(a, b, span), now)
    assert found is not None
    assert sum(side.gained or 0 for side in found.sides) == watched.expect()
    for side in found.sides:
        assert (side.gained or 0) == (hours[side.mysis.pk].earned or 0)
        # The line ends at what the table says.
        if side.credits and found.high > found.low:
            end = float(side.credits.rpartition(" ")[2])
            shown = found.high - (end - 2) * (found.high - found.low) / 56
            assert shown == pytest.approx(
                side.gained, abs=0.06 * (found.high - found.low) / 56 + 0.01
            )


STEPS = (
    *("begin", "end", "cut", "sell", "refuel", "tick", "tick", "drain", "drain"),
    *("read", "read", "lose", "die", "gift", "switch", "watch"),
)


def take(world: World, step: str, mysis: Mysis, place: int) -> None:
    if step == "begin":
        world.begin(mysis, SETTINGS[place % 2])
    elif step == "end":
        end(mysis)
    elif step == "cut":
        # Its worker died: the turn is taken up, and what it called is unknown.
        close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
    elif step in BRINGS:
        world.act(mysis, step)
    elif step == "tick":
        world.pass_tick()
    elif step == "lose":
        assert mysis.account is not None
        world.find_purse(mysis).waiting = []
        lose_events(mysis.pk, mysis.account.username)
    elif step == "gift":
        world.find_purse(mysis).credits += 30
    elif step == "switch":
        world.switch()
    elif step != "watch":
        getattr(world, step)(mysis)


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1)), max_size=40))
@example(
    [(step, 0) for step in ("read", "begin", "sell", "end", "tick", "drain", "begin")]
)
@example([(step, 0) for step in ("read", "gift", "read", "switch", "die", "read")])
@example(
    [(step, 1) for step in ("read", "begin", "sell", "watch", "tick", "lose", "read")]
)
def test_the_sum_of_a_fleet_is_the_sum_of_its_purses(
    db: None, steps: list[tuple[str, int]]
):
    with undone():
        world = World("Ada", "Bea")
        watched = [Watched(timezone.now(), {})]
        for place, (step, number) in enumerate(steps):
            if step == "watch":
                watched.append(Watched(timezone.now(), read_known()))
            take(world, step, world.myses[number], place)
            for one in watched:
                one.first = read_known() | one.first
        for one in watched:
            check_reports(world, one)
        check_hour(world, watched[0])
