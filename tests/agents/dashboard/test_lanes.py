"""Lanes against figures that are summed from the log moment by moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents.consumers.dashboard import make_page
from agents.dashboard import lane_seconds, lanes
from agents.dashboard.lane_chart import draw_lanes
from agents.dashboard.lane_seconds import ACTIVITIES, AT_REST, TOOLS
from agents.dashboard.lanes import (
    LANES,
    LITTLE,
    QUIET,
    LanesView,
    Step,
    load_lanes,
    read_lanes,
)
from agents.dashboard.live import pages
from agents.dashboard.live.changes import Dirty
from agents.dashboard.shared_results import shared
from agents.dashboard.time_axis import Axis, TimeSpan
from agents.events import START
from agents.models import (
    Event,
    Mysis,
    Order,
    OrderRecipient,
    Prompt,
    PromptVersion,
    Turn,
)
from memory.game_calls import WRITES
from memory.models import Memory
from tests.factories import bring_in, make_memory, make_mysis, make_turn
from tests.statements import record_statements

SECOND = timedelta(seconds=1)
# A round moment, from which an axis begins at the second that was asked for.
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def viewer(db: None) -> User:
    """Somebody who may look and do nothing else."""
    return User.objects.create_user("vera")


class Story:
    """What happened to a Mysis, second by second, and the rows that tell of it."""

    def __init__(self, mysis: Mysis, since: datetime) -> None:
        self.mysis, self.since = mysis, since
        self.at = 0
        self.done: list[str] = []
        self.events: list[Event] = []
        self.turns: list[Turn] = []

    def moment(self, second: float) -> datetime:
        return self.since + second * SECOND

    def spend(self, activity: str, seconds: int) -> None:
        self.done += [activity] * seconds
        self.at += seconds

    def tell(self, kind: str, at: float, **data: Any) -> None:
        self.events.append(
            Event(
                kind=kind,
                mysis=self.mysis,
                data=data,
                created_at=self.moment(at),
                xid=0,
            )
        )

    def turn(
        self,
        *parts: tuple[str, int],
        outcome: str | None = "done",
        wait: tuple[str, int] | None = None,
    ) -> Turn:
        """A turn of parts, each a tool (or "" for thinking) and its seconds."""
        began, calls = self.at, len(self.events)
        for tool, seconds in parts:
            self.spend(TOOLS.get(tool, "thinking"), seconds)
            if tool:
                ms = seconds * 1000
                self.tell("tool.called", self.at, tool=tool, ok=True, ms=ms)
        turn = Turn(
            mysis=self.mysis,
            number=len(self.turns) + 1,
            trigger="nudge",
            outcome=outcome,
            started_at=self.moment(began),
            finished_at=None if outcome is None else self.moment(self.at),
        )
        if wait is not None:
            turn.waits_until = self.moment(self.at + wait[1])
            self.spend(*wait)
        self.turns.append(turn)
        for event in self.events[calls:]:
            event.data["turn"] = turn
        return turn

    def state(self, state: str, activity: str, seconds: int, **data: Any) -> None:
        """A change of state, and what it makes of the time after it."""
        self.tell("mysis.state", self.at, state=state, **data)
        self.spend(activity, seconds)


def write(*stories: Story) -> None:
    """The turns and events of all, in the order of time, as ids have it."""
    turns = sorted(
        (turn for story in stories for turn in story.turns),
        key=lambda turn: turn.started_at,
    )
    begins = [turn.started_at for turn in turns]
    Turn.objects.bulk_create(turns)
    for turn, at in zip(turns, begins, strict=True):
        turn.started_at = at
    Turn.objects.bulk_update(turns, ["started_at"])
    bring_in(*turns)
    found = sorted(
        (row for story in stories for row in story.events),
        key=lambda row: row.created_at,
    )
    moments = [row.created_at for row in found]
    for row in found:
        if "turn" in row.data:
            row.data["turn"] = row.data["turn"].pk
    Event.objects.bulk_create(found)
    for row, at in zip(found, moments, strict=True):
        row.created_at = at
    Event.objects.bulk_update(found, ["created_at"])


def make_axis(seconds: int, step: int, since: datetime = NOON) -> Axis:
    count = -(-seconds // step)
    return Axis(since, since + seconds * SECOND, step, count)


def count_seconds(story: Story, axis: Axis) -> dict[str, float]:
    """The oracle: each second of the axis, one after the other."""
    begin = round((axis.since - story.since).total_seconds())
    found: dict[str, float] = {}
    for second in range(begin, begin + round(axis.seconds)):
        inside = 0 <= second < len(story.done)
        activity = story.done[second] if inside else AT_REST
        found[activity] = found.get(activity, 0) + 1
    return found


def tell_at_random(story: Story, dice: Random, until: int) -> None:
    """A life: turns with actions, waits, retries, holds, rests."""
    while story.at < until:
        parts = [("", dice.randint(1, 20))]
        for _ in range(dice.randint(0, 3)):
            tool = dice.choice(["travel", "mine", "sell", "dock", "get_status"])
            parts += [(tool, dice.randint(1, 9)), ("", dice.randint(1, 9))]
        fate = dice.choice(
            ["wait", "wait", "none", "retry", "hold", "rest", "stop", "errored"]
        )
        last = [TOOLS[tool] for tool, _ in parts if tool in TOOLS]
        kind, seconds = (last or ["waiting"])[-1], dice.randint(1, 60)
        match fate:
            case "wait":
                story.turn(*parts, wait=(kind, seconds))
                story.spend("waiting", dice.randint(0, 3))
            case "none":
                story.turn(*parts)
                story.spend("waiting", 2)
            case "retry":
                story.turn(*parts, outcome="errored", wait=("errored", seconds))
            case "hold":
                story.turn(*parts)
                story.state("running", "held", seconds, hold="The budget is spent.")
            case "stop":
                story.turn(*parts, wait=(kind, seconds))
                # In the middle of the wait: it ends with that.
                story.turns[-1].waits_until = story.moment(story.at + 60)
                story.state("stopped", AT_REST, 90, by="operator:ann")
            case "rest":
                story.turn(*parts)
                story.state("idle", AT_REST, seconds, reason="nothing done")
            case _:
                story.turn(*parts, outcome="errored")
                story.state("errored", "errored", seconds, error="no key")
                story.state("stopped", AT_REST, 5, by="operator:ann")
    # Else the last of it would go on.
    story.state("stopped", AT_REST, 1)


@pytest.mark.parametrize("seed", range(3))
def test_seconds_equal_those_of_the_log(db: None, seed: int):
    dice = Random(seed)  # noqa: S311 (no secret)
    begin = NOON - 900 * SECOND
    stories = [Story(make_mysis(name=f"M{n}"), begin) for n in range(4)]
    for story in stories:
        tell_at_random(story, dice, dice.randint(1500, 3600))
    # An action that goes on beyond the end of the axis.
    last = stories[0]
    last.spend(AT_REST, max(0, 2690 - last.at))
    last.turn(("", 5), ("travel", 30))
    last.state("stopped", AT_REST, 1)
    write(*stories)
    axis = make_axis(1800, 30)
    found = read_lanes([story.mysis.pk for story in stories], axis)
    for lane, story in zip(found.lanes, stories, strict=True):
        wanted = count_seconds(story, axis)
        told = {name: part for name, part in lane.seconds.items() if part > 0.1}
        # A change of state comes a moment after the end of its turn.
        assert told == pytest.approx(wanted, abs=0.1), lane.name
        # The steps cover the span without a gap, and none lies over another.
        place = 0
        for step in lane.steps:
            assert step.first == place
            place += step.length
        assert place == axis.count
        neighbours = zip(lane.steps, lane.steps[1:], strict=False)
        assert all(one.activity != other.activity for one, other in neighbours)
        assert lane.steps == choose(story, axis)
    assert 0 < found.unseen < 0.9


def choose(story: Story, axis: Axis) -> list[Step]:
    """The oracle of the steps: the most seconds of each."""
    found: list[Step] = []
    for place in range(axis.count):
        since = axis.since + place * axis.step * SECOND
        part = Axis(since, since + axis.measure_step(place) * SECOND, axis.step, 1)
        seconds = count_seconds(story, part)
        game = {name for name in seconds if name not in QUIET}
        if sum(seconds[name] for name in game) < LITTLE * part.seconds:
            game = set(seconds)
        names = [name for name in ACTIVITIES if name in game]
        most = max(names, key=lambda name: (seconds[name], -names.index(name)))
        if found and found[-1].activity == most:
            found[-1] = found[-1]._replace(length=found[-1].length + 1)
        else:
            found.append(Step(most, place, 1))
    return found


def test_a_ship_flies_on_between_turns(db: None):
    story = Story(make_mysis(), NOON)
    story.turn(("", 10), ("travel", 1), ("", 4), wait=("flying", 30))
    story.turn(("", 5), ("get_system", 2), wait=("waiting", 8))
    # A refused action moves nothing; what is said in a turn is no change of it.
    story.tell("mysis.state", story.at + 2, state="running", shown=True)
    story.turn(("", 20), outcome=None)
    write(story)
    refused = Event.objects.get(data__tool="get_system")
    refused.data |= {"tool": "mine", "ok": False}
    refused.save()
    (lane,) = read_lanes([story.mysis.pk], make_axis(80, 5)).lanes
    assert lane.seconds == pytest.approx(
        {"thinking": 41, "flying": 31, "waiting": 8, AT_REST: 0}
    )
    assert [step.activity for step in lane.steps] == [
        *("thinking", "flying", "thinking", "waiting", "thinking")
    ]
    assert lane.summary == "thinking 51%, flying 39%, waiting 10%"


def test_who_rested_for_long_is_at_rest(db: None):
    """Events that said so are pruned; the newest turn is kept."""
    story = Story(make_mysis(state="idle"), NOON - timedelta(days=40))
    story.turn(("", 10), ("mine", 5))
    write(story)
    found = read_lanes([story.mysis.pk], make_axis(600, 10)).lanes[0]
    assert found.summary == "at rest 100%"
    assert 'class="a-' not in draw_lanes(read_lanes([found.id], make_axis(60, 6))).drawn
    Mysis.objects.update(state="running")
    found = read_lanes([story.mysis.pk], make_axis(600, 20)).lanes[0]
    assert found.summary == "waiting 100%"


def test_tools_are_those_of_the_game():
    assert set(TOOLS) <= WRITES
    assert set(TOOLS.values()) < set(ACTIVITIES)


def add_marks(mysis: Mysis) -> None:
    prompt = Prompt.objects.create(name="captain")
    version = PromptVersion.objects.create(prompt=prompt, number=3, text="x")
    turn = make_turn(mysis, changed="prompt model", prompt_version=version, model="gpt")
    Turn.objects.filter(pk=turn.pk).update(started_at=NOON + 60 * SECOND)
    order = Order.objects.create(text="Mine iron", sender="operator:ann")
    Order.objects.filter(pk=order.pk).update(created_at=NOON + 120 * SECOND)
    memory = make_memory(mysis)
    OrderRecipient.objects.create(order=order, mysis=mysis, memory=memory)
    story = Story(mysis, NOON)
    story.tell("context.compacted", 180, reason="Messages 1 to 9 are summarised.")
    # A summary that was taken back compacts nothing.
    for status in ("reverted", "cleared"):
        story.tell("context.compacted", 190, status=status, reason="It was bad.")
    story.tell("alert.raised", 240, rule="attacked", text="Hit by pirates.")
    story.tell("alert.raised", 241, rule="fuel", text="Too little fuel.")
    write(story)


def test_marks_tell_what_happened_and_lead_to_it(
    db: None, client: Client, viewer: User
):
    mysis = make_mysis(name="Ada")
    add_marks(mysis)
    found = read_lanes([mysis.pk], make_axis(600, 10))
    assert [(mark.kind, mark.text) for mark in found.marks] == [
        ("attack", "Hit by pirates."),
        ("compaction", "Messages 1 to 9 are summarised."),
        ("order", "Mine iron"),
        ("change", "prompt model: captain v3, gpt"),
    ]
    client.force_login(viewer)
    memory = found.marks[2].link.rpartition("=")[2]
    assert client.get(found.marks[2].link).context["mysis"] == mysis
    at = int(memory)
    for mark in found.marks[:2]:
        assert client.get(mark.link).headers["Location"].endswith("/turns/1/") or at
    drawn = draw_lanes(found).drawn
    # What the pointer tells.
    for words in ("an order: Mine iron", "under attack: Hit by pirates."):
        assert words in drawn
    assert re.findall(r'class="a-(order|change|compaction|attack)"', drawn) == [
        *("order", "change", "compaction", "attack")
    ]


def test_the_page_reads_in_few_statements(db: None, client: Client, viewer: User):
    client.force_login(viewer)
    begin = timezone.now() - timedelta(hours=1)

    def count() -> int:
        shared._results.clear()
        with record_statements() as told:
            page = client.get("/lanes/?since=1h")
        assert page.status_code == 200
        return len(told)

    assert "No Myses yet." in client.get("/lanes/").content.decode()
    one = Story(make_mysis(name="Ada", group="miners"), begin)
    one.turn(("", 10), ("mine", 5), wait=("mining", 30))
    write(one)
    few = count()
    others = [Story(make_mysis(), begin) for _ in range(LANES + 9)]
    for story in others:
        story.turn(("", 10), ("mine", 5), wait=("mining", 30))
    write(*others)
    assert count() == few <= 20
    page = client.get("/lanes/").content.decode()
    assert f"{LANES} of {LANES + 10} Myses" in page
    assert page.count("data-m=") == LANES
    assert client.get("/lanes/?page=2").content.decode().count("data-m=") == 10
    assert client.get("/lanes/?page=99").content.decode().count("data-m=") == 10
    narrowed = client.get("/lanes/?q=a&tag=b&group=miners").content.decode()
    assert 'href="?group=miners&amp;q=a&amp;since=6h"' in narrowed
    assert 'href="?group=miners&amp;tag=b&amp;since=6h"' in narrowed
    page = client.get("/lanes/?group=miners&view=table").content.decode()
    assert "data-m=" not in page
    assert "mining" in page.lower()
    assert page.count('scope="row"') == 1
    assert "No Mysis matches" in client.get("/lanes/?group=none").content.decode()


def test_a_moment_leads_to_its_message(db: None, client: Client, viewer: User):
    client.force_login(viewer)
    mysis = make_mysis(name="Ada")
    address = f"/lanes/place/?mysis={mysis.pk}&step=10&at="
    since = timezone.now() - timedelta(minutes=10)
    at = round(since.timestamp())
    assert client.get(f"{address}{at}").headers["Location"] == "/myses/Ada/"
    story = Story(mysis, since)
    turns = [story.turn(("", 20), wait=("waiting", 40)) for _ in range(3)]
    write(story)
    rows = [make_memory(mysis, turn=turn) for turn in turns for _ in range(2)]
    for place, row in enumerate(rows):
        row.created_at = since + (60 * (place // 2) + 10 * (place % 2) + 2) * SECOND
        row.save()

    def lead(seconds: int) -> str:
        return client.get(f"{address}{at + seconds}").headers["Location"]

    assert lead(0).endswith(f"?at={rows[0].pk}")
    assert lead(10).endswith(f"?at={rows[1].pk}")
    # Nothing was said in the wait: what was said before it.
    assert lead(40).endswith(f"?at={rows[1].pk}")
    assert lead(61).endswith(f"?at={rows[2].pk}")
    # What is marked in the step goes before what was said in it.
    Turn.objects.filter(pk=turns[2].pk).update(changed="model", model="sage")
    assert lead(115) == f"/turns/{turns[2].pk}/"
    assert lead(130).endswith(f"?at={rows[5].pk}")
    for odd in ("mysis=0", "mysis=x&at=5", f"mysis={2**62}"):
        assert client.get(f"/lanes/place/?{odd}").status_code == 404
    assert client.get(f"{address}{10**30}").status_code == 302
    assert client.get(f"{address}x").status_code == 302


def test_two_are_compared(db: None, client: Client, viewer: User):
    client.force_login(viewer)
    assert "Choose two Myses" in client.get("/compare/").content.decode()
    begin = timezone.now() - timedelta(minutes=30)
    stories = [Story(make_mysis(name=name), begin) for name in ("Ada", "Brahe")]
    for story, gain in zip(stories, (7, 11), strict=True):
        for place in range(4):
            turn = story.turn(("", 60), ("mine", 5), wait=("mining", 30))
            turn.credits_before = 100 + place * gain
            turn.credits_after = turn.credits_before + gain
            turn.actions, turn.failed_actions = 2, 1
        row = make_memory(story.mysis, role="assistant", reasoning=f"I gain {gain}.")
        make_memory(story.mysis, content="later words")
        assert row.pk
    write(*stories)
    ada, brahe = (story.mysis for story in stories)
    page = client.get(f"/compare/?a=Ada&b={brahe.pk}&since=1h")
    text = page.content.decode()
    assert page.status_code == 200
    assert f'<option value="{ada.pk}" selected' in text
    for words in ("+28", "+44", "I gain 7.", "I gain 11.", "8, 4", "mining"):
        assert words in text, words
    assert text.count("data-m=") == 2
    # What is not there is said, and so is one compared with itself.
    gone = client.get("/compare/?a=Ada&b=Cyrus")
    assert gone.status_code == 404
    assert "There is no Mysis “Cyrus”" in gone.content.decode()
    assert "Both are the same" in client.get("/compare/?a=Ada&b=Ada").content.decode()
    odd = client.get("/compare/?a=%00&b=1&since=x&until=y")
    assert (odd.status_code, b"\x00" in odd.content) == (404, False)


def test_a_past_span_tells_of_its_time(db: None, client: Client, viewer: User):
    """What each was flown with and thought then, and nothing of what came later."""
    client.force_login(viewer)
    begin = timezone.now() - timedelta(hours=5)
    stories = [Story(make_mysis(name=name), begin) for name in ("Ada", "Brahe")]
    for model in ("early", "late"):
        for story in stories:
            turn = story.turn(("", 60), wait=("waiting", 7200))
            turn.model, turn.policy_name = model, f"{model} policy"
            row = make_memory(story.mysis, role="assistant", reasoning=f"I am {model}.")
            Memory.objects.filter(pk=row.pk).update(created_at=turn.started_at)
    write(*stories)
    for until, told, untold in (
        (begin + timedelta(hours=1), "early", "late"),
        (timezone.now() - timedelta(seconds=1), "late", "early"),
    ):
        query = {"a": "Ada", "b": "Brahe", "since": begin.isoformat()}
        page = client.get("/compare/", query | {"until": until.isoformat()})
        text = page.content.decode()
        assert (text.count(f">{told}<"), text.count(f">{told} policy<")) == (2, 2)
        assert (text.count(f"I am {told}."), text.count(f"I am {untold}.")) == (2, 0)
    before = {"since": "1h", "until": (begin - SECOND).isoformat()}
    page = client.get("/compare/", {"a": "Ada", "b": "Brahe", **before})
    assert page.content.decode().count(">none yet<") == 6


def test_what_takes_too_long_asks_for_less(
    db: None, client: Client, viewer: User, monkeypatch: pytest.MonkeyPatch
):
    client.force_login(viewer)
    for name in ("Ada", "Brahe"):
        make_mysis(name=name)
    monkeypatch.setattr(lanes, "SECONDS", 0.05)
    monkeypatch.setattr(lane_seconds, "_STEPS", "SELECT pg_sleep(20)")
    for address in ("/lanes/", "/lanes/?view=table", "/compare/?a=Ada&b=Brahe"):
        page = client.get(address).content.decode()
        assert "took too long" in page, address
        assert "narrower span" in page, address


def test_fewer_than_a_page_has_finer_steps(db: None):
    for _ in range(3):
        make_mysis()
    view = LanesView.read({"since": "1h"})
    assert load_lanes(view, NOON).axis.step == 10


def test_the_right_edge_grows(db: None, monkeypatch: pytest.MonkeyPatch):
    story = Story(make_mysis(name="Ada"), timezone.now() - timedelta(minutes=10))
    story.turn(("", 60), outcome=None)
    write(story)
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    first, later = (
        pages.draw_lanes_parts(LanesView.read({"since": "1h"}), moment)[0]
        for moment in (now, now + timedelta(minutes=5))
    )
    assert first.id == later.id == "lanes-chart"
    assert "a-thinking" in first.html
    assert first.version != later.version
    # The socket draws what the page drew.
    page = make_page(b"page=lanes&since=1h")
    assert page is not None
    assert "a-thinking" in "".join(page.draw_all(START))
    assert page.draw_changes(Dirty()) == []
    other = make_page(f"page=compare&a={story.mysis.pk}&b=0".encode())
    assert other is not None
    assert "is gone" in "".join(other.draw_all(START))


def test_what_is_over_is_read_once(db: None):
    """As the span moves on, kept blocks tell the same as the log would."""
    stories = [Story(make_mysis(), NOON - 900 * SECOND) for _ in range(3)]
    for seed, story in enumerate(stories):
        tell_at_random(story, Random(seed), 6000)  # noqa: S311 (no secret)
    write(*stories)
    ids = [story.mysis.pk for story in stories]
    span = TimeSpan(timedelta(minutes=30))

    def read(moment: datetime) -> tuple[Any, int]:
        axis = span.make_axis(moment, 100)
        with record_statements() as told:
            found = read_lanes(ids, axis)
        asked = sum("generate_series" in sql for sql in told)
        return found.lanes, asked

    moments = [NOON + minutes * 60 * SECOND for minutes in (31, 33, 45, 52, 40)]
    kept = [read(moment) for moment in moments]
    assert [asked for _, asked in kept] == [1, 1, 1, 1, 0]
    for moment, (found, _) in zip(moments, kept, strict=True):
        lane_seconds._past_blocks._results.clear()
        for anew, one in zip(read(moment)[0], found, strict=True):
            assert anew.steps == one.steps
            assert anew.seconds == pytest.approx(one.seconds, abs=0.001)
    # A span that ends where a block ends is kept as a whole.
    axis = Axis(NOON, NOON + 8 * 20 * SECOND, 20, 8)
    with record_statements() as told:
        first, again = read_lanes(ids, axis), read_lanes(ids, axis)
    assert first == again
    assert sum("generate_series" in sql for sql in told) == 1
