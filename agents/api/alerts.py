"""/alerts: what was raised, by which thresholds, and who is told outside."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field
from pydantic.types import StrictBool

from agents.actions import alerts as actions
from agents.alerts.trial import try_target
from agents.api.turns import caller_name, get_mysis, read_changes
from agents.models import Alert, AlertDelivery, AlertSettings, AlertTarget
from memory.api.parameters import (
    FROM_JSON,
    Body,
    Name,
    Page,
    Rows,
    TextOrNull,
    Window,
    build_example,
    build_page,
    get_row,
)

alerts_router = Router(tags=["alerts"])

RuleName = Literal[
    "fuel", "hull", "attacked", "hold_full", "no_income", "one_place", "loop",
    "errored", "failing", "held", "silent", "stuck", "lost_order",
]  # fmt: skip
Rules = Annotated[list[RuleName], Field(max_length=30, examples=[["hull", "fuel"]])]
KindName = Literal["webhook", "ntfy", "slack"]
TargetReference = Annotated[
    str, Field(description="Number or name.", examples=["on call"])
]


class AlertOut(Schema):
    """One time that something was wrong; ``cleared_at`` is null while it is."""

    id: int
    rule: RuleName
    mysis: int = Field(validation_alias="mysis_id", examples=[1])
    name: str = Field(examples=["Ada"])
    text: str = Field(examples=["Hull 20 of 100."])
    raised_at: datetime
    cleared_at: datetime | None


class AlertFilter(Window):
    """Which alerts are wanted."""

    open: Annotated[
        Literal["true", "false"] | None,
        Field(description="Only those that are open, or that are over."),
    ] = None
    rule: RuleName | None = None
    mysis: Annotated[
        str | None, Field(description="Number or name.", examples=["Ada"])
    ] = None


FuelPerJump = Annotated[int, Field(ge=1, le=10_000), FROM_JSON]
FuelSpare = Annotated[int, Field(ge=0, le=10_000), FROM_JSON]
Percent = Annotated[int, Field(ge=1, le=100), FROM_JSON]
Minutes = Annotated[int, Field(ge=1, le=10_080), FROM_JSON]
DayMinutes = Annotated[int, Field(ge=1, le=1_440), FROM_JSON]
QuietMinutes = Annotated[int, Field(ge=0, le=1_440), FROM_JSON]
Ticks = Annotated[int, Field(ge=1, le=100_000), FROM_JSON]
Version = Annotated[int, Field(ge=1, le=2**31 - 1), FROM_JSON]
DigestHour = Annotated[int, Field(ge=0, le=23), FROM_JSON]
Results = Annotated[int, Field(ge=1, le=20), FROM_JSON]


class SettingsOut(Schema):
    """The rules that are judged, and their thresholds, in the units of their names."""

    rules: list[RuleName] = Field(examples=[["hull", "fuel"]])
    fuel_per_jump: int = Field(examples=[3])
    fuel_spare: int = Field(examples=[5])
    hull_percent: int = Field(examples=[30])
    attack_minutes: int = Field(examples=[5])
    hold_ticks: int = Field(examples=[30])
    income_minutes: int = Field(examples=[60])
    place_minutes: int = Field(examples=[60])
    loop_results: int = Field(examples=[5])
    quiet_minutes: int = Field(examples=[10])
    version: int = Field(examples=[1])
    changed_by: TextOrNull = Field(examples=["operator:grace"])
    changed_at: datetime | None


class SettingsChange(Body):
    """What is to change; with ``version``, only where that one stands."""

    model_config = build_example(hull_percent=25, rules=["hull", "fuel", "errored"])

    rules: Rules | None = None
    fuel_per_jump: FuelPerJump | None = None
    fuel_spare: FuelSpare | None = None
    hull_percent: Percent | None = None
    attack_minutes: DayMinutes | None = None
    hold_ticks: Ticks | None = None
    income_minutes: Minutes | None = None
    place_minutes: Minutes | None = None
    loop_results: Results | None = None
    quiet_minutes: QuietMinutes | None = None
    version: Version | None = None


class TargetOut(Schema):
    """Somebody who is told; of the address only the server is shown.

    ``waiting`` counts what it is still to be told, ``failures`` the attempts in a row
    that failed; ``retry_at`` is when the next one is made. No ``rules`` are all.
    ``digest_hour`` is that of the daily digest, in UTC; null is none. Viewers are told
    no ``last_error``: it holds what the target answers.
    """

    id: int
    name: str = Field(examples=["on call"])
    kind: KindName
    destination: str = Field(examples=["https://ntfy.sh"])
    has_secret: bool
    rules: list[RuleName]
    enabled: bool
    digest_hour: int | None = Field(examples=[6])
    version: int = Field(examples=[1])
    dead: bool
    failures: int = Field(examples=[0])
    retry_at: datetime | None
    last_error: TextOrNull = Field(examples=[None])
    told_at: datetime | None
    waiting: int = Field(examples=[0])

    @staticmethod
    def resolve_has_secret(row: AlertTarget) -> bool:
        return bool(row.sealed_secret)

    @staticmethod
    def resolve_last_error(row: AlertTarget, context: dict[str, Any]) -> str | None:
        caller = context["request"].auth
        return None if caller.role.label == "viewer" else row.last_error or None


class TargetMade(TargetOut):
    """A new target; a secret that was made up for it is told here and never again."""

    secret: str | None = Field(examples=[None])

    @staticmethod
    def resolve_secret(row: AlertTarget) -> str | None:
        return vars(row).get("made_secret") or None


class TargetChange(Body):
    """What is to change; an empty ``secret`` forgets the stored one.

    With ``version``, only where that one stands; a null ``digest_hour`` ends digests.
    """

    model_config = build_example(enabled=False)

    name: Name | None = None
    kind: KindName | None = None
    url: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    secret: Annotated[str, Field(max_length=500)] | None = None
    rules: Rules | None = None
    enabled: StrictBool | None = None
    digest_hour: DigestHour | None = None
    version: Version | None = None


class TargetIn(TargetChange):
    """A new target. A webhook without a ``secret`` gets one made up."""

    model_config = build_example(
        name="on call", kind="ntfy", url="https://ntfy.sh/my-fleet", rules=["hull"]
    )

    name: Name
    kind: KindName
    url: Annotated[str, Field(min_length=1, max_length=2_000)]


class TrialOut(Schema):
    """What a target answered to a test alert; ``status`` is null if it did not."""

    ok: bool = Field(examples=[True])
    status: int | None = Field(examples=[200])
    answer: str = Field(examples=["ok"])
    detail: str = Field(examples=["It answers 200 after 12 ms"])
    took_ms: int = Field(examples=[12])


class AlertDeliveryOut(Schema):
    """One event for one target: waiting, quiet (held back), sent, left_out, given_up.

    Given up is one that the target has refused 20 times. Summed is one that the message
    of another delivery of its cause names. A digest has no event.
    """

    event: int | None = Field(examples=[812])
    kind: str = Field(examples=["alert.raised"])
    rule: str = Field(examples=["hull"])
    mysis: int | None = Field(examples=[1])
    state: str = Field(validation_alias="outcome", examples=["sent"])
    attempts: int = Field(examples=[1])
    status: int | None = Field(examples=[200])
    answer: str = Field(examples=["ok"])
    key: str = Field(examples=["1b4e28ba-2fa1-41d2-883f-0016d3cca427"])
    created_at: datetime
    sent_at: datetime | None

    @staticmethod
    def resolve_key(row: AlertDelivery) -> str:
        return str(row.key)


@alerts_router.get("/alerts", response=Page[AlertOut])
def list_alerts(request: HttpRequest, wanted: Query[AlertFilter]) -> Rows:
    """Alerts, oldest first, open ones and those that are over."""
    rows = Alert.objects.all()
    if wanted.open is not None:
        rows = rows.filter(cleared_at__isnull=wanted.open == "true")
    if wanted.rule is not None:
        rows = rows.filter(rule=wanted.rule)
    if wanted.mysis is not None:
        rows = rows.filter(mysis_id=get_mysis(wanted.mysis).pk)
    return build_page(rows, wanted)


@alerts_router.get("/alerts/settings", response=SettingsOut)
def read_settings(request: HttpRequest) -> AlertSettings:
    """The thresholds, and which rules are judged."""
    return AlertSettings.load()


@alerts_router.patch("/alerts/settings", response=SettingsOut)
def update_settings(request: HttpRequest, body: SettingsChange) -> AlertSettings:
    """Change what is given; it counts from the next look on, seconds later."""
    values = read_changes(body)
    version = values.pop("version", None)
    return actions.save_alert_settings(
        values=values, by=caller_name(request), version=version
    )


@alerts_router.get("/alerts/targets", response=Page[TargetOut])
def list_targets(request: HttpRequest, window: Query[Window]) -> Rows:
    """Who is told outside."""
    return build_page(AlertTarget.objects.all(), window)


@alerts_router.post("/alerts/targets", response={201: TargetMade})
def create_target(request: HttpRequest, body: TargetIn) -> Status[AlertTarget]:
    """Add one; it is told what happens from now on."""
    return Status(201, _save_target(request, AlertTarget(), body))


@alerts_router.get("/alerts/targets/{reference}", response=TargetOut)
def read_target(request: HttpRequest, reference: TargetReference) -> AlertTarget:
    """One target, by number or name."""
    return _get_target(reference)


@alerts_router.patch("/alerts/targets/{reference}", response=TargetMade)
def update_target(
    request: HttpRequest, reference: TargetReference, body: TargetChange
) -> AlertTarget:
    """Change what is given; one that failed is tried again at once."""
    return _save_target(request, _get_target(reference), body)


@alerts_router.delete("/alerts/targets/{reference}", response={204: None})
def delete_target(request: HttpRequest, reference: TargetReference) -> Status[None]:
    """Remove it, with what it was still to be told."""
    actions.delete_alert_target(target=_get_target(reference))
    return Status(204, None)


@alerts_router.post("/alerts/targets/{reference}/test", response=TrialOut)
def test_target(request: HttpRequest, reference: TargetReference) -> dict[str, Any]:
    """Send a test alert, which is no event, and say what the target answered."""
    trial = try_target(_get_target(reference), caller_name(request))
    answer = trial.answer
    return {
        "ok": answer.ok,
        "status": answer.status,
        "answer": answer.text,
        "detail": trial.words,
        "took_ms": trial.took_ms,
    }


@alerts_router.get(
    "/alerts/targets/{reference}/deliveries", response=Page[AlertDeliveryOut]
)
def list_target_deliveries(
    request: HttpRequest, reference: TargetReference, window: Query[Window]
) -> Rows:
    """What a target was told, and is still to be told, oldest first."""
    return build_page(_get_target(reference).deliveries.defer("body"), window)


def _get_target(reference: str) -> AlertTarget:
    return get_row(AlertTarget.objects.all(), reference, "alert target")


def _save_target(
    request: HttpRequest, target: AlertTarget, body: TargetChange
) -> AlertTarget:
    values = read_changes(body, "digest_hour")
    url, secret = values.pop("url", None), values.pop("secret", None)
    version = values.pop("version", None)
    made = actions.save_alert_target(
        target=target, values=values, url=url, secret=secret, version=version
    )
    vars(target)["made_secret"] = made
    # Told here, and never again.
    request.made_secret = made  # type: ignore[attr-defined]
    return target
