"""The cached game state as the pages show it: facts, their age, what to believe.

Where answers give places by id alone, an account's lexicon keeps the names that earlier
ones told; a map that anybody asked for names the systems to all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from django.db.models import Case, TextField, Value, When
from django.db.models.functions import Length
from django.utils import timezone

from agents.dashboard import map
from agents.dashboard.shared_results import SharedResults, time_bucket
from memory.gamestate import sections
from memory.gamestate.confidence import (
    LOGGED_OUT,
    Confidence,
    Judge,
    choose_worst,
    count_age_in_ticks,
    find_cause,
    list_causes,
)
from memory.gamestate.extract import read_credits
from memory.gamestate.facts import Fact, Names, View, collect_names
from memory.gamestate.render import describe_cause
from memory.gamestate.types import Moment, Snapshot
from memory.gamestate.values import find_first, format_title, unwrap_content
from memory.models import GameSnapshot, fetch_rows
from memory.snapshots.reads import read_moments, read_names

# Where answers name the system, the point of interest and the base of a ship.
PLACES = (
    ("location.system_id", "player.current_system", "current_system", "system.id"),
    ("location.poi_id", "player.current_poi", "current_poi"),
    ("location.docked_at", "player.docked_at_base", "docked_at_base"),
)
TELLING = frozenset({"get_status", "get_ship", "get_system"})
# Enough to name most places; maps and markets would take longer to read. What these
# do not name was told earlier, and is looked up.
NAMING = frozenset({"get_status", "get_system", "get_poi", "get_base"})
NAMES_KEPT = 20_000

# Pairs, for a lexicon may have a thousand names: only those that are shown are read.
LOOK_UP = """
SELECT wanted.username, wanted.id, lexicon.names ->> wanted.id
FROM unnest(%s::text[], %s::text[]) AS wanted(username, id)
JOIN memory_lexicon AS lexicon ON lexicon.username = wanted.username
WHERE lexicon.names ->> wanted.id IS NOT NULL
"""

# A galaxy map has about 190 KB; its facts are two lines. Contents above this
# are left in the database and shown by size alone.
READ_UP_TO = 24_000
RANKS = {tool: rank for rank, tool in enumerate(sections.READERS)}
MAX_CHILDREN = 12
# Those that a page shows of 2,000 accounts.
SNAPSHOTS_KEPT = 16_000

# An account and an id; beside them what makes the answer of ten seconds ago old.
Key = tuple[tuple[str, str], int]
_names = SharedResults(NAMES_KEPT, newest=True)
# The number of a snapshot, and how often it was written.
Version = tuple[int, int]
_VERSIONS = """
SELECT id, version, username FROM memory_gamesnapshot
WHERE username = ANY(%(usernames)s::text[]) AND logged_out_at IS NULL
  AND (%(tools)s::text[] IS NULL OR tool_name = ANY(%(tools)s::text[]))
  AND tool_name NOT IN (SELECT tool FROM agents_toolpolicy WHERE policy = 'secret')
"""
_snapshots = SharedResults(SNAPSHOTS_KEPT, newest=True)


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A snapshot with the length of its content in characters.

    ``version`` is another whenever the row was written anew.
    """

    snapshot: Snapshot
    size: int
    version: str
    # Ids of the places that the ship is at, and what it calls places by id.
    places: tuple[str, ...] = ()
    names: Names = field(default_factory=dict)
    # What get_status told of the credits; None where it did not.
    credits: int | None = None


@dataclass(frozen=True, slots=True)
class ShownFact:
    """One line of a section and how far to believe it."""

    label: str
    value: str
    confidence: str
    items: tuple[str, ...]
    children: tuple[tuple[str, str], ...]
    more: int
    # Ticks since an event told it, where that is later than the snapshot.
    age_ticks: int | None = None
    # What the newest call was shown, where that was something else.
    believed: str = ""
    # What made it untrue: ``before mine at tick 104``.
    cause: str = ""
    cause_tick: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """One snapshot: its facts, age, confidence and the reason for a doubt."""

    tool: str
    title: str
    args: str
    tick: int | None
    age_ticks: int | None
    captured_at: datetime
    confidence: str
    reason: str
    size: int
    facts: tuple[ShownFact, ...]

    @property
    def partly(self) -> bool:
        """Whether an action made some of the facts untrue, but not all."""
        doubtful = {fact.confidence == "invalidated" for fact in self.facts}
        return len(doubtful) > 1


def read_places(snapshot: Snapshot) -> tuple[str, ...]:
    """The ids of the system, the point of interest and the base that it names."""
    if snapshot.tool not in TELLING or snapshot.args:
        return ()
    content = unwrap_content(snapshot.current)
    if not isinstance(content, Mapping):
        return ()
    found = (find_first(content, *paths) for paths in PLACES)
    return tuple(one if isinstance(one, str) else "" for one in found)


def load_place_names(wanted: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """By account, the names of these ids as far as they are known.

    At most two queries, however many accounts; none where this process has looked
    all of them up, named or not, in these ten seconds.
    """
    seen = time_bucket(timezone.now())
    pairs = {(who, one) for who, ids in wanted.items() for one in ids if one}
    told = _names.get_many([(pair, seen) for pair in sorted(pairs)], _look_up_names)
    found: dict[str, dict[str, str]] = {who: {} for who in wanted}
    for ((who, one), _), name in told.items():
        if name:
            found[who][one] = name
    return found


def _look_up_names(keys: Sequence[Key]) -> dict[Key, str]:
    """The names; empty for what nobody knows, which is not looked up again either."""
    pairs = [pair for pair, _ in keys]
    columns = [[who for who, _ in pairs], [one for _, one in pairs]]
    known = {(who, one): name for who, one, name in fetch_rows(LOOK_UP, columns)}
    # Some systems only the newest map names.
    chart = map.load_chart() if len(known) < len(keys) else None
    charted = {star.id: star.name for star in chart.stars.values()} if chart else {}
    return {key: known.get(key[0], charted.get(key[0][1], "")) for key in keys}


def load_snapshots(
    usernames: Iterable[str], *tools: str
) -> dict[str, list[HeldSnapshot]]:
    """The snapshots of accounts, of these ``tools`` if named; none of a logged-out one.

    What this process has read is not read again: most are as they were before.
    """
    values = {"usernames": list(usernames), "tools": list(tools) or None}
    rows = fetch_rows(_VERSIONS, values, prepare=True) if values["usernames"] else ()
    owners = {(pk, version): who for pk, version, who in rows}
    found: defaultdict[str, list[HeldSnapshot]] = defaultdict(list)
    for key, one in _snapshots.get_many(list(owners), _read_snapshots).items():
        if one is not None:
            found[owners[key]].append(one)
    return found


def _read_snapshots(keys: Sequence[Version]) -> dict[Version, HeldSnapshot | None]:
    """As they are now, which may be newer; None for those that are gone."""
    rows = (
        GameSnapshot.objects.filter(pk__in=[pk for pk, _ in keys])
        .annotate(size=Length("content"))
        .annotate(body=_select_readable("content"), changed=_select_readable("merged"))
        .defer("content", "merged")
    )
    found: dict[int, HeldSnapshot] = {}
    for row in rows:
        row.content, row.merged = row.body, row.changed
        read = row.to_snapshot()
        version = f"{row.pk}:{row.version}"
        named = collect_names([read]) if read.tool in NAMING else {}
        told = read_places(read), named, read_credits(read.tool, read.current)
        found[row.pk] = HeldSnapshot(read, row.size, version, *told)
    return {key: found.get(key[0]) for key in keys}


def _select_readable(column: str) -> Case:
    """A column, empty where it is too long to read."""
    return Case(
        When(size__lte=READ_UP_TO, then=column),
        default=Value(""),
        output_field=TextField(),
    )


class JudgedSnapshot(Judge):
    """A snapshot with the facts that pages show of it, read once at most."""

    def __init__(self, snapshot: Snapshot, moment: Moment, names: Names) -> None:
        super().__init__(snapshot, moment)
        self.names = names

    @cached_property
    def facts(self) -> tuple[ShownFact, ...]:
        content = unwrap_content(self.snapshot.current)
        if content is None or content == "":
            return ()
        view = View(content if isinstance(content, Mapping) else {}, self.names)
        found = sections.read_facts(self.snapshot.tool, view, content)
        return tuple(self._show_fact(fact) for fact in found)

    def judge_facts(self) -> Confidence:
        """How far to believe what is shown of it.

        An action that touched only fields which nobody is shown raises no alarm.
        """
        if not (self.marked and self.facts):
            return self.judge()
        return choose_worst(Confidence(fact.confidence) for fact in self.facts)

    def _show_fact(self, fact: Fact) -> ShownFact:
        levels = [self.judge(path) for path in fact.paths]
        lists = max(len(fact.items), len(fact.children))
        cause = find_cause(self.snapshot, fact.paths, self.marked)
        return ShownFact(
            label=fact.label,
            value=fact.value,
            confidence=str(choose_worst(levels) if levels else self.judge()),
            items=fact.items[:MAX_CHILDREN],
            children=fact.children[:MAX_CHILDREN],
            more=max(0, lists - MAX_CHILDREN),
            age_ticks=_merged_age(self.snapshot, fact.paths, self.moment),
            cause=describe_cause(cause),
            cause_tick=cause.tick if cause else None,
        )


def explain_doubt(
    judged: JudgedSnapshot, level: Confidence, shown: Iterable[ShownFact]
) -> str:
    """Why not to rely on a snapshot; an action is named that touched what is shown."""
    snapshot = judged.snapshot
    if snapshot.stale is not None and level == Confidence.INVALIDATED:
        told = {fact.cause for fact in shown}
        causes = list_causes(snapshot, judged.marked)
        named = (one for one in causes if describe_cause(one) in told)
        mark = next(named, snapshot.stale)
        when = f" at tick {mark.tick}" if mark.tick is not None else ""
        return f"changed by {mark.reason}{when}; call {snapshot.tool}"
    if snapshot.logged_out:
        return LOGGED_OUT
    age = count_age_in_ticks(snapshot, judged.moment)
    if level in (Confidence.STALE, Confidence.AGEING) and age is not None:
        return f"{age} ticks old"
    return ""


def load_sections(
    username: str, now: datetime, beliefs: Mapping[str, str]
) -> tuple[list[Section], int | None]:
    """All sections of an account, curated ones first, and its present tick.

    ``beliefs`` are the facts that the newest call was shown.
    """
    found = load_snapshots([username]).get(username, [])
    moment = read_moments([username], now)[username]
    # As the state block names things: what was told earlier counts as well.
    names = {
        **read_names(username),
        **collect_names([one.snapshot for one in found]),
    }
    drawn = [_make_section(one, moment, names, beliefs) for one in found]
    drawn.sort(key=lambda s: (RANKS.get(s.tool, len(RANKS)), s.tool, s.args))
    return drawn, moment.current_tick


def _make_section(
    one: HeldSnapshot, moment: Moment, names: Names, beliefs: Mapping[str, str]
) -> Section:
    snapshot = one.snapshot
    judged = JudgedSnapshot(snapshot, moment, names)
    level = judged.judge_facts()
    args = ", ".join(f"{k}={v}" for k, v in snapshot.args.items())
    return Section(
        tool=snapshot.tool,
        title=format_title(snapshot.tool),
        args=args,
        tick=snapshot.tick,
        age_ticks=count_age_in_ticks(snapshot, moment),
        captured_at=snapshot.captured_at,
        confidence=str(level),
        reason=explain_doubt(judged, level, judged.facts),
        size=one.size,
        facts=tuple(
            replace(fact, believed=_find_other_belief(snapshot, fact, beliefs))
            for fact in judged.facts
        ),
    )


def _find_other_belief(
    snapshot: Snapshot, fact: ShownFact, beliefs: Mapping[str, str]
) -> str:
    """What the Mysis was told last, where it is not what is known now."""
    if snapshot.args or not fact.label or not fact.value:
        return ""
    told = beliefs.get(f"{snapshot.tool}/{fact.label}", "")
    return "" if told == fact.value else told


def _merged_age(snapshot: Snapshot, paths: Sequence[str], moment: Moment) -> int | None:
    """Ticks since an event told one of these; None where the snapshot told all."""
    if moment.current_tick is None:
        return None
    told = [
        tick
        for merged, tick in snapshot.field_ticks.items()
        if any(f"{path}.".startswith(f"{merged}.") for path in paths)
    ]
    return max(0, moment.current_tick - min(told)) if told else None
