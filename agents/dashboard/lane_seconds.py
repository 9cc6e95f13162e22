"""Seconds of each activity in each step of an axis, added up by the database.

Every moment of a Mysis has exactly one activity. Turns, the actions in them and changes
of its state tell when the next one begins; a day of a fleet is not read into the process.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from time import monotonic
from typing import Any

from django.utils import timezone

from agents import events
from agents.dashboard.charts import find_first_turn_since
from agents.dashboard.shared_results import SharedResults
from agents.dashboard.time_axis import Axis
from memory.models import fetch_rows
from memory.problems import SlowSearchError

# Steps that are read and kept together, and how many such blocks: of a day only the last
# hours are read again and again.
BLOCK, KEPT_BLOCKS = 8, 256
# Hours of all Myses together that one statement reads: what was read is kept, so that
# somebody for whom all of it takes too long may look again.
HOURS_AT_ONCE = 300.0
# The event of an action comes at its end: so late it may still tell of a step.
LONGEST_ACTION = timedelta(minutes=10)
AT_REST = "at rest"
# What a Mysis does, and what counts as that. Where two took as long, the first is drawn.
ACTIVITIES: Mapping[str, str] = {
    "flying": "travels, jumps, undocks, scans or fights",
    "mining": "mines, or takes wrecks apart",
    "trading": "buys, sells, moves goods and credits",
    "docked": "docks, refuels, repairs, crafts, takes missions",
    "thinking": "its model is asked, or it looks things up",
    "waiting": "runs with nothing to do: for a tick, a nudge, a worker",
    "held": "a budget has no room for its next call",
    "errored": "failed: it tries again later, or waits for somebody",
    AT_REST: "idle or stopped",
}
_WORDS = {
    "flying": """travel jump undock attack hunt battle scan self_destruct cloak
        survey_system tow_wreck release_tow distress_signal""",
    "mining": """mine loot_wreck salvage_wreck scrap_wreck loot_base_wreck
        salvage_base_wreck""",
    "trading": """buy sell sell_wreck create_sell_order create_buy_order cancel_order
        modify_order list_item cancel_list buy_listing trade_offer trade_accept
        trade_decline trade_cancel buy_ship sell_ship buy_listed_ship
        list_ship_for_sale cancel_ship_listing deposit_items withdraw_items
        deposit_credits withdraw_credits send_gift jettison""",
    "docked": """dock refuel repair craft reload refit refit_ship install_mod
        uninstall_mod repair_module switch_ship name_ship rename_ship
        accept_mission complete_mission abandon_mission decline_mission
        buy_insurance claim_insurance set_home_base facility commission_ship
        claim_commission""",
}
# The activity that a tool of the game counts as; all others are part of thinking.
TOOLS = {tool: name for name, tools in _WORDS.items() for tool in tools.split()}

# When each activity begins; it lasts until the next one. ``opens`` counts turns that are
# open: a change of state inside a turn does not begin another activity.
# A wait is what the last action of the turn before began: a ship flies on between turns.
_BREAKS = """
WITH turns AS (
  SELECT *, lead(started_at) OVER (PARTITION BY mysis_id ORDER BY id) AS next_at FROM (
    SELECT id, mysis_id, started_at, finished_at, waits_until, outcome FROM agents_turn
    WHERE mysis_id = ANY(%(myses)s) AND id >= %(floor)s AND started_at < %(until)s
    UNION ALL
    SELECT last.* FROM unnest(%(myses)s::bigint[]) AS owner(id) CROSS JOIN LATERAL (
      SELECT id, mysis_id, started_at, finished_at, waits_until, outcome
      FROM agents_turn WHERE mysis_id = owner.id AND id < %(floor)s
      ORDER BY id DESC LIMIT 1) AS last
  ) AS found
), actions AS (
  SELECT (data->>'turn')::bigint AS turn, %(tools)s::jsonb->>(data->>'tool') AS activity,
    created_at AS ended_at,
    created_at - (data->>'ms')::float8 * interval '1 ms' AS began_at
  FROM agents_event
  WHERE kind = 'tool.called' AND xid BETWEEN %(first)s AND %(last)s
    AND created_at < %(late)s AND mysis_id = ANY(%(myses)s)
    AND data->'ok' = 'true' AND %(tools)s::jsonb ? (data->>'tool')
), last_actions AS (
  SELECT DISTINCT ON (turn) turn, activity FROM actions ORDER BY turn, ended_at DESC
), told AS (
  SELECT mysis_id, created_at, data FROM agents_event
  WHERE kind = 'mysis.state' AND xid BETWEEN %(first)s AND %(last)s
    AND created_at < %(until)s AND mysis_id = ANY(%(myses)s)
  UNION ALL
  SELECT before.* FROM unnest(%(myses)s::bigint[]) AS owner(id) CROSS JOIN LATERAL (
    SELECT mysis_id, created_at, data FROM (
      SELECT mysis_id, created_at, data, kind, xid, id FROM agents_event
      WHERE mysis_id = owner.id AND xid < %(first)s
      ORDER BY xid DESC, id DESC LIMIT 50) AS late
    WHERE kind = 'mysis.state' ORDER BY xid DESC, id DESC LIMIT 1) AS before
), states AS (
  SELECT * FROM told
  UNION ALL
  -- Who has rested for longer than events are kept has none that says so.
  SELECT owner.id, last.finished_at, jsonb_build_object('state', owner.state)
  FROM agents_mysis AS owner CROSS JOIN LATERAL (
    SELECT started_at, finished_at FROM agents_turn WHERE mysis_id = owner.id
    ORDER BY id DESC LIMIT 1) AS last
  WHERE owner.id = ANY(%(myses)s) AND owner.state <> 'running'
    AND last.started_at < %(until)s AND last.finished_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM told WHERE told.mysis_id = owner.id)
), breaks AS (
  SELECT mysis_id, started_at AS at, 'thinking' AS activity, 1 AS opens, 6 AS place
  FROM turns
  UNION ALL
  SELECT mysis_id, least(greatest(started_at, began_at), finished_at), activity, 0, 2
  FROM actions JOIN turns ON turns.id = turn
  UNION ALL
  SELECT mysis_id, least(ended_at, finished_at), 'thinking', 0, 1
  FROM actions JOIN turns ON turns.id = turn
  UNION ALL
  SELECT mysis_id, finished_at, CASE outcome WHEN 'errored' THEN 'errored'
    WHEN 'stopped' THEN 'at rest' ELSE coalesce(activity, 'waiting') END, -1, 3
  FROM turns LEFT JOIN last_actions ON turn = id WHERE finished_at IS NOT NULL
  UNION ALL
  SELECT mysis_id, greatest(waits_until, finished_at), 'waiting', 0, 4 FROM turns
  WHERE finished_at IS NOT NULL AND outcome <> 'stopped'
    AND greatest(waits_until, finished_at) < coalesce(next_at, 'infinity')
    AND (outcome <> 'errored' OR waits_until IS NOT NULL)
  UNION ALL
  SELECT mysis_id, created_at, CASE
    WHEN data->>'state' = 'errored' THEN 'errored'
    WHEN data->>'state' <> 'running' THEN 'at rest'
    WHEN data ? 'hold' THEN 'held' ELSE 'waiting' END, NULL, 5
  FROM states
), counted AS (
  SELECT *, sum(opens) OVER follows AS open, lag(place) OVER follows AS before
  FROM breaks WINDOW follows AS (PARTITION BY mysis_id ORDER BY at, place)
), spans AS (
  -- Seconds since the begin: numbers are added up faster than intervals.
  SELECT mysis_id, activity,
    extract(epoch FROM greatest(at, %(since)s::timestamptz)
      - %(since)s::timestamptz)::float8 AS begins,
    extract(epoch FROM least(%(until)s::timestamptz, lead(at) OVER (
      PARTITION BY mysis_id ORDER BY at, place)) - %(since)s::timestamptz)::float8 AS ends
  -- A wait that somebody ended, such as by a stop, has no end of its own.
  FROM counted WHERE (opens IS NOT NULL OR coalesce(open, 0) = 0)
    AND (place <> 4 OR before = 3)
)
"""
# A span in each step that it lies in: a series among the columns, which for a hundred
# thousand spans costs less than to join one to each.
_STEPS = f"""{_BREAKS}, pieces AS (
  SELECT mysis_id, activity, begins, ends, generate_series(
    floor(begins / %(step)s)::int, ceil(ends / %(step)s)::int - 1) AS step
  FROM spans WHERE begins < ends AND activity <> 'at rest'
)
SELECT mysis_id, step, activity,
  sum(least(ends, (step + 1) * %(step)s) - greatest(begins, step * %(step)s))
FROM pieces GROUP BY 1, 2, 3
"""  # noqa: S608 (no input in the text)

# Seconds by activity, by step.
StepSeconds = Mapping[int, Mapping[str, float]]
# A Mysis, a step of its block, an activity and its seconds.
_Row = tuple[int, int, str, float]
_past_blocks = SharedResults(KEPT_BLOCKS)


def make_values(ids: Sequence[int], since: datetime, until: datetime) -> dict[str, Any]:
    """What the statements are given: Myses, a span, its first turn and its events."""
    floor = find_first_turn_since(since)
    late = until + LONGEST_ACTION
    first, last = events.find_xids(since, late)
    return {
        "myses": list(ids),
        "floor": events.LARGEST_ID if floor is None else floor,
        "since": since,
        "until": until,
        "late": late,
        "first": first,
        "last": last,
    }


def read_seconds(
    ids: tuple[int, ...], axis: Axis, most: float
) -> Mapping[int, StepSeconds]:
    """The seconds of each Mysis; blocks of steps that are over are read once.

    Raises SlowSearchError where reading takes more than ``most`` seconds.
    """
    found: dict[int, dict[int, dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    size = axis.step * BLOCK
    begin = round(axis.since.timestamp())
    for number, rows in _read_blocks(ids, axis, most).items():
        offset = (number * size - begin) // axis.step
        for mysis, step, activity, seconds in rows:
            if step + offset >= 0:
                found[mysis][step + offset][activity] = seconds
    return found


def _read_blocks(
    ids: tuple[int, ...], axis: Axis, most: float
) -> dict[int, Sequence[_Row]]:
    """The rows of all blocks by their numbers: those that are not kept are read."""
    size = axis.step * BLOCK
    first = round(axis.since.timestamp()) // size
    last = max(first, ceil(axis.until.timestamp() / size) - 1)
    found: dict[int, Sequence[_Row]] = {}
    for number in range(first, last + 1):
        kept = _past_blocks.peek((ids, axis.step, number))
        if kept is not None:
            found[number] = kept
    missing = [number for number in range(first, last + 1) if number not in found]
    at_once = max(1, int(HOURS_AT_ONCE * 3600 / (size * len(ids))))
    started = monotonic()
    for place, (begin, end) in enumerate(_find_runs(missing, at_once)):
        # Each look reads something.
        if place and monotonic() - started > most:
            raise SlowSearchError(most)
        fresh = _read_run(ids, axis, begin, end)
        found |= fresh
        _keep_settled(ids, axis, fresh)
    return found


def _find_runs(numbers: Sequence[int], most: int) -> list[tuple[int, int]]:
    """The first and the last of each run of at most so many neighbouring numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1 and number - runs[-1][0] < most:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _read_run(
    ids: tuple[int, ...], axis: Axis, begin: int, end: int
) -> dict[int, list[_Row]]:
    """The rows of the blocks from one to another."""
    size = axis.step * BLOCK
    fresh: dict[int, list[_Row]] = {number: [] for number in range(begin, end + 1)}
    since = datetime.fromtimestamp(begin * size, UTC)
    until = min(axis.until, datetime.fromtimestamp((end + 1) * size, UTC))
    values = make_values(ids, since, until)
    own = {"step": axis.step, "tools": json.dumps(TOOLS)}
    for mysis, step, activity, seconds in fetch_rows(_STEPS, values | own):
        block, place = divmod(step, BLOCK)
        fresh[begin + block].append((mysis, place, activity, seconds))
    return fresh


def _keep_settled(
    ids: tuple[int, ...], axis: Axis, fresh: Mapping[int, Sequence[_Row]]
) -> None:
    """Keep the blocks of which nothing changes any more."""
    size = axis.step * BLOCK
    settled = (timezone.now() - LONGEST_ACTION).timestamp()
    for number, rows in fresh.items():
        if (number + 1) * size <= min(settled, axis.until.timestamp()):
            _past_blocks.get((ids, axis.step, number), partial(tuple, rows))
