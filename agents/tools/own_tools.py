"""Our own tools, offered to Myses beside the game's, and to programs over MCP.

What a model reads of them stands here; what they answer, in `own_tool_answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from jsonschema import Draft202012Validator

from agents.actions.orders import LONGEST_NOTE as LONGEST_WORDS
from agents.actions.orders import REPORTS, SAID_BY_OPERATORS
from agents.db import run_long_in_db
from agents.events import Kind
from agents.models import Mysis
from agents.order_status import STATES
from agents.tools import fleet_answers, message_answers, own_tool_answers
from agents.tools.game_calls import IN_PLACE, answer_in_place
from agents.tools.own_tool_answers import (
    DEFAULT_LIMIT,
    DEFAULT_LISTED,
    LONGEST_QUERY,
    MOST_HITS,
    MOST_LISTED,
    Answer,
    LocalRefusedError,
    Scope,
    refuse_failures,
)
from agents.tools.request import (
    CallNext,
    Outcome,
    Request,
    Tool,
    ToolSpec,
    make_refusal,
)
from memory.context.sections import LONGEST_NAME, LONGEST_NOTE, SHOWN_BYTES
from memory.context.tool_calls import guess_policy
from memory.handles import LARGEST_PART
from memory.models.secret_tools import read_secret_tools

Schema = dict[str, Any]

# These act; they are offered only where the Mysis's policy allows it.
SENDING = frozenset({"zoea_send_message", "zoea_broadcast"})
# These say what became of an order; a Mysis is offered them while it has an open one.
REPORTING = frozenset({"zoea_report_order"})
# What programs do with orders, beside reading them.
ORDERING = frozenset({"zoea_send_order", "zoea_change_order"})
# These change what the Mysis itself keeps.
NOTING = frozenset({"zoea_note", "zoea_forget"})


def _field(kind: str | list[str], description: str, **more: object) -> Schema:
    return {"type": kind, **more, "description": description}


_which = partial(_field, ["integer", "string"])
text_field = partial(_field, "string")
_flag = partial(_field, "boolean")


def _whole(description: str, least: int = 0, most: int | None = None) -> Schema:
    bounds = {"minimum": least} | ({} if most is None else {"maximum": most})
    return _field("integer", description, **bounds)


_YOURSELF = _which("Yourself; leave it out")
MYSIS = _which("The number or the name of a Mysis")
_TO_ALL = {"message": text_field("What to say")}
_MEMBERS = {
    "group": text_field("Those of this group alone", maxLength=100),
    "tag": text_field("Those with this tag alone; no group then", maxLength=50),
}
_TO_ONE = {"mysis_id": MYSIS, **_TO_ALL}
_NEWEST = "Returns the newest matches, oldest first."

ANSWERS: Mapping[str, Callable[[Mapping[str, Any], Scope], Answer]] = {
    "zoea_search_messages": own_tool_answers.answer_search_messages,
    "zoea_search_reasoning": own_tool_answers.answer_search_reasoning,
    "zoea_search_broadcasts": own_tool_answers.answer_search_broadcasts,
    "zoea_recall": own_tool_answers.answer_recall,
    "zoea_swarm_status": fleet_answers.answer_swarm_status,
    "zoea_list_myses": fleet_answers.answer_list_myses,
    "zoea_list_events": fleet_answers.answer_list_events,
    "zoea_send_message": message_answers.answer_send_message,
    "zoea_broadcast": message_answers.answer_broadcast,
    "zoea_note": own_tool_answers.answer_note,
    "zoea_forget": own_tool_answers.answer_forget,
    "zoea_report_order": message_answers.answer_report_order,
    "zoea_list_orders": message_answers.answer_list_orders,
    "zoea_send_order": message_answers.answer_send_order,
    "zoea_change_order": message_answers.answer_change_order,
}


_SEARCH = {
    "query": text_field("Words that must all occur", maxLength=LONGEST_QUERY),
    "limit": _whole(f"How many at most (default {DEFAULT_LIMIT})", 1, MOST_HITS),
    "mode": text_field(
        "fts: words (default); exact: the text letter for letter",
        enum=["fts", "exact"],
    ),
}

# Not for Myses: each argument more is paid for in every call of a model.
SEARCH_BY_PROGRAMS = {
    **_SEARCH,
    "ignore_case": _flag("For exact: upper and lower case are one"),
    "stem": _flag("For fts: by English stems, so that mining finds mined"),
}

_RECALL = {
    "handle": text_field(
        "ctx://<mysis>/<message id>, note://<mysis>/<name>, or state://<tool>"
    ),
    "offset": _whole("The character to begin at (default 0)"),
    "limit": _whole(
        f"How many characters at most (default {LARGEST_PART})", 1, LARGEST_PART
    ),
}

_LISTING = {
    "limit": _whole(f"How many at most (default {DEFAULT_LISTED})", 1, MOST_LISTED),
    "after": _whole("`next` of the answer before, for more"),
}
_BEFORE = _whole("`next` of the answer before, for more", 1)


def define_tool(
    name: str,
    description: str,
    properties: Mapping[str, Schema],
    required: Iterable[str] = (),
) -> Tool:
    """Define one of our own tools; its arguments are checked against this schema."""
    schema: Schema = {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
    }
    acts = SENDING | NOTING | REPORTING | ORDERING
    policy, read_only = guess_policy(name), name not in acts
    spec = ToolSpec(name, description, schema, policy, read_only)
    return Tool(spec, validator=Draft202012Validator(schema), local=True)


def _table(
    **tools: tuple[str, Mapping[str, Schema], list[str]],
) -> Mapping[str, Tool]:
    return {name: define_tool(name, *given) for name, given in tools.items()}


# As a Mysis sees them: about itself, nobody else's memory.
FOR_MYSES = _table(
    zoea_search_messages=(
        "Search your own past messages, also those that your context no longer "
        f"shows. {_NEWEST}",
        {**_SEARCH, "mysis_id": _YOURSELF},
        ["query"],
    ),
    zoea_search_reasoning=(
        f"Search your own past reasoning. {_NEWEST}",
        {**_SEARCH, "mysis_id": _YOURSELF},
        ["query"],
    ),
    zoea_search_broadcasts=(
        f"Search the broadcasts of the fleet. {_NEWEST}",
        _SEARCH,
        ["query"],
    ),
    zoea_recall=(
        "Get back in full what your context shows shortened: ctx:// handles are "
        "messages, note:// handles are notes, state://<tool> is the newest answer of a "
        "state tool without asking the game. Long texts come in parts.",
        _RECALL,
        ["handle"],
    ),
    zoea_note=(
        "Keep a note for yourself, or replace the one of that name. Your newest notes "
        f"are shown to you in every call, up to {SHOWN_BYTES:,} bytes; the others by "
        "name.",
        {
            "name": text_field("A few words", maxLength=LONGEST_NAME),
            "text": text_field("What to keep", maxLength=LONGEST_NOTE),
        },
        ["name", "text"],
    ),
    zoea_forget=(
        "Forget a note that is no longer true.",
        {"name": text_field("The name of the note")},
        ["name"],
    ),
    zoea_report_order=(
        "Report what became of an order that was given to you: done, not_done, or "
        "working while you go on with it.",
        {
            "order": _whole("Its number; leave it out if one is open", 1),
            "status": text_field("What became of it", enum=list(REPORTS)),
            "note": text_field("What you did, or why not", maxLength=LONGEST_WORDS),
        },
        ["status"],
    ),
    zoea_swarm_status=("How many Myses of the fleet are in which state.", {}, []),
    zoea_list_myses=(
        "The Myses of the fleet: number, name, state, game account.",
        _LISTING,
        [],
    ),
    zoea_send_message=(
        "Write to another Mysis. An idle one wakes.",
        _TO_ONE,
        list(_TO_ONE),
    ),
    zoea_broadcast=(
        "Write to every other Mysis that is idle or running.",
        _TO_ALL,
        list(_TO_ALL),
    ),
)

_NOTE = text_field("What came of it, or what is in the way", maxLength=LONGEST_WORDS)
_ORDER = _whole("The number of the order", 1)
_OF_ORDERS = {
    "state": text_field(
        "Those in this state; open: that nobody has ended", enum=STATES
    ),
    "order": _whole("This one alone", 1),
}

# As programs outside see them, over MCP.
FOR_PROGRAMS = _table(
    zoea_search_messages=(
        f"Search the messages of one Mysis. {_NEWEST}",
        {"mysis_id": MYSIS, **SEARCH_BY_PROGRAMS},
        ["mysis_id", "query"],
    ),
    zoea_search_reasoning=(
        f"Search what one Mysis thought. {_NEWEST}",
        {"mysis_id": MYSIS, **SEARCH_BY_PROGRAMS},
        ["mysis_id", "query"],
    ),
    zoea_search_broadcasts=(
        f"Search all broadcasts. {_NEWEST}",
        SEARCH_BY_PROGRAMS,
        ["query"],
    ),
    zoea_recall=(
        "The stored text behind a handle: ctx://<mysis>/<message id>, "
        "note://<mysis>/<name>, or state://<tool> with the mysis_id whose game state "
        "is meant. Long texts come in parts.",
        {**_RECALL, "mysis_id": MYSIS | {"description": "For state:// handles"}},
        ["handle"],
    ),
    zoea_swarm_status=(
        "How many Myses are in which state, who stands still, since when and why.",
        {},
        [],
    ),
    zoea_list_events=(
        "What happened, oldest first: the newest events, or those after one. A call of "
        "a tool has its outcome in one line.",
        {
            "mysis_id": MYSIS | {"description": "Of this Mysis alone"},
            "kind": text_field("Of this kind alone", enum=list(map(str, Kind))),
            "after": _whole("`next` of the answer before"),
            "limit": _LISTING["limit"],
        },
        [],
    ),
    zoea_list_myses=(
        "The Myses: number, name, state, account, model, group, tags, what they do, "
        "last error, why they idle.",
        {**_LISTING, **_MEMBERS},
        [],
    ),
    zoea_send_message=(
        "Write to one Mysis as its operator. An idle one wakes.",
        _TO_ONE,
        list(_TO_ONE),
    ),
    zoea_broadcast=(
        "Write to every Mysis that is idle or running, or to those of a group or a tag.",
        {**_TO_ALL, **_MEMBERS},
        list(_TO_ALL),
    ),
    zoea_list_orders=(
        "Orders, newest first: how far each has come with whom, and what was said of it.",
        {**_OF_ORDERS, "limit": _LISTING["limit"], "before": _BEFORE},
        [],
    ),
    zoea_send_order=(
        "Give an order: to Myses by name, to a group, to a tag, or to the whole fleet. "
        "Those that are stopped or errored do not get it.",
        {
            **_TO_ALL,
            "myses": {"type": "array", "items": MYSIS, "minItems": 1},
            **_MEMBERS,
            "fleet": _flag("The whole fleet"),
            "supersede": _flag("End the orders that they have open"),
        },
        list(_TO_ALL),
    ),
    zoea_change_order=(
        "Say what became of an order: done, not_done or superseded; open takes that "
        "back. Without mysis_id for all with whom it is open.",
        {
            "order": _ORDER,
            "state": text_field("What became of it", enum=list(SAID_BY_OPERATORS)),
            "note": _NOTE,
            "mysis_id": MYSIS,
        },
        ["order"],
    ),
)

# For a Mysis that may not write to others.
SILENT: Mapping[str, Tool] = {
    name: each for name, each in FOR_MYSES.items() if name not in SENDING
}


async def answer_locally(request: Request, call_next: CallNext) -> Outcome:
    """The step that answers our own tools; everything else is passed on."""
    if request.tool is None or not request.tool.local:
        return await call_next(request)
    if request.name in IN_PLACE:
        return answer_in_place(request)
    try:
        answer = await run_long_in_db(_answer, request)
    except LocalRefusedError as error:
        return make_refusal("invalid_arguments", str(error))
    return Outcome(answer.blocks)


def _answer(request: Request) -> Answer:
    mysis_id = request.caller.mysis_id
    name = Mysis.objects.values_list("name", flat=True).get(pk=mysis_id)
    caller = request.caller
    names = {*caller.tools, *caller.policies}
    told = frozenset(each for each in names if caller.find_policy(each) == "secret")
    secret = told | read_secret_tools()
    scope = Scope(f"mysis:{name}", mysis_id, secret, frozenset(caller.secrets))
    with refuse_failures():
        return ANSWERS[request.name](request.arguments, scope)
