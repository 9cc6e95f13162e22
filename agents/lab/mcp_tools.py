"""What programs ask of the lab over MCP: replays, prices, a recommendation, analytics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone
from pydantic import ValidationError

from agents.dashboard.yields import GROUPINGS, parse_span
from agents.lab import kept_replays
from agents.lab.analytics_board import (
    AnalyticsView,
    describe_outcome,
    describe_outcome_line,
    load_outcomes,
)
from agents.lab.policies import MOST_POLICIES, read_policies
from agents.lab.price_questions import PriceIn, read_trial
from agents.lab.prices import describe_prediction, predict_price
from agents.lab.recommend import (
    describe_recommendation,
    recommend_for_fleet,
    recommend_for_mysis,
)
from agents.models import Replay
from agents.tools.own_tool_answers import (
    Answer,
    LocalRefusedError,
    Scope,
    make_answer,
)
from agents.tools.own_tools import MYSIS, define_tool, text_field
from agents.tools.request import Tool
from memory.handles import MAX_ID
from memory.problems import Problem

_START_REPLAY = define_tool(
    "zoea_start_replay",
    "Assemble recorded model calls anew under other context policies, without a model, "
    "to see what each would cost and lose. Returns the number of the replay; "
    "zoea_read_replay tells what came of it.",
    {
        "policies": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_POLICIES,
            "items": {"type": ["string", "object"]},
            "description": "Each the name of a stored policy, or an object with a "
            "strategy, and maybe name, options, budget_tokens and budget_reserve",
        },
        "mysis_id": MYSIS,
        "label": text_field("A group or tag instead; without both, the fleet"),
        "since": text_field("A moment, or so long ago: 90m, 6h, 7d (default all)"),
        "until": text_field("A moment (default now)"),
    },
    ["policies"],
)

_READ_REPLAY = define_tool(
    "zoea_read_replay",
    "How far a replay is, and the figures of each policy: tokens, cost with and without "
    "the provider's cache, shared beginning, summaries asked for, and what was lost.",
    {"replay": {"type": "integer", "minimum": 1, "description": "Its number"}},
    ["replay"],
)

_PRICE = define_tool(
    "zoea_predict_price",
    "What the calls of the last hour would have cost under another setting, in tokens and "
    "dollars, beside what they did cost. With a mysis_id a policy, prompt or model is "
    "tried on that one; without, a named policy or prompt, changed by the rest, is "
    "priced for all that have it. Stores nothing.",
    {
        "mysis_id": MYSIS,
        "policy": text_field("The name or number of a stored policy"),
        "strategy": text_field("Another strategy of the policy"),
        "options": {"type": "object", "description": "Other options of the policy"},
        "budget": {
            "type": "object",
            "properties": {
                "tokens": {"type": "integer", "minimum": 1},
                "reserve": {"type": "integer", "minimum": 0},
            },
            "additionalProperties": False,
            "description": "Another budget of the policy",
        },
        "prompt": text_field("The name or number of a stored prompt"),
        "text": text_field("The text of the prompt, as it would be"),
        "model": text_field("Another model; with a mysis_id"),
    },
    [],
)

_RECOMMEND = define_tool(
    "zoea_recommend_policy",
    "The cheapest context policy that lost nothing in the newest finished replay, what it "
    "saves and what it gives up, for a Mysis or, without one, for the fleet. Applies "
    "nothing.",
    {"mysis_id": MYSIS},
    [],
)

_ANALYTICS = define_tool(
    "zoea_analytics",
    "What came of prompts, policies and models: compactions, recalls, repeated reads, "
    "tokens by category, calls per action, facts doubted, and cost per credit earned, "
    "in the order of their names.",
    {
        "by": text_field("By what (default mysis)", enum=list(GROUPINGS)),
        "since": text_field("So long ago, of 5m to 31d: 90m, 1h (default), 7d"),
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 200,
            "description": "How many lines at most (default 50)",
        },
    },
    [],
)

TOOLS: Mapping[str, Tool] = {
    tool.spec.name: tool
    for tool in (_START_REPLAY, _READ_REPLAY, _PRICE, _RECOMMEND, _ANALYTICS)
}
# Those that need the role operator.
WRITING = frozenset({_START_REPLAY.spec.name})


def _start_replay(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    reference, label = arguments.get("mysis_id"), arguments.get("label", "")
    if reference is not None and label:
        raise LocalRefusedError("label: leave it out, or name no mysis_id.")
    replay = kept_replays.start_replay(
        policies=read_policies(arguments["policies"]),
        by=scope.by,
        mysis=None if reference is None else scope.find_target(reference),
        label=label,
        since=kept_replays.read_moment("since", arguments.get("since")),
        until=kept_replays.read_moment("until", arguments.get("until")),
    )
    return make_answer({"id": replay.pk, "total": replay.total})


def _read_replay(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    number = arguments["replay"]
    found = Replay.objects.filter(pk=min(number, MAX_ID)).first()
    if found is None:
        raise LocalRefusedError(f"There is no replay {number}.")
    told = kept_replays.describe_replay(found)
    return _answer(told)


def _predict_price(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    reference = arguments.get("mysis_id")
    given = {name: value for name, value in arguments.items() if name != "mysis_id"}
    if reference is not None:
        given["mysis"] = str(scope.find_target(reference).pk)
    try:
        tried = read_trial(PriceIn(**given))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise LocalRefusedError(f"{place}: {first['msg']}.") from error
    except Problem as error:
        raise LocalRefusedError(error.detail) from error
    found = predict_price(tried.myses, tried.setting, timezone.now())
    return _answer(describe_prediction(found))


def _recommend_policy(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    reference = arguments.get("mysis_id")
    found = (
        recommend_for_fleet()
        if reference is None
        else recommend_for_mysis(scope.find_target(reference))
    )
    return _answer(describe_recommendation(found))


def _tell_analytics(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    by, since = arguments.get("by", "mysis"), arguments.get("since", "1h")
    if parse_span(since) is None:
        raise LocalRefusedError("since: give 90m, 6h or 7d, of 5m to 31d.")
    board = load_outcomes(AnalyticsView(by, since, "name"), timezone.now())
    if not board.whole:
        raise LocalRefusedError(
            "Given up after 4 s: ask again, as what was added up is kept, or ask for "
            "less time."
        )
    lines = board.lines[: int(arguments.get("limit", 50))]
    return _answer(
        {
            "by": by,
            "since": board.since,
            "total": describe_outcome(board.total),
            "count": len(board.lines),
            "items": [describe_outcome_line(line) for line in lines],
        }
    )


def _answer(told: Mapping[str, Any]) -> Answer:
    """What is told, with its moments and amounts as JSON has them."""
    return make_answer(json.loads(json.dumps(told, cls=DjangoJSONEncoder)))


ANSWERS: Mapping[str, Callable[[Mapping[str, Any], Scope], Answer]] = {
    _START_REPLAY.spec.name: _start_replay,
    _READ_REPLAY.spec.name: _read_replay,
    _PRICE.spec.name: _predict_price,
    _RECOMMEND.spec.name: _recommend_policy,
    _ANALYTICS.spec.name: _tell_analytics,
}
