"""What our tools for the whole fleet answer: how it is, who is in it, what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import events
from agents.events import START, format_moment
from agents.idle import describe_idlers, read_idle_words, read_idlers
from agents.models import Event, Mysis
from agents.tools.own_tool_answers import (
    DEFAULT_LISTED,
    Answer,
    Scope,
    find_mysis,
    make_answer,
    read_members,
)
from memory.snapshots.writes import read_newest_tick


def answer_swarm_status(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """How many Myses are in which state, who idles and why, and the newest game tick."""
    counts = Mysis.count_by_state()
    found = {"total": sum(counts.values()), "counts": counts}
    if scope.mysis_id is None:
        # What others were ordered is not a Mysis's business.
        idle = describe_idlers(read_idlers())
        for group in idle["groups"]:
            group["since"] = format_moment(group["since"])
        found["idle"] = idle
    return make_answer({**found, "tick": read_newest_tick()})


def answer_list_events(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """The events after one, or the newest, oldest first; ``next`` is where to go on."""
    kind = arguments.get("kind")
    owner = arguments.get("mysis_id")
    asked: dict[str, Any] = {
        "mysis_id": None if owner is None else find_mysis(owner).pk,
        "kinds": [kind] if kind else (),
        "limit": int(arguments.get("limit", DEFAULT_LISTED)),
    }
    after = arguments.get("after")
    found = events.read_after(_find_start(asked) if after is None else after, **asked)
    last = found[-1]["id"] if found else after
    return make_answer({"events": found, "next": last})


def _find_start(asked: Mapping[str, Any]) -> int:
    """The event after which the newest ``limit`` of these come; 0 where there are fewer."""
    rows = Event.objects.order_by("-xid", "-id")
    if asked["mysis_id"] is not None:
        rows = rows.filter(mysis_id=asked["mysis_id"])
    if asked["kinds"]:
        rows = rows.filter(kind__in=asked["kinds"])
    place = asked["limit"]
    return next(iter(rows.values_list("pk", flat=True)[place : place + 1]), START.id)


def answer_list_myses(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """The Myses by number; ``next`` is the ``after`` of the following page."""
    limit = int(arguments.get("limit", DEFAULT_LISTED))
    found = Mysis.select_members(**read_members(arguments))
    rows = found.select_related("account", "policy").order_by("pk")
    after = int(arguments.get("after", 0))
    page = list(rows.filter(pk__gt=after)[: limit + 1])
    more = page[limit - 1].pk if len(page) > limit else None
    page = page[:limit]
    if scope.mysis_id is None:
        Mysis.share_fleet_policy(page)
        idle = read_idle_words(page)
        shown = [_full_line(row, idle) for row in page]
    else:
        # What another one does and runs on is not a Mysis's business.
        shown = [
            _mysis_line(row) | {"is_you": row.pk == scope.mysis_id} for row in page
        ]
    return make_answer({"total": rows.count(), "myses": shown, "next": more})


def _mysis_line(row: Mysis) -> dict[str, Any]:
    return {
        "id": row.pk,
        "name": row.name,
        "state": row.state,
        "account": row.account.username if row.account else None,
    }


def _full_line(row: Mysis, idle: Mapping[int, str]) -> dict[str, Any]:
    return _mysis_line(row) | {
        "model": row.model,
        "policy": row.policy.name if row.policy else None,
        "effective_policy": row.effective_policy.name or None,
        "group": row.group,
        "tags": row.tags,
        "activity": row.activity,
        "tick": row.tick,
        "last_error": row.last_error or None,
        "idle": idle.get(row.pk),
    }
