"""/myses: list, make, read, change, delete, start, stop, message, command."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, cast

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions, order_status, usage
from agents.actions import messages
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.api.orders import State
from agents.api.spending import BudgetOut, UsageOut
from agents.api.turns import RowName, caller_name, get_mysis, read_changes
from agents.budgets import BudgetStatus, read_mysis_statuses
from agents.idle import read_idle_words
from agents.manual_command import run_command
from agents.models import Mysis, Pin, Prompt, Usage
from agents.models.fleet import MOST_TAGS
from memory.api.log import MemoryOut
from memory.api.parameters import (
    FROM_JSON,
    Body,
    ErrorOut,
    M,
    MysisReference,
    Name,
    Page,
    Rows,
    Text,
    TextOrNull,
    Window,
    build_example,
    build_page,
    find_row,
    one_of,
)
from memory.models import ContextPolicy, Memory, Origin
from memory.problems import make_invalid

myses_router = Router(tags=["myses"])

# Fields of a new Mysis that a second action sets, in the same transaction.
SET_AFTERWARDS = ("messaging", "group", "tags")
# Where a row of a page has why it idles, read once for all.
IDLE_WORDS = "idle_words"
MaxIterations = Annotated[int, Field(ge=1, le=1000), FROM_JSON]

commands_router = Router(tags=["myses"])

messages_router = Router(tags=["myses"])


class MysisOut(Schema):
    """One agent. ``policy``, ``prompt`` and ``account`` are names, or null.

    ``effective_policy`` is the one that its calls are made under: its own, else the
    fleet's default; null where it is the built-in one. ``idle`` is why it idles, as
    its page says; null where it does not.
    """

    id: int
    name: str = Field(examples=["Ada"])
    state: str = Field(examples=["running"], json_schema_extra=one_of(Mysis.State))
    model: str = Field(examples=["openai:gpt-5-nano"])
    policy: RowName = Field(examples=["tight"])
    effective_policy: TextOrNull = Field(
        validation_alias="effective_policy.name", examples=["tight"]
    )
    prompt: RowName = Field(examples=["captain"])
    account: RowName = Field(examples=["VoidWanderer"])
    activity: str = Field(examples=["travelling"])
    tick: int | None = Field(examples=[1042])
    last_error: TextOrNull = Field(examples=[None])
    idle: TextOrNull = Field(examples=["its order is done, last order 'Sell the ore.'"])
    nudges: int = Field(examples=[0])
    created_at: datetime

    @staticmethod
    def resolve_idle(row: Mysis) -> str | None:
        """As it was read for a whole page, or of this one alone."""
        words = vars(row).get(IDLE_WORDS)
        return read_idle_words([row]).get(row.pk) if words is None else words


class MysisUsage(Schema):
    """What its calls came to: since 00:00 UTC, and altogether."""

    today: UsageOut
    total: UsageOut


class MysisDetail(MysisOut):
    """One agent with all that can be set, what it used, and which budgets count for it.

    ``hold`` is why it makes no call although it runs, ``stuck`` why it seems to get
    nowhere; null where it is not so.
    """

    group: str = Field(examples=["miners"])
    tags: list[str] = Field(examples=[["scout"]])
    pins: list[str] = Field(examples=[["Never attack."]])
    max_iterations: int = Field(examples=[10])
    messaging: bool
    hold: TextOrNull = Field(examples=[None])
    stuck: TextOrNull = Field(examples=[None])
    usage: MysisUsage
    budgets: list[BudgetOut]

    @staticmethod
    def resolve_pins(row: Mysis) -> list[str]:
        """The texts of those that stand; `/myses/{id}/pins` has their states."""
        standing = row.pins.filter(state__in=Pin.STANDING)
        return list(standing.order_by("pk").values_list("text", flat=True))

    @staticmethod
    def resolve_budgets(row: Mysis) -> list[BudgetStatus]:
        """With what is spent; of a budget for each Mysis, what this one spent."""
        return read_mysis_statuses(row)

    @staticmethod
    def resolve_usage(row: Mysis) -> dict[str, Any]:
        """From the sums of its days, without reading its calls."""
        rows = Usage.objects.filter(mysis_id=row.pk)
        today = rows.filter(day=usage.today())
        return {"today": usage.add_up(today), "total": usage.add_up(rows)}


class MysisChange(Body):
    """What may change; ``policy`` and ``prompt`` are names, null for none."""

    model_config = build_example(policy="tight", messaging=True)

    name: Name | None = None
    model: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    policy: str | None = None
    prompt: str | None = None
    pins: Annotated[list[Text], Field(max_length=100)] | None = None
    max_iterations: MaxIterations | None = None
    group: Annotated[
        str | None,
        Field(max_length=100, description="A word that budgets and broadcasts name."),
    ] = None
    tags: Annotated[
        list[str] | None,
        Field(max_length=MOST_TAGS, description="Words to find and address it by."),
    ] = None
    messaging: Annotated[
        bool | None, Field(description="Whether it may write to other Myses.")
    ] = None


class MysisIn(MysisChange):
    """A new Mysis."""

    model_config = build_example(
        name="Nova",
        model="openai:gpt-5-nano",
        prompt="captain",
        pins=["Never attack."],
        max_iterations=10,
    )

    name: Name
    model: Annotated[str, Field(min_length=1, max_length=300)]


class MessageIn(Body):
    """A message of the operator."""

    model_config = build_example(text="Sell what you have.")

    text: Text


class MysisFilter(Window):
    """Which Myses to list; without, all."""

    group: Annotated[
        str, Field(max_length=100, description="Of this group.", examples=["miners"])
    ] = ""
    tag: Annotated[
        str, Field(max_length=50, description="With this tag.", examples=["scout"])
    ] = ""


@myses_router.get("/myses", response=Page[MysisOut])
def list_myses(request: HttpRequest, wanted: Query[MysisFilter]) -> Rows:
    """All Myses, or those of a group, with a tag, or both."""
    rows = Mysis.select_members(group=wanted.group, tag=wanted.tag)
    page = build_page(rows.select_related("policy", "prompt", "account"), wanted)
    Mysis.share_fleet_policy(page["items"])
    words = read_idle_words(page["items"])
    for row in page["items"]:
        setattr(row, IDLE_WORDS, words.get(row.pk, ""))
    return page


@myses_router.post("/myses", response={201: MysisOut})
def create_mysis(request: HttpRequest, body: MysisIn) -> Status[Mysis]:
    """Make an idle Mysis; 422 for a name that is taken or an unknown provider."""
    values, by = _changes_in(body), caller_name(request)
    later = {
        name: value for name in SET_AFTERWARDS if (value := values.pop(name, None))
    }
    with transaction.atomic():
        made = actions.create_mysis(**values, by=by)
        if later:
            made = actions.update_mysis(mysis=made, by=by, **later)
    return Status(201, made)


@myses_router.get("/myses/{reference}", response=MysisDetail)
def read_mysis(request: HttpRequest, reference: MysisReference) -> Mysis:
    """One Mysis, by number or name."""
    return get_mysis(reference)


@myses_router.patch("/myses/{reference}", response=MysisOut)
def update_mysis(
    request: HttpRequest, reference: MysisReference, body: MysisChange
) -> Mysis:
    """Change what is given; it counts from the next call on."""
    mysis = get_mysis(reference)
    return actions.update_mysis(
        mysis=mysis, by=caller_name(request), **_changes_in(body)
    )


@myses_router.delete("/myses/{reference}", response={204: None})
def delete_mysis(request: HttpRequest, reference: MysisReference) -> Status[None]:
    """Delete a Mysis with its history; its game account becomes free."""
    actions.delete_mysis(mysis=get_mysis(reference), by=caller_name(request))
    return Status(204, None)


@myses_router.post("/myses/{reference}/start", response=MysisOut)
def start_mysis(
    request: HttpRequest,
    reference: MysisReference,
    clear_orders: bool = False,
    upto: int | None = None,
) -> Mysis:
    """Start one that is idle, stopped or errored; 409 while it runs.

    With `clear_orders` its open orders end as superseded first; with `upto` not those
    after that number.
    """
    return actions.start_mysis(
        mysis=get_mysis(reference),
        by=caller_name(request),
        clear_orders=clear_orders,
        upto=upto,
    )


@myses_router.post("/myses/{reference}/stop", response=MysisOut)
def stop_mysis(request: HttpRequest, reference: MysisReference) -> Mysis:
    """Stop; aborts the call in flight. Twice is as good as once."""
    return actions.stop_mysis(mysis=get_mysis(reference), by=caller_name(request))


class SentMessageOut(MemoryOut):
    """The message as it is stored; ``order`` is the number of the order that it is."""

    order: int = Field(examples=[12])


@myses_router.post("/myses/{reference}/message", response=SentMessageOut)
def send_message(
    request: HttpRequest, reference: MysisReference, body: MessageIn
) -> Memory:
    """Tell it something; wakes an idle one, 409 for a stopped or errored one."""
    sent: Any = actions.send_message(
        mysis=get_mysis(reference), text=body.text, by=caller_name(request)
    )
    sent.order = order_status.find_order_numbers([sent.pk])[sent.pk]
    return cast("Memory", sent)


def _changes_in(body: MysisChange) -> dict[str, Any]:
    """The given fields, with rows in place of names; raises a 422 Problem."""
    values = read_changes(body, "policy", "prompt")
    if "prompt" in values:
        prompts = Prompt.objects.exclude(name=SUMMARY_PROMPT_NAME)
        values["prompt"] = _find_named(prompts, values["prompt"], "prompt")
    if "policy" in values:
        policies = ContextPolicy.objects.all()
        values["policy"] = _find_named(policies, values["policy"], "policy")
    return values


def _find_named(rows: QuerySet[M], name: str | None, field: str) -> M | None:
    if name is None:
        return None
    found = find_row(rows, name)
    if found is None:
        raise make_invalid(field, f"there is no {field} {name[:100]!r}; make it first.")
    return found


class CommandIn(Body):
    """A tool of the game and its arguments; session and password are filled in."""

    model_config = build_example(tool="get_status", arguments={})

    tool: Name
    arguments: dict[str, Any] = Field(default_factory=dict)


@commands_router.post(
    "/myses/{reference}/command", response={200: MemoryOut, 503: ErrorOut}
)
def command(request: HttpRequest, reference: MysisReference, body: CommandIn) -> Memory:
    """Run it as the Mysis's account; the result as it stands in the log.

    An error of the game is a result with `is_error`. 409 while another command runs,
    or for login, logout and register in the middle of a turn; 503 where the game
    cannot be reached.
    """
    return run_command(
        mysis=get_mysis(reference),
        tool=body.tool,
        arguments=body.arguments,
        by=caller_name(request),
    )


class DeliveryOut(Schema):
    """Where a message stands.

    queued: no call has had it yet. shown: it was in call ``call`` of turn ``number``
    (``turn`` is its id), and in those after. left_out: the budget of the context had
    no room for it. done: a turn that had it ended by itself. Null for what is not so
    yet, and for messages from before deliveries were kept.
    """

    state: Literal["queued", "shown", "left_out", "done"] = Field(examples=["done"])
    turn: int | None = Field(examples=[17])
    number: int | None = Field(examples=[4])
    call: int | None = Field(examples=[1])
    shown_at: datetime | None
    done_at: datetime | None


class OrderOfMessage(Schema):
    """The order that a message is, and what became of it with this Mysis."""

    id: int = Field(examples=[12])
    state: State = Field(examples=["done"])
    note: str = Field(examples=["Sold 12 Iron Ore."])
    overdue: bool


class ToldOut(Schema):
    """A message of a human, of another Mysis, or of a broadcast.

    ``order`` is null where nobody ordered anything: a Mysis said it, or it was
    answered before orders were kept.
    """

    id: int
    origin: str = Field(examples=["human"], json_schema_extra=one_of(Origin))
    sender: str = Field(examples=["operator:grace"])
    content: str = Field(examples=["Sell what you have."])
    created_at: datetime
    delivery: DeliveryOut = Field(validation_alias="reached")
    order: OrderOfMessage | None = Field(validation_alias="ordered")


@messages_router.get("/myses/{reference}/messages", response=Page[ToldOut])
def list_messages(
    request: HttpRequest, reference: MysisReference, window: Query[Window]
) -> Rows:
    """Messages and broadcasts to a Mysis, oldest first, with their delivery."""
    mysis = get_mysis(reference)
    page = build_page(messages.select_orders(mysis), window)
    ids = [row.pk for row in page["items"]]
    reached = messages.read_delivery_statuses(mysis, ids)
    ordered = order_status.read_statuses_of(ids)
    for row in page["items"]:
        row.reached = reached[row.pk]
        order, status = ordered.get(row.pk, (None, None))
        row.ordered = asdict(status) | {"id": order} if status else None
    return page
