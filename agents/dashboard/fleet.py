"""The rows of the fleet page: a fixed number of queries for any number of Myses."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Case, F, Q, QuerySet, When
from django.http import QueryDict
from django.utils.http import urlencode

from agents.dashboard import charts, conversation, game_state
from agents.dashboard.accounts import USED_TOOLS, AccountStatus, read_statuses
from agents.dashboard.charts import MysisHour, load_last_hours
from agents.dashboard.flags import FLAGS, make_flag_condition
from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.yield_board import order_ids
from agents.idle import Idle, load_idle
from agents.models import Mysis
from agents.models.fleet import find_page_key
from memory.models import fetch_named
from memory.snapshots.reads import read_moments

LAST_LINE = 240
# Rows of the first paint, for a screen holds twenty, and what can be asked for.
FIRST = 60
MOST = 2_000
MOST_DIGITS = 6
STATES = ("running", "idle", "stopped", "errored")
# The newest word of each of these Myses, as lines are made of it, and the statistics of
# its newest call.
_WORD = (*conversation.AS_STORED, *conversation.MADE_OF)
_NEWEST = f"""
SELECT owner.id AS owner, said.*, sent.stats::text AS stats
FROM unnest(%(myses)s::bigint[]) AS owner(id)
LEFT JOIN LATERAL (
  SELECT {", ".join(_WORD)}, left(content, %(shown)s) AS head, length(content) AS size,
    left(reasoning, %(shown)s) AS thought, length(reasoning) AS thought_size
  FROM memory_memory WHERE mysis_id = owner.id AND role <> 'tool' AND branch_id IS NULL
  ORDER BY id DESC LIMIT 1) AS said ON true
LEFT JOIN LATERAL (
  SELECT stats FROM memory_sentcontext WHERE mysis_id = owner.id
  ORDER BY id DESC LIMIT 1) AS sent ON true
"""  # noqa: S608 (no input in the text)
# What a row shows of its Mysis as it is stored.
STORED = (
    "id", "name", "group", "model", "state", "activity", "wake_at", "last_error", "hold",
    "stuck",
)  # fmt: skip
# Asked by each look at the fleet: the ORM would take longer to write it than the server
# to answer.
_STORED = f"""
SELECT {", ".join(f'mysis."{name}"' for name in STORED)}, account.username AS account,
  (SELECT id FROM agents_event WHERE mysis_id = mysis.id
    ORDER BY xid DESC, id DESC LIMIT 1) AS event
FROM agents_mysis AS mysis LEFT JOIN agents_account AS account
  ON account.id = mysis.account_id
WHERE mysis.id = ANY(%s)
"""  # noqa: S608 (no input in the text)
SORTS = {
    "name": "Name",
    "attention": "Needs attention",
    "newest": "Last line",
    "credits": "Credits",
    "yield": "Credits an hour",
    "yield_tokens": "Credits per 1,000 tokens",
    "yield_cost": "Credits per dollar",
    "context": "Context, fullest",
    "cost": "Cost, all time",
}


@dataclass(frozen=True, slots=True)
class LastLine:
    """The newest thing an agent said or did, or was told."""

    who: str
    text: str
    action: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class FleetRow:
    """All that one row shows."""

    id: int
    name: str
    group: str
    key: str
    model: str
    state: str
    activity: str
    wake_at: datetime | None
    last_error: str
    hold: str
    stuck: str
    idle: Idle | None
    account: str
    standing: AccountStatus
    said: LastLine | None
    gauge: charts.Gauge | None
    hour: MysisHour

    def __hash__(self) -> int:
        # Looked up for each row of each page: all that it shows takes long to hash.
        return hash((self.id, self.state, self.activity, self.said))


class Column(NamedTuple):
    """A column of the fleet table, drawn by ``templates/agents/fleet/cell_<name>.html``.

    A cell is drawn again only when one of the row's ``fields`` that it shows changes.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    end: bool = False


WHO = (
    "id", "key", "name", "group", "state", "activity", "hold", "stuck", "last_error",
    "idle",
)  # fmt: skip
# Each has a track of its own, in this order, in the grids of static/css/fleet.css.
COLUMNS = (
    Column("who", "Mysis", WHO),
    Column("place", "Where", ("key", "name", "account", "standing")),
    Column("purse", "Credits", ("standing",), end=True),
    Column("said", "Last line", ("name", "said")),
    Column("context", "Context", ("key", "gauge")),
    Column("hour", "Yield, last hour", ("hour",)),
    Column("acts", "", ("id", "key", "name", "state")),
)
# Those that can be left out: the name and the buttons always stand there.
OPTIONAL = tuple(one for one in COLUMNS if one.name not in ("who", "acts"))


@dataclass(frozen=True, slots=True)
class FleetView:
    """What a viewer asked to see: one state, names with a word, an order, how many.

    With ``group`` and ``tag`` only those in the group, and with the tag. ``hidden`` are
    the names of columns that are left out.
    """

    state: str = ""
    query: str = ""
    sort: str = "name"
    show: int = FIRST
    group: str = ""
    tag: str = ""
    hidden: tuple[str, ...] = ()

    @classmethod
    def read(cls, params: Any) -> FleetView:
        """From GET parameters; what is unknown falls back to everything."""
        state, sort = params.get("state", ""), params.get("sort", "")
        return cls(
            state if state in (*STATES, *FLAGS) else "",
            params.get("q", "").replace("\x00", "").strip()[:100],
            sort if sort in SORTS else "name",
            _read_count(params.get("show", "")),
            params.get("group", "").replace("\x00", "")[:100],
            params.get("tag", "").replace("\x00", "")[:50],
            _read_hidden(params),
        )

    @property
    def filtered(self) -> bool:
        return bool(self.state or self.query or self.group or self.tag)

    def write_query(self, show: int | None = None) -> str:
        """Its address parameters, with another ``show`` than its own if given."""
        values = {"state": self.state, "q": self.query, "sort": self.sort}
        members = {"group": self.group, "tag": self.tag}
        values |= {name: word for name, word in members.items() if word}
        if self.hidden:
            values["columns"] = ",".join(("who", *self.columns))
        return urlencode({**values, "show": str(show or self.show)})

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are shown beside the first."""
        return [one.name for one in OPTIONAL if one.name not in self.hidden]

    @property
    def saved_query(self) -> str:
        """What a saved view keeps: its parameters, from the first row on."""
        return self.write_query(FIRST)


def _read_hidden(params: Any) -> tuple[str, ...]:
    """The columns that ``columns`` does not name; without it all are shown."""
    if "columns" not in params:
        return ()
    # A form sends a parameter for each, an address one with commas between.
    given = params.getlist("columns") if isinstance(params, QueryDict) else ()
    named = set(",".join(given or (params["columns"],)).split(","))
    return tuple(one.name for one in OPTIONAL if one.name not in named)


def _read_count(text: str) -> int:
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        return FIRST
    return min(max(int(text), FIRST), MOST)


@dataclass(frozen=True, slots=True)
class FleetRows:
    """The first rows of a view, and all Myses that are in it."""

    shown: Sequence[FleetRow]
    matching: frozenset[int]
    view: FleetView

    @property
    def rest(self) -> int:
        return len(self.matching) - len(self.shown)

    def lists_as(self, other: FleetRows) -> bool:
        """Whether both show the same Myses in the same order, out of as many."""
        mine = self.view, self.matching, [row.id for row in self.shown]
        return mine == (other.view, other.matching, [row.id for row in other.shown])

    @property
    def more(self) -> str:
        """The address parameters that show the next ones too."""
        return self.view.write_query(min(MOST, self.view.show + FIRST))


# Orders that the database knows, before that by name.
ORDERS: Mapping[str, tuple[Any, ...]] = {
    "attention": (
        Case(
            When(state="errored", then=0),
            When(~Q(hold="") | ~Q(stuck="") | ~Q(last_error=""), then=1),
            When(state="stopped", then=2),
            When(state="idle", then=3),
            When(state="running", then=4),
        ),
    ),
    "newest": (F("last_memory_at").desc(nulls_last=True),),
    "cost": ("-cost",),
}
# Orders by what only a loaded row knows.
ROW_ORDERS: Mapping[str, Callable[[FleetRow], float]] = {
    "credits": lambda row: -(row.standing.credits or -1),
    "context": lambda row: -(row.gauge.used / row.gauge.limit if row.gauge else -1),
}


# Orders by what the last hour yielded, added up for all who look.
YIELD_ORDERS = {
    "yield": "per_hour",
    "yield_tokens": "per_1k_tokens",
    "yield_cost": "per_dollar",
}


def load_view(view: FleetView, now: datetime) -> FleetRows:
    """The rows of a view; orders that the database does not know are made here."""
    found = find_matching_ids(view)
    if view.sort in YIELD_ORDERS:
        found = order_ids(found, YIELD_ORDERS[view.sort], now)
    if view.sort in ROW_ORDERS:
        rows = sorted(load_rows(found, now), key=ROW_ORDERS[view.sort])[: view.show]
    else:
        rows = share_rows(found[: view.show], now)
    return FleetRows(rows, frozenset(found), view)


def find_matching_ids(view: FleetView) -> list[int]:
    """Ids of the Myses in a view, in its order."""
    return list(select_matching(view).values_list("id", flat=True))


def select_matching(view: FleetView) -> QuerySet[Mysis]:
    """The Myses in a view, in its order as far as the database knows it."""
    found = Mysis.select_members(group=view.group, tag=view.tag)
    if view.state in STATES:
        found = found.filter(state=view.state)
    elif view.state in FLAGS:
        found = found.filter(make_flag_condition(view.state))
    if view.query:
        found = found.filter(name__icontains=view.query)
    return found.order_by(*ORDERS.get(view.sort, ()), "name")


def load_rows(ids: Sequence[int], now: datetime) -> list[FleetRow]:
    """The rows of these Myses in the order given; deleted ones are left out."""
    stored = fetch_named(_STORED, [list(ids)])
    found = {row.id: row for row in _make_rows(stored, now)}
    return [found[number] for number in ids if number in found]


def share_rows(ids: Sequence[int], now: datetime) -> list[FleetRow]:
    """The same, made once for all who look.

    A row is made anew where its Mysis is stored in another way or an event tells of it,
    and after ten seconds: each at a moment of its own, so that nobody waits for all.
    """
    stored: dict[Hashable, Mapping[str, Any]] = {
        ("row", time_bucket(now, shift=row["id"]), *row.values()): row
        for row in fetch_named(_STORED, [list(ids)])
    }

    def make(keys: Sequence[Hashable]) -> dict[Hashable, FleetRow]:
        made = _make_rows([stored[key] for key in keys], now)
        return dict(zip(keys, made, strict=True))

    found = {row.id: row for row in shared.get_many(list(stored), make).values()}
    return [found[number] for number in ids if number in found]


def _make_rows(stored: Sequence[Mapping[str, Any]], now: datetime) -> list[FleetRow]:
    ids = [one["id"] for one in stored]
    usernames = [one["account"] for one in stored if one["account"]]
    present = read_moments(usernames, now)
    snapshots = game_state.load_snapshots(usernames, *USED_TOOLS)
    standings = read_statuses(snapshots, present)
    asked = {"myses": ids, "shown": LAST_LINE + conversation.MARGIN}
    newest = {row["owner"]: row for row in fetch_named(_NEWEST, asked)}
    hours = load_last_hours(ids, now)
    resting = [one["id"] for one in stored if one["state"] == Mysis.State.IDLE]
    idle = {one.id: one for one in load_idle(resting)} if resting else {}
    return [
        FleetRow(
            **{name: one[name] for name in STORED},
            key=find_page_key(one["id"], one["name"]),
            idle=idle.get(one["id"]),
            account=one["account"] or "",
            standing=standings.get(one["account"] or "", AccountStatus()),
            said=_make_last_line(newest[one["id"]], one["name"]),
            gauge=_parse_gauge(newest[one["id"]]["stats"]),
            hour=hours[one["id"]],
        )
        for one in stored
    ]


def _make_last_line(word: Mapping[str, Any], name: str) -> LastLine | None:
    if word["id"] is None:
        return None
    calls = json.loads(word["tool_calls"])
    line = conversation.make_line({**word, "tool_calls": calls}, name)
    text = line.body
    if line.acts:
        doing = ", ".join(f"{call.name}({call.args})" for call in line.calls)
        text = conversation.clip_text(doing, LAST_LINE)
    return LastLine(line.who, text, line.acts, line.at)


@lru_cache(maxsize=1_024)
def _parse_gauge(stats: str | None) -> charts.Gauge | None:
    # Of a fleet most have made no new call since somebody looked.
    return charts.make_gauge(json.loads(stats)) if stats else None
