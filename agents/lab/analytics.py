"""What came of prompts, policies and models: calls, contexts, recalls, doubts, cost.

Added up from turns, their calls and messages, and the events about them, as the yield
board adds up credits: by who flew with what. A turn, with all that is in it, belongs to
the moment at which it began. Hours that are over are read once and kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from agents.dashboard.charts import (
    CATEGORIES,
    Segment,
    find_first_turn_since,
    find_rate,
    make_segments,
)
from agents.dashboard.shared_results import SharedResults
from agents.dashboard.yields import FleetYield, Flown, Sums, add_up_yield
from agents.events import LARGEST_ID, find_xids
from agents.models import Turn
from memory.models import fetch_rows
from memory.search.results import limit_time

HOUR = timedelta(hours=1)
# Hours that are kept, and seconds after which no further one is read.
KEPT_HOURS, SECONDS = 1_024, 4.0
# A turn that began in an hour may go on so long after it.
LONGEST_TURN = timedelta(minutes=15)
# A context that is smaller than the one before by this part was compacted.
COMPACTED = 0.1
# What a handle begins with that can be asked for.
HANDLES = ("ctx", "note", "state", "other")

_WHAT = "turn.mysis_id, turn.prompt_version_id, turn.policy_name, turn.model"
_IN_HOUR = "turn.id >= %(first_turn)s AND turn.id < %(next_turn)s"
_CONTEXTS = f"""
SELECT mysis_id, prompt_version_id, policy_name, model, count(*), count(tokens),
  count(*) FILTER (WHERE tokens < before * (1 - {COMPACTED})),
  {", ".join(f'coalesce(sum("{name}"), 0)::bigint' for name in CATEGORIES)}
FROM (
  SELECT *, lag(tokens) OVER (PARTITION BY mysis_id ORDER BY call_id) AS before FROM (
    SELECT {_WHAT}, call.id AS call_id, share.*,
      {" + ".join(f'coalesce(share."{name}", 0)' for name in CATEGORIES)}
        + CASE WHEN sent.id IS NULL THEN NULL ELSE 0 END AS tokens
    FROM agents_turn AS turn
    JOIN agents_modelcall AS call ON call.turn_id = turn.id AND call.kind = 'turn'
    LEFT JOIN memory_sentcontext AS sent ON sent.call_id = call.id
    LEFT JOIN LATERAL jsonb_to_record(sent.stats->'tokens_by_category')
      AS share({", ".join(f'"{name}" int' for name in CATEGORIES)}) ON true
    WHERE {_IN_HOUR}
  ) AS calls
) AS compared GROUP BY 1, 2, 3, 4
"""  # noqa: S608 (no input in the text)
# A read is repeated where it brought what the same call had brought before.
_READS = f"""
SELECT mysis_id, prompt_version_id, policy_name, model,
  count(*) FILTER (WHERE handle IS NULL),
  count(*) FILTER (WHERE handle IS NULL AND body = before),
  {", ".join(f"count(*) FILTER (WHERE handle = '{name}')" for name in HANDLES)}
FROM (
  SELECT *, lag(body) OVER (PARTITION BY mysis_id, tool_name, args ORDER BY id) AS before
  FROM (
    SELECT {_WHAT}, said.id, said.tool_name, said.args, CASE
        WHEN said.tool_name <> 'zoea_recall' THEN NULL
        WHEN said.args->>'handle' ~ '^\\s*(ctx|note|state)://'
        THEN substring(said.args->>'handle' FROM '^\\s*([a-z]+)') ELSE 'other' END AS handle,
      CASE WHEN said.tool_name <> 'zoea_recall' THEN md5(said.content) END AS body
    FROM agents_turn AS turn JOIN memory_memory AS said ON said.turn_id = turn.id
    WHERE {_IN_HOUR} AND said.role = 'tool'
      AND (said.tool_name = 'zoea_recall'
        OR said.tool_name LIKE 'get\\_%%' AND NOT said.is_error)
  ) AS reads
) AS compared GROUP BY 1, 2, 3, 4
"""  # noqa: S608 (no input in the text)
# What an event tells is of the newest turn that its Mysis had begun by then.
_EVENTS = f"""
SELECT {_WHAT}, count(*) FILTER (WHERE kind = 'context.compacted'),
  coalesce(sum(greatest(1, facts)) FILTER (WHERE kind = 'snapshot.stale'), 0)::bigint
FROM (
  SELECT kind, facts, max(turn_id) OVER (PARTITION BY mysis_id ORDER BY at, kind) AS begun
  FROM (
    SELECT mysis_id, started_at AS at, '' AS kind, id AS turn_id, NULL AS facts
    FROM agents_turn WHERE id >= %(first_turn)s AND started_at < %(late)s
    UNION ALL
    SELECT mysis_id, created_at, kind, NULL, jsonb_array_length(
      CASE WHEN jsonb_typeof(data->'fields') = 'array' THEN data->'fields' ELSE '[]' END)
    FROM agents_event WHERE kind IN ('context.compacted', 'snapshot.stale')
      AND xid BETWEEN %(first_xid)s AND %(last_xid)s
      AND created_at >= %(since)s AND created_at < %(late)s
  ) AS told
) AS placed JOIN agents_turn AS turn ON turn.id = begun
WHERE kind <> '' AND {_IN_HOUR} GROUP BY {_WHAT}
"""  # noqa: S608 (no input in the text)


@dataclass(frozen=True, slots=True)
class Outcome(Sums):
    """What turns came to, and what they did with their contexts.

    Of so many ``calls`` the ``contexts`` are kept, and ``shares`` are their tokens by
    category. ``compactions`` made one smaller, and ``summaries`` were stored. ``recalls``
    are the handles asked for, by kind. ``gets`` are reads of the game that went well, of
    which the ``repeated`` brought nothing new. ``doubted`` are facts.
    """

    calls: int = 0
    contexts: int = 0
    compactions: int = 0
    summaries: int = 0
    gets: int = 0
    repeated: int = 0
    doubted: int = 0
    recalls: Counter[str] = field(default_factory=Counter)
    shares: Counter[str] = field(default_factory=Counter)

    @property
    def calls_per_action(self) -> float | None:
        return self.calls / self.actions if self.actions else None

    @property
    def compactions_per_hour(self) -> float | None:
        """In an hour of one Mysis; None where the time is too short to tell."""
        return find_rate(self.compactions, self.seconds, self.myses)

    @property
    def doubted_per_hour(self) -> float | None:
        return find_rate(self.doubted, self.seconds, self.myses)

    @property
    def recall_rate(self) -> float | None:
        """Handles asked for in 100 calls."""
        return 100 * self.recalls.total() / self.calls if self.calls else None

    @property
    def repeated_share(self) -> float | None:
        return self.repeated / self.gets if self.gets else None

    @property
    def tokens_per_call(self) -> float | None:
        """Of the contexts that are kept, by our count."""
        return self.shares.total() / self.contexts if self.contexts else None

    @property
    def asked(self) -> str:
        """The handles asked for by kind, in words."""
        return ", ".join(
            f"{count} {name}" for name, count in self.recalls.items() if count
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The shares of the categories, as the parts of a bar."""
        return make_segments(self.shares)

    @property
    def cost_per_1k_credits(self) -> float | None:
        """US dollars; None where nothing was earned, or the calls have no price."""
        if not self.credits or self.credits < 0 or not self.known_cost:
            return None
        return float(self.known_cost) / self.credits * 1000


@dataclass(frozen=True, slots=True)
class Analytics:
    """What a span came to. ``whole`` says whether all of it was read yet: what was is
    kept, and whoever looks again is shown more.
    """

    found: FleetYield
    whole: bool


# By the moments between which the turns of an hour began, and their numbers.
Span = tuple[datetime, datetime]
HourOutcomes = Mapping[Flown, Outcome]
_past_hours = SharedResults(KEPT_HOURS)


def add_up_outcomes(since: datetime, now: datetime) -> Analytics:
    """Everything since a moment, the newest hours first, as far as there is time.

    Raises SlowSearchError where a single hour takes too long.
    """
    counts: defaultdict[Flown, Outcome] = defaultdict(Outcome)
    began, whole, read_since = monotonic(), True, now
    for place, (begin, end) in enumerate(_list_hours(since, now)):
        # Each look reads something.
        if place and monotonic() - began > SECONDS:
            whole = False
            break
        for flown, one in _read_hour(begin, end, now).items():
            counts[flown] += one
        read_since = begin
    return Analytics(_merge(add_up_yield(read_since, now), counts), whole)


def _list_hours(since: datetime, now: datetime) -> Iterator[Span]:
    """The hours of a span, the newest first; the first and the last are parts of one."""
    end = now
    while end > since:
        over = end.replace(minute=0, second=0, microsecond=0)
        begin = max(since, over if over < end else end - HOUR)
        yield begin, end
        end = begin


def _merge(earned: FleetYield, counts: HourOutcomes) -> FleetYield:
    """What was earned and spent, with what was done."""
    sums = {
        flown: _widen(one) + counts.get(flown, Outcome())
        for flown, one in earned.sums.items()
    }
    tails = {flown: _widen(rest) for flown, rest in earned.tails.items()}
    apart = {mysis: _widen(one) for mysis, one in earned.apart.items()}
    return replace(earned, sums=sums, apart=apart, tails=tails, nothing=Outcome())


def _widen(sums: Sums) -> Outcome:
    return Outcome(**{each.name: getattr(sums, each.name) for each in fields(Sums)})


# --- One hour


def _read_hour(begin: datetime, end: datetime, now: datetime) -> HourOutcomes:
    """What the turns that began in an hour did; one that is over is read once."""
    first, following = find_first_turn_since(begin), find_first_turn_since(end)
    following = LARGEST_ID if following is None else following
    if first is None or first >= following:
        return {}
    key = (begin, end, first, following)
    kept: HourOutcomes | None = _past_hours.peek(key)
    if kept is not None:
        return kept
    found = _read_turns(begin, end, first, following)
    if end - begin == HOUR and _is_settled(end, following, now):
        _past_hours.get(key, lambda: found)
    return found


def _is_settled(end: datetime, following: int, now: datetime) -> bool:
    """Whether nothing changes any more of the turns before one."""
    open_turns = Turn.objects.filter(outcome__isnull=True, id__lt=following)
    return end + LONGEST_TURN < now and not open_turns.exists()


def _read_turns(
    begin: datetime, end: datetime, first: int, following: int
) -> HourOutcomes:
    late = end + LONGEST_TURN
    first_xid, last_xid = find_xids(begin, late)
    values: dict[str, Any] = {
        "first_turn": first,
        "next_turn": following,
        "since": begin,
        "late": late,
        "first_xid": first_xid,
        "last_xid": last_xid,
    }
    found: defaultdict[Flown, Outcome] = defaultdict(Outcome)
    with limit_time(SECONDS):
        for flown, row in _fetch(_CONTEXTS, values):
            calls, contexts, compactions, *tokens = row
            shares = Counter(dict(zip(CATEGORIES, tokens, strict=True)))
            found[flown] += Outcome(
                calls=calls, contexts=contexts, compactions=compactions, shares=shares
            )
        for flown, (gets, repeated, *asked) in _fetch(_READS, values):
            recalls = Counter(dict(zip(HANDLES, asked, strict=True)))
            found[flown] += Outcome(gets=gets, repeated=repeated, recalls=recalls)
        for flown, (summaries, doubted) in _fetch(_EVENTS, values):
            found[flown] += Outcome(summaries=summaries, doubted=doubted)
    return found


def _fetch(
    sql: str, values: Mapping[str, Any]
) -> Iterator[tuple[Flown, tuple[Any, ...]]]:
    """The rows of a statement, each with who flew with what."""
    for row in fetch_rows(sql, values):
        yield Flown(*row[:4]), row[4:]
