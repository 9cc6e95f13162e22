"""The tables of the fleet that need none of the log."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import (
    MaxValueValidator,
    MinValueValidator,
    RegexValidator,
    URLValidator,
)
from django.db import migrations
from django.db.models import (
    CASCADE,
    PROTECT,
    SET_NULL,
    BigIntegerField,
    BooleanField,
    CharField,
    DateField,
    DateTimeField,
    F,
    FloatField,
    ForeignKey,
    Func,
    IntegerField,
    JSONField,
    OneToOneField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    Q,
    TextField,
    UniqueConstraint,
    UUIDField,
)
from django.db.models.functions import Lower

from agents.models.alerts import list_default_rules
from agents.validators import NAME, check_model_settings, check_tag, check_visible
from memory.migrations._tables import (
    begins_as,
    check,
    create,
    dollars,
    index,
    index_words,
    labelled,
    loose_key,
    maybe,
    part_of,
    row_of,
    table,
    unique,
    vector_column,
)
from memory.models.vectors import build_json_text, build_plain_vector

NAME_TAKEN = "This name is taken: choose another."
TOOL = RegexValidator(
    r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?\Z",
    "A tool's name has letters, digits, dots, dashes and underscores; an action of a tool "
    "with several stands as tool/action.",
)
RULES = [
    ("fuel", "Too little fuel to reach a base"),
    ("hull", "Hull badly damaged"),
    ("attacked", "Under attack"),
    ("hold_full", "Hold full for long"),
    ("no_income", "No credits gained for long"),
    ("one_place", "In one place for long"),
    ("loop", "The same call and result again and again"),
    ("errored", "Errored"),
    ("failing", "Turns fail and are tried again"),
    ("held", "Held by a budget"),
    ("silent", "Runs, but writes nothing"),
    ("stuck", "Stuck"),
    ("lost_order", "A standing order is not in its context"),
]
EVENT_KEYS = (
    *("name", "state", "by", "tool", "outcome", "prompt", "note", "text"),
    *("reason", "detail", "remedy", "error", "hold", "stuck"),
)


def rules(default):
    rule = CharField(choices=RULES, max_length=20)
    return ArrayField(base_field=rule, blank=True, default=default, size=13)


def threshold(default, most, label, help_text, *, least=1):
    return IntegerField(
        db_default=default,
        default=default,
        help_text=help_text,
        validators=[MinValueValidator(least), MaxValueValidator(most)],
        verbose_name=label,
    )


TABLES = {
    "Prompt": table(
        name=CharField(max_length=100, unique=True, validators=[NAME]),
        created_at=DateTimeField(auto_now_add=True),
    ),
    "Account": table(
        username=CharField(max_length=100, unique=True),
        sealed_password=TextField(blank=True, editable=False),
        empire=CharField(blank=True, max_length=50),
        player_id=CharField(blank=True, max_length=100),
        sealed_session=TextField(blank=True, editable=False),
        sealed_answer=TextField(blank=True, db_default="", editable=False),
        created_at=DateTimeField(auto_now_add=True),
        constraints=[
            UniqueConstraint(
                Lower("username"),
                name="account_name_any_case",
                violation_error_message=NAME_TAKEN,
            )
        ],
    ),
    "Mysis": table(
        name=CharField(
            error_messages={"unique": NAME_TAKEN},
            max_length=100,
            unique=True,
            validators=[NAME, check_visible],
        ),
        model=CharField(default="pilot", max_length=300),
        model_settings=JSONField(
            blank=True, default=dict, validators=[check_model_settings]
        ),
        state=begins_as("idle", "running", "stopped", "errored"),
        epoch=PositiveIntegerField(default=0, editable=False),
        next_job=BigIntegerField(blank=True, editable=False, null=True),
        prompt=maybe("agents.prompt", PROTECT, "myses"),
        account=maybe("agents.account", SET_NULL, "active_mysis", OneToOneField),
        max_iterations=PositiveIntegerField(
            default=10, validators=[MinValueValidator(1), MaxValueValidator(1000)]
        ),
        messaging=BooleanField(
            default=False,
            help_text="Whether it is given tools to write to other Myses.",
        ),
        group=CharField(
            blank=True,
            db_default="",
            default="",
            help_text="A word of your own; a budget can limit all Myses of a group, and a broadcast can go to them alone.",
            max_length=100,
        ),
        tags=ArrayField(
            base_field=CharField(max_length=50, validators=[check_tag]),
            blank=True,
            db_default=[],
            default=list,
            help_text="Words of your own, to find and to address it by; with commas between.",
            size=20,
        ),
        lost_pins=TextField(blank=True, db_default="", default="", editable=False),
        hold=TextField(blank=True, db_default="", default="", editable=False),
        heard=BigIntegerField(db_default=0, default=0, editable=False),
        stuck=TextField(blank=True, db_default="", default="", editable=False),
        trail=TextField(blank=True, db_default="", default="", editable=False),
        empty_turns=PositiveIntegerField(db_default=0, default=0, editable=False),
        view_tokens=PositiveIntegerField(db_default=0, default=0, editable=False),
        view_model=CharField(
            blank=True, db_default="", default="", editable=False, max_length=300
        ),
        view_until=DateTimeField(blank=True, editable=False, null=True),
        nudges=PositiveIntegerField(default=0, editable=False),
        failures=PositiveIntegerField(default=0, editable=False),
        lost_turns=PositiveIntegerField(db_default=0, default=0, editable=False),
        activity=CharField(blank=True, editable=False, max_length=200),
        tick=BigIntegerField(blank=True, editable=False, null=True),
        wake_at=DateTimeField(blank=True, editable=False, null=True),
        last_error=TextField(blank=True, editable=False),
        last_error_code=CharField(
            blank=True, db_default="", default="", editable=False, max_length=20
        ),
        turn_count=PositiveIntegerField(default=0, editable=False),
        input_tokens=BigIntegerField(default=0, editable=False),
        output_tokens=BigIntegerField(default=0, editable=False),
        cost=dollars(editable=False),
        last_memory_at=DateTimeField(blank=True, editable=False, null=True),
        created_at=DateTimeField(auto_now_add=True),
        indexes=[
            index("mysis_state", "state"),
            index("mysis_held", "id", where=~Q(hold="")),
        ],
        constraints=[
            check(
                "mysis_state_known",
                Q(state__in=["idle", "running", "stopped", "errored"]),
            ),
            UniqueConstraint(
                Lower("name"),
                name="mysis_name_any_case",
                violation_error_message=NAME_TAKEN,
            ),
        ],
        meta={"verbose_name_plural": "myses"},
    ),
    "PromptVersion": table(
        prompt=ForeignKey("agents.prompt", CASCADE, related_name="versions"),
        number=PositiveIntegerField(),
        text=TextField(),
        author=CharField(blank=True, max_length=200),
        note=CharField(blank=True, max_length=300),
        created_at=DateTimeField(auto_now_add=True),
        constraints=[unique("prompt_version_once", "prompt", "number")],
        meta={"ordering": ["-number"]},
    ),
    "Turn": table(
        mysis=part_of("agents.mysis", "turns"),
        number=PositiveIntegerField(),
        epoch=PositiveIntegerField(default=0),
        job_id=BigIntegerField(blank=True, null=True),
        trigger=CharField(max_length=20),
        outcome=CharField(
            blank=True,
            choices=labelled(
                "done", "iteration_limit", "stopped", "errored", "interrupted"
            ),
            max_length=20,
            null=True,
        ),
        iterations=PositiveIntegerField(default=0),
        input_tokens=BigIntegerField(default=0),
        output_tokens=BigIntegerField(default=0),
        cached_tokens=BigIntegerField(default=0),
        cost=dollars(),
        latency_ms=PositiveIntegerField(default=0),
        error=TextField(blank=True),
        prompt_version=loose_key("agents.promptversion", blank=True, null=True),
        policy_name=CharField(blank=True, db_default="", default="", max_length=100),
        policy_hash=CharField(blank=True, db_default="", default="", max_length=8),
        model=CharField(blank=True, db_default="", default="", max_length=300),
        changed=CharField(blank=True, db_default="", default="", max_length=30),
        username=CharField(blank=True, db_default="", default="", max_length=100),
        credits_before=BigIntegerField(blank=True, null=True),
        credits_after=BigIntegerField(blank=True, null=True),
        actions=PositiveIntegerField(db_default=0, default=0),
        failed_actions=PositiveIntegerField(db_default=0, default=0),
        started_at=DateTimeField(auto_now_add=True),
        finished_at=DateTimeField(blank=True, null=True),
        previous_end=DateTimeField(blank=True, null=True),
        idle_seconds=FloatField(db_default=0.0, default=0.0),
        waits_until=DateTimeField(blank=True, null=True),
        indexes=[
            index("turn_newest", "mysis", "-id"),
            index("turn_of_epoch", "mysis", "epoch", "id"),
            index("turn_started", "started_at"),
            index("turn_open", "mysis", where=Q(outcome__isnull=True)),
            index("turn_changed", "started_at", where=~Q(changed="")),
        ],
        constraints=[unique("turn_once", "mysis", "number")],
    ),
    "ModelCall": table(
        turn=part_of("agents.turn", "calls"),
        kind=begins_as("turn", "summary", db_default="turn"),
        number=PositiveIntegerField(),
        model=CharField(max_length=300),
        input_tokens=BigIntegerField(default=0),
        output_tokens=BigIntegerField(default=0),
        cached_tokens=BigIntegerField(default=0),
        cost=dollars(),
        latency_ms=PositiveIntegerField(default=0),
        finish_reason=CharField(blank=True, max_length=50),
        error=TextField(blank=True),
        created_at=DateTimeField(auto_now_add=True),
        constraints=[unique("call_of_kind_once", "turn", "kind", "number")],
    ),
    "Broadcast": table(
        text=TextField(),
        group=CharField(blank=True, db_default="", default="", max_length=100),
        tag=CharField(blank=True, db_default="", default="", max_length=50),
        sender=CharField(max_length=200),
        mysis=maybe("agents.mysis", SET_NULL, "+"),
        from_mysis=BooleanField(default=False),
        deliver_to=BigIntegerField(blank=True, editable=False, null=True),
        delivered_to=BigIntegerField(db_default=0, default=0, editable=False),
        created_at=DateTimeField(auto_now_add=True),
        vector=vector_column(build_plain_vector("text")),
        indexes=[
            index_words("broadcast_fts", "vector"),
            index("broadcast_under_way", "id", where=Q(deliver_to__isnull=False)),
        ],
    ),
    "Provider": table(
        name=CharField(max_length=100, unique=True, validators=[NAME]),
        kind=CharField(
            choices=[
                ("openai", "OpenAI-compatible"),
                ("anthropic", "Anthropic"),
                ("ollama", "Ollama"),
                ("pilot", "Scripted pilot"),
            ],
            max_length=20,
        ),
        base_url=CharField(
            blank=True, max_length=500, validators=[URLValidator(["http", "https"])]
        ),
        sealed_key=TextField(blank=True, editable=False),
        default_model=CharField(blank=True, max_length=200),
        window=PositiveIntegerField(
            blank=True, help_text="Tokens; empty: asked of the endpoint.", null=True
        ),
        created_at=DateTimeField(auto_now_add=True),
        changed_at=DateTimeField(auto_now=True),
        constraints=[
            check(
                "provider_kind_known",
                Q(kind__in=["openai", "anthropic", "ollama", "pilot"]),
            )
        ],
    ),
    "AskedWindow": table(
        kind=CharField(max_length=20),
        base_url=CharField(blank=True, max_length=500),
        model=CharField(max_length=300),
        tokens=PositiveIntegerField(null=True),
        source=CharField(blank=True, max_length=100),
        asked_at=DateTimeField(null=True),
        limit=PositiveIntegerField(null=True),
        limited_at=DateTimeField(null=True),
        constraints=[unique("window_of_model", "kind", "base_url", "model")],
    ),
    "Pin": table(
        mysis=ForeignKey("agents.mysis", CASCADE, related_name="pins"),
        text=TextField(),
        digest=CharField(blank=True, db_default="", default="", max_length=64),
        state=CharField(
            choices=labelled("active", "acknowledged", "done", "superseded"),
            db_default="active",
            default="active",
            max_length=12,
        ),
        author=CharField(blank=True, max_length=200),
        created_at=DateTimeField(auto_now_add=True),
        changed_by=CharField(
            blank=True, db_default="", default="", editable=False, max_length=200
        ),
        changed_at=DateTimeField(blank=True, editable=False, null=True),
    ),
    "AlertSettings": table(
        rules=rules(list_default_rules),
        fuel_per_jump=threshold(
            3,
            10000,
            "fuel of a jump",
            "Of ships of which find_route has told no fuel_per_jump.",
        ),
        fuel_spare=threshold(
            5,
            10000,
            "fuel to spare",
            "On top of what the jumps to the nearest base take.",
            least=0,
        ),
        hull_percent=threshold(
            30, 100, "hull, percent", "Less than this share of the whole hull."
        ),
        attack_minutes=threshold(
            5, 1440, "attack, minutes", "So long after the last hit it counts as over."
        ),
        hold_ticks=threshold(30, 100000, "full hold, ticks", "So many ticks in a row."),
        income_minutes=threshold(
            60, 10080, "no credits gained, minutes", "While it runs."
        ),
        place_minutes=threshold(60, 10080, "one place, minutes", "While it runs."),
        loop_results=threshold(
            5,
            20,
            "loop, results",
            "So many equal results of one call with equal arguments.",
        ),
        quiet_minutes=threshold(
            10,
            1440,
            "one alert per cause, minutes",
            "A cause that comes back sooner is told outside after this time, if it is still there.",
            least=0,
        ),
        judged_at=DateTimeField(blank=True, editable=False, null=True),
        version=PositiveIntegerField(db_default=1, default=1, editable=False),
        changed_by=CharField(blank=True, editable=False, max_length=200),
        changed_at=DateTimeField(blank=True, editable=False, null=True),
        constraints=[check("alert_settings_once", Q(id=1))],
        meta={"verbose_name_plural": "alert settings"},
    ),
    "Alert": table(
        rule=CharField(choices=RULES, max_length=20),
        mysis=loose_key("agents.mysis"),
        name=CharField(max_length=100),
        text=TextField(),
        cause=CharField(max_length=100),
        raised_at=DateTimeField(),
        cleared_at=DateTimeField(blank=True, null=True),
        indexes=[index("alert_of_mysis", "mysis", "-id")],
        constraints=[
            unique("alert_open_once", "mysis", "rule", where=Q(cleared_at=None))
        ],
    ),
    "AlarmEvidence": table(
        mysis=row_of("agents.mysis"),
        account=CharField(blank=True, max_length=100),
        credits=BigIntegerField(blank=True, null=True),
        earned_at=DateTimeField(blank=True, null=True),
        place=CharField(blank=True, max_length=300),
        moved_at=DateTimeField(blank=True, null=True),
        full_tick=BigIntegerField(blank=True, null=True),
        meta={"verbose_name_plural": "alarm evidence"},
    ),
    "KnownBase": table(
        system=CharField(max_length=200, primary_key=True, serialize=False),
        seen_at=DateTimeField(auto_now_add=True),
    ),
    "AlertTarget": table(
        name=CharField(max_length=100, unique=True, validators=[NAME]),
        kind=CharField(
            choices=[
                ("webhook", "Webhook (signed JSON)"),
                ("ntfy", "ntfy"),
                ("slack", "Slack"),
            ],
            max_length=10,
        ),
        sealed_url=TextField(editable=False),
        sealed_secret=TextField(blank=True, editable=False),
        rules=rules(list),
        enabled=BooleanField(default=True),
        digest_hour=PositiveSmallIntegerField(
            blank=True, null=True, validators=[MaxValueValidator(23)]
        ),
        digest_at=DateTimeField(blank=True, editable=False, null=True),
        digest_from=DateTimeField(blank=True, editable=False, null=True),
        version=PositiveIntegerField(db_default=1, default=1, editable=False),
        cursor=BigIntegerField(default=0, editable=False),
        cursor_xid=BigIntegerField(blank=True, editable=False, null=True),
        failures=PositiveIntegerField(default=0, editable=False),
        failing_since=DateTimeField(blank=True, editable=False, null=True),
        retry_at=DateTimeField(blank=True, editable=False, null=True),
        last_error=TextField(blank=True, editable=False),
        told_at=DateTimeField(blank=True, editable=False, null=True),
        created_at=DateTimeField(auto_now_add=True),
        constraints=[
            check("alert_target_kind_known", Q(kind__in=["webhook", "ntfy", "slack"]))
        ],
    ),
    "AlertDelivery": table(
        target=part_of("agents.alerttarget", "deliveries"),
        event=BigIntegerField(null=True),
        told_with=BigIntegerField(null=True),
        kind=CharField(max_length=50),
        rule=CharField(max_length=20),
        mysis=BigIntegerField(null=True),
        cause=CharField(max_length=100),
        body=TextField(),
        key=UUIDField(default=uuid.uuid4),
        state=begins_as("waiting", "quiet", "sent", "summed", "left_out"),
        at=DateTimeField(),
        due_at=DateTimeField(),
        attempts=PositiveIntegerField(default=0),
        refusals=PositiveIntegerField(default=0),
        status=PositiveIntegerField(null=True),
        answer=TextField(blank=True),
        created_at=DateTimeField(auto_now_add=True),
        sent_at=DateTimeField(blank=True, null=True),
        indexes=[
            index(
                "alert_delivery_open",
                "target",
                "refusals",
                "event",
                where=Q(state__in=["waiting", "quiet"]),
            ),
            index("alert_of_cause", "target", "cause", "-event"),
        ],
        constraints=[unique("alert_delivered_once", "target", "event")],
        meta={"verbose_name_plural": "alert deliveries"},
    ),
    "Order": table(
        text=TextField(),
        sender=CharField(max_length=200),
        to=JSONField(default=dict),
        supersedes=BooleanField(default=False),
        broadcast=maybe("agents.broadcast", SET_NULL, "order", OneToOneField),
        created_at=DateTimeField(auto_now_add=True),
        indexes=[index_words("order_fts", build_plain_vector("text"))],
    ),
    "Replay": table(
        mysis=maybe("agents.mysis", CASCADE, "replays"),
        label=CharField(blank=True, max_length=100),
        since=DateTimeField(blank=True, null=True),
        until=DateTimeField(),
        policies=JSONField(default=list),
        state=begins_as("queued", "running", "done", "failed"),
        done=PositiveIntegerField(default=0),
        total=PositiveIntegerField(default=0),
        report=JSONField(blank=True, default=dict),
        error=TextField(blank=True),
        job_id=BigIntegerField(blank=True, null=True),
        attempts=PositiveSmallIntegerField(default=0),
        by=CharField(max_length=200),
        created_at=DateTimeField(auto_now_add=True),
        started_at=DateTimeField(blank=True, null=True),
        finished_at=DateTimeField(blank=True, null=True),
        indexes=[
            index("replay_under_way", "id", where=Q(state__in=["queued", "running"]))
        ],
    ),
    "ReplayCall": table(
        replay=part_of("agents.replay", "calls"),
        place=PositiveIntegerField(),
        call_id=BigIntegerField(),
        mysis_id=BigIntegerField(),
        turn_id=BigIntegerField(),
        turn_number=PositiveIntegerField(),
        call_number=PositiveIntegerField(),
        at=DateTimeField(),
        figures=JSONField(default=dict),
        differs=TextField(blank=True),
        constraints=[unique("replay_call_once", "replay", "place")],
    ),
    "Rewind": table(
        mysis=ForeignKey("agents.mysis", CASCADE, related_name="rewinds"),
        call_id=BigIntegerField(),
        turn_id=BigIntegerField(),
        turn_number=PositiveIntegerField(),
        call_number=PositiveIntegerField(),
        prompt=TextField(blank=True),
        model=CharField(blank=True, max_length=300),
        policy=JSONField(blank=True, default=dict),
        order=TextField(blank=True),
        order_id=BigIntegerField(blank=True, null=True),
        most_steps=PositiveIntegerField(default=20),
        state=begins_as("queued", "running", "done", "failed"),
        end=CharField(
            blank=True,
            choices=[
                ("differs", "Differs"),
                ("end_of_record", "Record"),
                ("limit", "Limit"),
                ("error", "Error"),
                ("budget", "Budget"),
            ],
            max_length=15,
        ),
        error=TextField(blank=True),
        job_id=BigIntegerField(blank=True, null=True),
        done=PositiveIntegerField(default=0),
        total=PositiveIntegerField(default=0),
        first_tokens=PositiveIntegerField(default=0),
        first_cost=dollars(),
        input_tokens=BigIntegerField(default=0),
        output_tokens=BigIntegerField(default=0),
        cost=dollars(),
        by=CharField(max_length=200),
        created_at=DateTimeField(auto_now_add=True),
        started_at=DateTimeField(blank=True, null=True),
        finished_at=DateTimeField(blank=True, null=True),
        indexes=[
            index("rewind_under_way", "id", where=Q(state__in=["queued", "running"]))
        ],
    ),
    "RewindStep": table(
        rewind=part_of("agents.rewind", "steps"),
        place=PositiveIntegerField(),
        turn_id=BigIntegerField(),
        turn_number=PositiveIntegerField(),
        call_number=PositiveIntegerField(),
        recorded=JSONField(default=dict),
        made=JSONField(default=dict),
        differs=TextField(blank=True),
        constraints=[unique("rewind_step_once", "rewind", "place")],
    ),
    "ToolCatalogue": table(
        url=CharField(max_length=500, primary_key=True, serialize=False),
        tools=JSONField(default=list),
        updated_at=DateTimeField(auto_now=True),
    ),
    "ToolPolicy": table(
        tool=CharField(max_length=100, unique=True, validators=[TOOL]),
        policy=CharField(
            choices=[
                ("snapshot", "snapshot"),
                ("query", "query"),
                ("mutation", "mutation"),
                ("drain", "drain"),
                ("secret", "secret"),
                ("print", "print"),
            ],
            help_text="secret: arguments and results are hidden everywhere; print: its results are output in a coalesced context; snapshot, query, mutation, drain: what kind of call it is.",
            max_length=10,
        ),
        updated_at=DateTimeField(auto_now=True),
        meta={"verbose_name_plural": "tool policies"},
    ),
    "GameGate": table(
        host=CharField(max_length=253, primary_key=True, serialize=False),
        full_at=DateTimeField(),
    ),
    "WorkerLock": table(number=BigIntegerField(primary_key=True, serialize=False)),
    "Fence": table(
        number=PositiveSmallIntegerField(primary_key=True, serialize=False),
        key_check=TextField(),
        game=TextField(),
        seconds_per_tick=FloatField(),
    ),
    "CreditChange": table(
        username=CharField(max_length=100),
        mysis=loose_key("agents.mysis"),
        turn=loose_key("agents.turn", blank=True, null=True),
        amount=BigIntegerField(default=0),
        credits=BigIntegerField(blank=True, null=True),
        at=DateTimeField(),
        indexes=[
            index("credits_of_account", "username", "-id"),
            index("credits_at", "at"),
        ],
    ),
    "Event": table(
        xid=BigIntegerField(
            db_default=Func(function="txid_current", output_field=BigIntegerField())
        ),
        kind=CharField(max_length=50),
        mysis=loose_key("agents.mysis", blank=True, null=True),
        data=JSONField(default=dict),
        created_at=DateTimeField(auto_now_add=True),
        indexes=[
            index("event_order", "xid", "id"),
            index("event_of_mysis", "mysis", "xid", "id"),
            index("event_of_kind", "kind", "xid", "id"),
            index(
                "event_in_digest",
                "created_at",
                where=Q(
                    kind__in=(
                        "mysis.state",
                        "error",
                        "context.compacted",
                        "alert.raised",
                        "alert.cleared",
                    )
                ),
            ),
            index_words(
                "event_fts",
                build_plain_vector(build_json_text("data", EVENT_KEYS)),
                where=Q(
                    kind__in=[
                        "mysis.state",
                        "context.compacted",
                        "broadcast.sent",
                        "order.changed",
                        "prompt.changed",
                        "error",
                        "alert.raised",
                        "alert.cleared",
                    ]
                )
                | Q(data__has_key="by", kind="tool.called"),
            ),
        ],
    ),
    "UnknownOutcome": table(
        mysis=ForeignKey("agents.mysis", CASCADE, related_name="+"),
        username=CharField(max_length=100),
        tool=CharField(max_length=200),
        args=JSONField(default=dict),
        tick=BigIntegerField(blank=True, null=True),
        memory=BigIntegerField(blank=True, null=True),
        created_at=DateTimeField(),
    ),
    "Usage": table(
        day=DateField(),
        mysis=loose_key("agents.mysis"),
        policy=CharField(blank=True, max_length=100),
        model=CharField(max_length=300),
        calls=PositiveIntegerField(default=0),
        summaries=PositiveIntegerField(default=0),
        errors=PositiveIntegerField(default=0),
        input_tokens=BigIntegerField(default=0),
        output_tokens=BigIntegerField(default=0),
        cached_tokens=BigIntegerField(default=0),
        cost=dollars(),
        latency_ms=BigIntegerField(default=0),
        indexes=[index("usage_day", "day")],
        constraints=[unique("usage_once", "mysis", "day", "policy", "model")],
        meta={"verbose_name_plural": "usage"},
    ),
    "Visit": table(
        user=row_of(settings.AUTH_USER_MODEL),
        seen_at=DateTimeField(),
        since=DateTimeField(blank=True, null=True),
    ),
    "SavedView": table(
        user=ForeignKey(settings.AUTH_USER_MODEL, CASCADE, related_name="saved_views"),
        name=CharField(max_length=60, validators=[check_visible]),
        query=CharField(blank=True, max_length=4000),
        is_default=BooleanField(default=False),
        created_at=DateTimeField(auto_now_add=True),
        constraints=[
            UniqueConstraint(
                F("user"),
                Lower("name"),
                name="saved_view_name_once",
                violation_error_message="You have a view of this name: choose another name, or delete that view first.",
            ),
            unique("saved_view_one_default", "user", where=Q(is_default=True)),
        ],
    ),
}


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        *create(TABLES),
        migrations.AddField(
            model_name="account",
            name="assigned_to",
            field=maybe("agents.mysis", SET_NULL, "accounts"),
        ),
    ]
    replaces = [
        ("agents", name)
        for name in (
            "0001_initial",
            "0003_messaging_tools",
            "0004_provider_windows",
            "0005_usage",
            "0006_budgets",
            "0007_deliveries",
            "0008_view_tokens",
            "0009_lost_turns",
            "0010_broadcast_batches",
            "0011_game_gate",
            "0012_unknown_outcomes",
            "0013_mysis_last_error_code",
            "0014_worker_locks",
            "0015_groups_and_tags",
            "0016_pin_states",
            "0017_tool_policies",
            "0018_registration_answers",
            "0019_orders",
            "0020_turn_yields",
            "0021_alerts",
            "0022_turn_of_epoch",
            "0023_search_indices",
            "0024_order_times",
            "0025_digest",
            "0026_saved_views",
            "0027_replays",
            "0028_rewinds",
            "0029_order_replaced_by",
            "0030_fence",
            "0031_credit_changes",
        )
    ]
