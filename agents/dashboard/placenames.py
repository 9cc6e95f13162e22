"""What places are called, where the answers at hand give only their ids.

An account's lexicon keeps the names that earlier answers told; a map that anybody
asked for names the systems to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.db import connection
from django.utils import timezone

from memory.gamestate.names import Names, known_names
from memory.gamestate.paths import first, primary
from memory.gamestate.types import Snapshot

from . import galaxy
from .shared import Shared, bucket

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
KEPT = 20_000

# Pairs, for a lexicon may have a thousand names: only those that are shown are read.
LOOK_UP = """
SELECT wanted.username, wanted.id, lexicon.names ->> wanted.id
FROM unnest(%s::text[], %s::text[]) AS wanted(username, id)
JOIN memory_lexicon AS lexicon ON lexicon.username = wanted.username
WHERE lexicon.names ->> wanted.id IS NOT NULL
"""

# An account and an id; before them what makes the answer of ten seconds ago old.
Pair = tuple[str, str]
Key = tuple[int, str, str]
_names = Shared(KEPT)


def places_in(snapshot: Snapshot) -> tuple[str, ...]:
    """The ids of the system, the point of interest and the base that it names."""
    if snapshot.tool not in TELLING or snapshot.args:
        return ()
    content = primary(snapshot.current)
    if not isinstance(content, Mapping):
        return ()
    found = (first(content, *paths) for paths in PLACES)
    return tuple(one if isinstance(one, str) else "" for one in found)


def named_in(snapshot: Snapshot) -> Names:
    """What it calls places, by id."""
    return known_names([snapshot]) if snapshot.tool in NAMING else {}


def names_for(wanted: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """By account, the names of these ids as far as they are known.

    At most two queries, however many accounts; none where this process has looked
    all of them up, named or not, in these ten seconds.
    """
    seen = bucket(timezone.now())
    pairs = {(who, one) for who, ids in wanted.items() for one in ids if one}
    told = _names.get_many([(seen, *pair) for pair in sorted(pairs)], _told)
    found: dict[str, dict[str, str]] = {who: {} for who in wanted}
    for (_, who, one), name in told.items():
        if name:
            found[who][one] = name
    return found


def _told(keys: Sequence[Key]) -> dict[Key, str]:
    """The names; empty for what nobody knows, which is not looked up again either."""
    pairs = [(who, one) for _, who, one in keys]
    known = _charted(_looked_up(pairs), pairs)
    return {(seen, who, one): known.get((who, one), "") for seen, who, one in keys}


def _looked_up(missing: Sequence[Pair]) -> dict[Pair, str]:
    columns = [[who for who, _ in missing], [one for _, one in missing]]
    with connection.cursor() as cursor:
        cursor.execute(LOOK_UP, columns)
        return {(who, one): name for who, one, name in cursor.fetchall()}


def _charted(told: dict[Pair, str], missing: Sequence[Pair]) -> dict[Pair, str]:
    """With the names of systems that only the newest map knows."""
    rest = [pair for pair in missing if pair not in told]
    chart = galaxy.chart() if rest else None
    if chart is None:
        return told
    stars = {pair: chart.stars[pair[1]].name for pair in rest if pair[1] in chart.stars}
    return told | stars
