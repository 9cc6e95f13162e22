"""What happened in a span of time, added up: for the page, REST and alert targets.

Equal things are one line with a count and the first names. A page, Markdown and plain
text are written from the same lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.admin.models import ADDITION, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from agents.actions.base import name_person
from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.yields import (
    LONG_SHARE,
    LONG_SPAN,
    LONGEST,
    Sums,
    YieldLine,
    add_up_lines,
    add_up_yield,
    list_myses,
    parse_span,
)
from agents.events import Kind
from agents.idle import Idlers, read_idlers
from agents.models import Mysis, PromptVersion
from agents.models.runs import DIGEST_KINDS
from agents.order_status import (
    OrderStatus,
    count_orders,
    read_orders,
    select_orders,
)
from memory.concurrency import ConcurrencyLimit, limit_statements
from memory.models import ContextPolicy, fetch_rows
from memory.problems import make_busy
from memory.redaction import hide_secrets

DEFAULT_SPAN = timedelta(hours=24)
# A link to the longest span may be followed so much later.
LATE = timedelta(hours=1)
# Names of Myses in a line, and lines of orders, prompts and causes.
NAMED, LISTED = 3, 5
TOO_SLOW = "What happened took too long to add up: ask for a shorter span."
_place = ConcurrencyLimit(
    1, seconds=10, refusal="Others are asking what happened: not added up."
)
# Myses among the best, and among the worst; changes that are counted.
RANKED, COUNTED = 3, 500
# Characters of an error, an order or a note in a line.
TEXT = 120
# So many are read of it: a secret must not slip through where it is cut.
READ = TEXT + 1_000
# In the place of a state: it ran, but nobody knows whether somebody started it.
BEGUN = "begun"

_KINDS = ", ".join(f"'{kind}'" for kind in DIGEST_KINDS)
# State events also tell of notes, orders and badges: a change is where the state before
# was another one. Who changed settings says which. Where input woke a Mysis there is a
# trigger: nobody started it. Events of before have neither the state before nor a
# trigger: who ran after it was idle, or after nobody knows what, was started or woken.
_HAPPENED = f"""
WITH found AS (
  SELECT id, xid, kind, mysis_id, data,
    coalesce(data->>'before',
      lag(data->>'state') OVER (PARTITION BY mysis_id, kind ORDER BY xid, id)) AS before
  FROM agents_event
  WHERE kind IN ({_KINDS})
    AND created_at >= %(since)s AND created_at < %(until)s
    AND NOT (kind = 'mysis.state' AND (data ? 'note' OR data ? 'shown'))
), worded AS (
  SELECT id, mysis_id,
    CASE WHEN data ? 'changed' THEN 'settings' ELSE kind END AS kind,
    CASE
      WHEN data ? 'changed' THEN (SELECT string_agg(one, ', ')
        FROM jsonb_array_elements_text(data->'changed') AS one)
      WHEN kind = 'mysis.state' AND data->>'state' = 'running' AND NOT data ? 'before'
        AND coalesce(before, 'idle') = 'idle' THEN '{BEGUN}'
      WHEN kind = 'mysis.state' THEN data->>'state'
      WHEN kind = 'error' THEN coalesce(data->>'code', left(data->>'detail', {READ}))
      WHEN kind = 'context.compacted' THEN coalesce(data->>'status', 'made')
      ELSE data->>'rule'
    END AS what,
    CASE WHEN kind = 'mysis.state' THEN coalesce(data->>'by', '') ELSE '' END AS who,
    left(coalesce(data->>'detail', data->>'error', ''), {READ}) AS words
  FROM found
  WHERE kind <> 'mysis.state' OR data ? 'changed'
    OR (before IS DISTINCT FROM data->>'state' AND NOT data ? 'trigger')
)
SELECT kind, coalesce(what, ''), who, count(*), count(DISTINCT mysis_id),
  (array_agg(DISTINCT mysis_id))[1:{NAMED}], (array_agg(words ORDER BY id DESC))[1]
FROM worded GROUP BY kind, what, who ORDER BY count(*) DESC, what, who
"""  # noqa: S608 (no input in the text)


class Happened(NamedTuple):
    """Events that say the same: ``what`` is a state, a rule, a code or fields.

    ``who`` did it; ``words`` are those of the newest error.
    """

    kind: str
    what: str
    who: str
    times: int
    myses: int
    ids: Sequence[int]
    words: str


class Changed(NamedTuple):
    """A prompt version or a policy, who changed it, and what was said of that."""

    name: str
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Digest:
    """All that happened from ``since`` until ``until``; who idles is as of now.

    ``orders`` are the newest that were given, ``order_states`` counts all of them.
    """

    since: datetime
    until: datetime
    sums: Sums
    myses: Sequence[YieldLine]
    happened: Sequence[Happened]
    orders: Sequence[OrderStatus]
    order_states: Mapping[str, int]
    prompts: Sequence[Changed]
    policies: Sequence[Changed]
    idle: Idlers
    names: Mapping[int, str]

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened; that somebody still idles is nothing new."""
        return not (
            self.sums.turns
            or self.happened
            or self.order_states
            or self.prompts
            or self.policies
        )

    @property
    def best(self) -> Sequence[YieldLine]:
        """Those that gained most, of those that gained anything, with all that tie."""
        return _cut_ranks(
            [line for line in self._ranked if (line.sums.credits or 0) > 0]
        )

    @property
    def worst(self) -> Sequence[YieldLine]:
        """Those that gained least, the least first, with all that tie; nobody who is
        among the best."""
        best = {line.mysis for line in self.best}
        rest = [one for one in self._ranked if one.mysis not in best]
        return _cut_ranks(sorted(rest, key=lambda line: line.sums.credits or 0))

    @property
    def _ranked(self) -> list[YieldLine]:
        known = [line for line in self.myses if line.sums.credits is not None]
        return sorted(known, key=lambda line: -(line.sums.credits or 0))

    def select(self, kind: str) -> list[Happened]:
        """What happened of one kind, the most frequent first."""
        return [one for one in self.happened if one.kind == kind]


def _cut_ranks(ranked: Sequence[YieldLine]) -> Sequence[YieldLine]:
    """The first of a ranking, and who is equal to the last of them."""
    least = [line.sums.credits for line in ranked[:RANKED]][-1:]
    return [
        *ranked[:RANKED],
        *(one for one in ranked[RANKED:] if one.sums.credits in least),
    ]


def parse_since(text: str, now: datetime) -> datetime:
    """The moment of a span such as 8h or 7d, or of a timestamp of ISO 8601 (in UTC).

    Raises ValueError with the remedy for what is neither, is to come, or is too old.
    """
    if (span := parse_span(text)) is not None:
        return now - span
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(REMEDY) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if not now - LONGEST - LATE <= moment <= now:
        raise ValueError(REMEDY)
    return bound_since(moment, now)


REMEDY = (
    "give minutes, hours or days such as 90m, 8h or 7d, or a moment such as "
    "2026-01-31T08:00Z, of the last 31 days."
)


def bound_since(moment: datetime | None, now: datetime) -> datetime:
    """A moment that a digest may begin at; without one, a day ago."""
    if moment is None:
        return now - DEFAULT_SPAN
    return min(max(moment, now - LONGEST), now)


def share_digest(since: datetime, now: datetime) -> Digest:
    """`make_digest` from the minute on, once for all who ask within ten seconds.

    For more than some hours within a minute. One at a time is added up in a process:
    whoever asks for many spans holds up others who ask, and not the whole server. Raises
    a 503 Problem where that takes too long.
    """
    minute = since.replace(second=0, microsecond=0)
    seen = time_bucket(now)
    version = seen // LONG_SHARE if now - since > LONG_SPAN else seen

    def make() -> Digest:
        with _place.taken(), limit_statements(make_busy(TOO_SLOW)):
            return make_digest(minute, now)

    return shared.get(("digest", minute, version), make)


def make_digest(since: datetime, now: datetime | None = None) -> Digest:
    """Add up what happened since a moment; as many statements for any fleet."""
    until = now or timezone.now()
    found = add_up_yield(since, until)
    happened = [
        Happened(*row)
        for row in fetch_rows(_HAPPENED, {"since": since, "until": until})
    ]
    given = select_orders().filter(created_at__gte=since, created_at__lt=until)
    orders = read_orders(list(given.order_by("-pk")[:LISTED]), NAMED, stuck_only=True)
    return Digest(
        since=since,
        until=until,
        sums=add_up_lines(found),
        myses=[
            one
            for one in list_myses(found)
            if one.mysis not in found.grounded or one.sums.credits is not None
        ],
        happened=happened,
        orders=orders,
        order_states=count_orders(since, until),
        prompts=_list_prompts(since, until),
        policies=_list_policies(since, until),
        idle=read_idlers(),
        names={pk: pilot.name for pk, pilot in found.pilots.items()},
    )


def _list_prompts(since: datetime, until: datetime) -> list[Changed]:
    rows = PromptVersion.objects.filter(created_at__gte=since, created_at__lt=until)
    newest = rows.select_related("prompt").order_by("-pk")[:COUNTED]
    return [Changed(str(row), row.author, row.note) for row in newest]


_VERBS = {ADDITION: "made", DELETION: "deleted"}


def _list_policies(since: datetime, until: datetime) -> list[Changed]:
    """Policies that were changed, by whom as far as the admin's log knows."""
    model = ContentType.objects.get_for_model(ContextPolicy, for_concrete_model=False)
    log = LogEntry.objects.filter(
        content_type=model, action_time__gte=since, action_time__lt=until
    )
    entries = log.select_related("user").order_by("-pk")[:COUNTED]
    known = [
        (
            Changed(
                entry.object_repr,
                name_person(entry.user),
                _VERBS.get(entry.action_flag, ""),
            ),
            entry.object_id,
        )
        for entry in entries
    ]
    seen = {number for _, number in known}
    rows = ContextPolicy.objects.filter(updated_at__gte=since, updated_at__lt=until)
    others = rows.exclude(pk__in=[int(n) for n in seen if n and n.isdecimal()])
    return [
        *dict.fromkeys(one for one, _ in known),
        *(Changed(name, "") for name in others.values_list("name", flat=True)),
    ]


# --- As programs see it


def describe_digest(digest: Digest) -> dict[str, Any]:
    """The digest as programs see it; who idles is as of now."""
    return {
        "since": digest.since,
        "until": digest.until,
        "empty": digest.is_empty,
        "credits": digest.sums.credits,
        "turns": digest.sums.turns,
        "tokens": digest.sums.tokens,
        "cost": float(digest.sums.cost),
        "best": [_describe_earner(line) for line in digest.best],
        "worst": [_describe_earner(line) for line in digest.worst],
        "happened": [_describe_happened(one, digest.names) for one in digest.happened],
        "orders": dict(digest.order_states),
        "prompts": [
            one._replace(note=hide_secrets(one.note))._asdict()
            for one in digest.prompts
        ],
        "policies": [one._asdict() for one in digest.policies],
        "idle": digest.idle.unasked,
    }


def _describe_earner(line: YieldLine) -> dict[str, Any]:
    return {
        "mysis": line.mysis,
        "name": line.label,
        "credits": line.sums.credits,
        "credits_per_hour": line.sums.per_hour,
    }


def _describe_happened(one: Happened, names: Mapping[int, str]) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "what": hide_secrets(one.what)[:TEXT],
        "by": one.who or None,
        "count": one.times,
        "myses": one.myses,
        "names": list_names(one, names),
        "text": hide_secrets(one.words)[:TEXT] or None,
    }


def list_names(one: Happened, names: Mapping[int, str]) -> list[str]:
    """The names of the first Myses that something happened to."""
    return [names.get(number, GONE) for number in one.ids or ()]


GONE = "one that is gone"


def select_starts(digest: Digest) -> Iterator[tuple[str, Happened]]:
    """Who was started, stopped and so on, each with its word."""
    for one in digest.select(Kind.MYSIS_STATE):
        by_itself = one.who in ("", "runtime", "system")
        word = STATE_WORDS.get((one.what, by_itself))
        if word:
            yield word, one


# What a state event comes to, by whether the program itself brought it about.
STATE_WORDS: Mapping[tuple[str, bool], str] = {
    (Mysis.State.RUNNING, False): "Started",
    (BEGUN, False): "Started or woken",
    (Mysis.State.STOPPED, False): "Stopped",
    (Mysis.State.STOPPED, True): "Stopped",
    (Mysis.State.ERRORED, True): "Errored",
    (Mysis.State.IDLE, True): "Went idle",
    (Mysis.State.IDLE, False): "Made",
    ("deleted", False): "Deleted",
}
