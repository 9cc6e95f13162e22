"""What a summary tells now: made anew when it may read otherwise, and only then.

Two questions are apart here. Whether the text has to be made again is asked of the
database by one query: the versions of the rows that it is made of, as PostgreSQL keeps
them. Whether a client has to be sent it again is asked of the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.utils import timezone

from memory.gamestate.happenings import MOST
from memory.gamestate.render import render
from memory.models import HistorySummary, SentContext
from memory.owners import named, unknown
from memory.reading import account_state, fetches_events

from .summaries import SummaryText

KEPT_TEXTS = 256

# A row's place and writer change with every update of it, also of a column that
# somebody adds later. The place alone is used again after a vacuum, the writer alone
# is the same for two updates of one transaction.
VERSION = """
SELECT
  (SELECT concat_ws(' ', id, ctid, xmin) FROM memory_historysummary
   WHERE mysis_id = %(mysis)s AND status = 'active'
   ORDER BY through_id DESC, id DESC LIMIT 1),
  (SELECT max(id) FROM memory_sentcontext WHERE mysis_id = %(mysis)s),
  (SELECT md5(string_agg(concat_ws(' ', id, ctid, xmin), ',' ORDER BY id))
   FROM memory_gamesnapshot WHERE username = %(username)s AND logged_out_at IS NULL),
  (SELECT concat_ws(' ', ctid, xmin) FROM memory_accountclock
   WHERE username = %(username)s),
  (SELECT concat_ws(' ', ctid, xmin) FROM memory_lexicon
   WHERE username = %(username)s),
  (SELECT md5(string_agg(concat_ws(' ', id, ctid, xmin), ',' ORDER BY id))
   FROM memory_actionunderway WHERE username = %(username)s),
  (SELECT string_agg(concat_ws(' ', id, ctid, xmin), ',') FROM (
     SELECT id, ctid, xmin FROM memory_gameevent WHERE username = %(username)s
     ORDER BY received_at DESC, id DESC LIMIT %(events)s) AS newest)
"""

# Ages as the state block writes them.
AGE = re.compile(
    r"(?P<number>\d{1,9}) (?P<unit>ticks|seconds|minutes|h)(?: \d{1,2} min)?"
    r" (?P<end>ago|old)(?: \([\d.e+]{1,20} seconds\))?"
)


@dataclass(frozen=True, slots=True)
class Told:
    """The state block, the newest history summary, and what an ETag is made of."""

    state: str
    summary: Mapping[str, Any] | None
    mark: str


@dataclass(frozen=True, slots=True)
class Place:
    """Whose summary, and all that its text depends on beside the rows."""

    mysis_id: int
    username: str | None
    fetched: bool
    version: tuple[object, ...]
    second: int
    rules: str


def told(reference: str) -> Told:
    """What there is to tell of a Mysis; raises a 404 Problem.

    Costs two queries as long as nothing was written and the second is the same.
    """
    myses = apps.get_model("agents", "Mysis").objects
    columns = myses.values_list("pk", "account__username", "policy__options")
    found = named(columns, reference).first()
    if found is None:
        raise unknown(reference)
    mysis_id, username, options = found
    place = Place(
        mysis_id=mysis_id,
        username=username,
        fetched=fetches_events(options or {}),
        version=_version(mysis_id, username),
        second=int(timezone.now().timestamp()),
        rules=_rules(),
    )
    return _made(place)


def _version(mysis_id: int, username: str | None) -> tuple[object, ...]:
    wanted: dict[str, str | int | None]
    wanted = {"mysis": mysis_id, "username": username, "events": MOST}
    with connection.cursor() as cursor:
        cursor.execute(VERSION, wanted)
        return tuple(cursor.fetchone() or ())


def _rules() -> str:
    size, pace = settings.ZOEA_STATE_BLOCK_BYTES, settings.ZOEA_SECONDS_PER_TICK
    return repr((size, pace, settings.ZOEA_STATE_AGES))


@lru_cache(maxsize=KEPT_TEXTS)
def _made(place: Place) -> Told:
    state = _state(place)
    newest = HistorySummary.objects.filter(mysis_id=place.mysis_id, status="active")
    row = newest.order_by("-through_id", "-id").first()
    summary = SummaryText.from_orm(row).model_dump(mode="json") if row else None
    return Told(state, summary, f"{aged(state)}\n{summary}")


def _state(place: Place) -> str:
    """The state block as the next call of this Mysis would show it."""
    shown: Mapping[str, str] = {}
    if place.username is not None:
        calls = SentContext.objects.filter(mysis_id=place.mysis_id).order_by("-id")
        last = calls.values_list("username", "facts").first()
        shown = last[1] if last and last[0] == place.username else {}
    state = account_state(
        place.username, last_shown=shown, newest_only=True, fetched=place.fetched
    )
    return render(state, settings.ZOEA_STATE_BLOCK_BYTES).text


def aged(text: str) -> str:
    """A text with its ages rounded down to a power of two.

    Nothing new is told by an age that only grew a little. So a fleet that rests has
    the same ETag for longer and longer, and yet no copy tells an age of less than half.
    """
    return AGE.sub(_rounded, text)


def _rounded(match: re.Match[str]) -> str:
    size = int(match["number"]).bit_length()
    return f"2^{size} {match['unit']} {match['end']}"
