"""The tables of the log, and what the database does in them by itself."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import migrations
from django.db.models import (
    CASCADE,
    SET_NULL,
    BigIntegerField,
    BooleanField,
    CharField,
    DateTimeField,
    F,
    FloatField,
    ForeignKey,
    Func,
    Index,
    JSONField,
    OneToOneField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    Q,
    TextField,
    Value,
)
from django.db.models.expressions import NegatedExpression
from django.utils import timezone

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
from memory.models.vectors import CallsText, build_plain_vector, build_scoped_vector

ORIGINS = [
    *("human", "broadcast", "agent", "tool", "nudge"),
    *("prompt", "summary", "state", "filler", "warning"),
]
ROLES = ["system", "user", "assistant", "tool"]
BY_MYSES = Func(
    F("sender"), Value("mysis:"), function="starts_with", output_field=BooleanField()
)
# Whoever writes a row, and whichever of its columns: the number it is told by changes.
COUNT_WRITES = """
CREATE FUNCTION memory_count_writes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  RETURN NEW;
END $$;
CREATE TRIGGER memory_gamesnapshot_version BEFORE UPDATE ON memory_gamesnapshot
FOR EACH ROW EXECUTE FUNCTION memory_count_writes();
"""
# Rows stay as they are written. Two things are let through: of a failed sign-in the count
# of its minute goes up by one, and `manage.py prune` may delete, which says so by a
# setting of its transaction. Whoever owns the database can still drop the table.
KEEP_AS_WRITTEN = """
CREATE FUNCTION memory_auditentry_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('zoea.prunes_audit', true) = 'on' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.action = 'sign_in.failed'
        AND to_jsonb(NEW) - 'after' = to_jsonb(OLD) - 'after'
        AND NEW.after = jsonb_build_object('tries', (OLD.after->>'tries')::int + 1)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'The audit log is append-only: % is refused.', TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER memory_auditentry_keep BEFORE UPDATE OR DELETE ON memory_auditentry
    FOR EACH ROW EXECUTE FUNCTION memory_auditentry_keep();
CREATE FUNCTION memory_auditentry_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The audit log is append-only: % is refused.', TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER memory_auditentry_refuse_truncate BEFORE TRUNCATE ON memory_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION memory_auditentry_refuse_truncate();
"""
# A new installation begins with a default policy that sends little.
LEAN_DEFAULT = """
INSERT INTO memory_contextpolicy (name, strategy, options, budget_tokens,
  budget_reserve, is_default, created_at, updated_at)
VALUES ('lean', 'tiered', '{"tools": "on_demand"}', 16000, 4000, true, now(), now())
"""

TABLES = {
    "AuditEntry": table(
        at=DateTimeField(default=timezone.now),
        who=CharField(max_length=200),
        token=CharField(blank=True, max_length=100),
        address=CharField(blank=True, max_length=64),
        action=CharField(max_length=60),
        object=CharField(blank=True, max_length=300),
        before=JSONField(default=dict),
        after=JSONField(default=dict),
        indexes=[
            Index(F("at"), name="audit_at"),
            index("audit_who", "who", opclasses=["varchar_pattern_ops"]),
            index("audit_action", "action", opclasses=["varchar_pattern_ops"]),
            index("audit_object", "object", opclasses=["varchar_pattern_ops"]),
        ],
        constraints=[
            unique(
                "audit_failed_sign_ins_of_a_minute",
                "who",
                "address",
                "at",
                where=Q(action="sign_in.failed"),
            )
        ],
        meta={"verbose_name_plural": "audit entries"},
    ),
    "HistorySummary": table(
        mysis=ForeignKey("agents.mysis", CASCADE, related_name="summaries"),
        first_id=BigIntegerField(),
        through_id=BigIntegerField(),
        generation=PositiveIntegerField(),
        text=TextField(),
        tokens_before=PositiveIntegerField(default=0),
        tokens_after=PositiveIntegerField(default=0),
        status=begins_as("active", "replaced", "reverted", "failed", "cleared"),
        history_hash=CharField(max_length=64),
        order_id=BigIntegerField(blank=True, null=True),
        answer_id=BigIntegerField(blank=True, null=True),
        turn_number=PositiveIntegerField(default=0),
        attempts=PositiveSmallIntegerField(default=1),
        error=TextField(blank=True),
        model=CharField(blank=True, max_length=300),
        input_tokens=BigIntegerField(default=0),
        output_tokens=BigIntegerField(default=0),
        cached_tokens=BigIntegerField(default=0),
        cost=dollars(),
        latency_ms=PositiveIntegerField(default=0),
        created_at=DateTimeField(auto_now_add=True),
        indexes=[
            index("summary_newest", "mysis", "-through_id"),
            index("summary_last_tried", "mysis", "-id"),
            index_words("summary_fts", build_plain_vector("text")),
        ],
        constraints=[
            unique(
                "summary_generation_once",
                "mysis",
                "generation",
                where=Q(status__in=["active", "replaced"]),
            ),
            unique("summary_one_in_use", "mysis", where=Q(status="active")),
            check("summary_span_forward", Q(first_id__lte=F("through_id"))),
        ],
        meta={"verbose_name_plural": "history summaries"},
    ),
    "ContextPolicy": table(
        name=CharField(max_length=100, unique=True),
        strategy=CharField(default="tiered", max_length=100),
        options=JSONField(blank=True, default=dict),
        budget_tokens=PositiveIntegerField(
            default=128000, validators=[MinValueValidator(1)]
        ),
        budget_reserve=PositiveIntegerField(default=8000),
        is_default=BooleanField(
            db_default=False,
            default=False,
            help_text="Every Mysis without a policy of its own has this one; one at most.",
            verbose_name="fleet default",
        ),
        created_at=DateTimeField(auto_now_add=True),
        updated_at=DateTimeField(auto_now=True),
        constraints=[
            check(
                "policy_reserve_below_budget", Q(budget_reserve__lt=F("budget_tokens"))
            ),
            unique("policy_one_default", "is_default", where=Q(is_default=True)),
        ],
        meta={"verbose_name_plural": "context policies"},
    ),
    "TokenCalibration": table(
        model=CharField(max_length=300, primary_key=True, serialize=False),
        used=FloatField(default=1.0),
        factor=FloatField(default=1.0),
        error=FloatField(),
        samples=PositiveIntegerField(default=0),
        updated_at=DateTimeField(auto_now=True),
    ),
    "ContextText": table(
        digest=CharField(max_length=64, primary_key=True, serialize=False),
        text=TextField(),
    ),
    "SentContext": table(
        mysis=ForeignKey("agents.mysis", CASCADE, related_name="sent_contexts"),
        call=OneToOneField("agents.modelcall", CASCADE, related_name="sent"),
        strategy=CharField(max_length=100),
        dialect=CharField(max_length=20),
        view=JSONField(),
        ledger=JSONField(default=list),
        stats=JSONField(default=dict),
        facts=JSONField(default=dict),
        username=CharField(blank=True, max_length=100),
        first_id=BigIntegerField(blank=True, null=True),
        last_id=BigIntegerField(blank=True, null=True),
        digest=CharField(max_length=64),
        created_at=DateTimeField(auto_now_add=True),
        indexes=[index("sent_newest", "mysis", "-id")],
    ),
    "GameSnapshot": table(
        username=CharField(max_length=100),
        tool_name=CharField(max_length=200),
        args_key=CharField(blank=True, max_length=300),
        args=JSONField(blank=True, default=dict),
        content=TextField(),
        merged=TextField(blank=True),
        game_tick=BigIntegerField(blank=True, null=True),
        captured_at=DateTimeField(),
        stale_reason=CharField(blank=True, max_length=200),
        stale_tick=BigIntegerField(blank=True, null=True),
        stale_fields=JSONField(blank=True, default=list),
        field_ticks=JSONField(blank=True, default=dict),
        counted=JSONField(blank=True, default=list),
        marks=JSONField(blank=True, default=list),
        asked_at=DateTimeField(blank=True, null=True),
        announced=CharField(blank=True, max_length=20),
        logged_out_at=DateTimeField(blank=True, null=True),
        version=BigIntegerField(db_default=0, editable=False),
        credits=BigIntegerField(blank=True, editable=False, null=True),
        constraints=[
            unique("snapshot_once_per_call", "username", "tool_name", "args_key")
        ],
    ),
    "AccountClock": table(
        username=CharField(max_length=100, primary_key=True, serialize=False),
        tick=BigIntegerField(),
        seen_at=DateTimeField(),
        era=CharField(blank=True, max_length=1),
        offset_low=FloatField(blank=True, null=True),
        offset_high=FloatField(blank=True, null=True),
        offset_at=DateTimeField(blank=True, null=True),
    ),
    "GameEvent": table(
        username=CharField(max_length=100),
        event_id=CharField(max_length=100),
        category=CharField(blank=True, max_length=100),
        kind=CharField(max_length=100),
        data=JSONField(blank=True, default=dict),
        tick=BigIntegerField(blank=True, null=True),
        exact=BooleanField(default=False),
        at=DateTimeField(blank=True, null=True),
        slack=FloatField(default=0.0),
        sent_at=DateTimeField(blank=True, null=True),
        received_at=DateTimeField(),
        indexes=[index("game_event_newest", "username", "received_at")],
        constraints=[unique("game_event_once", "username", "event_id")],
    ),
    "ActionUnderWay": table(
        username=CharField(db_index=True, max_length=100),
        tool=CharField(max_length=200),
        tick=BigIntegerField(blank=True, null=True),
        asked_at=DateTimeField(),
        done_at=DateTimeField(blank=True, null=True),
        target=CharField(blank=True, db_default="", max_length=200),
        until=DateTimeField(),
        meta={"verbose_name_plural": "actions under way"},
    ),
    "Lexicon": table(
        username=CharField(max_length=100, primary_key=True, serialize=False),
        names=JSONField(blank=True, default=dict),
        sizes=JSONField(blank=True, default=dict),
        meta={"verbose_name_plural": "lexica"},
    ),
    "Branch": table(
        mysis=ForeignKey("agents.mysis", CASCADE, related_name="branches"),
        asked_id=BigIntegerField(),
        kept_id=BigIntegerField(),
        first_id=BigIntegerField(),
        through_id=BigIntegerField(),
        messages=PositiveIntegerField(),
        correction_id=BigIntegerField(default=0),
        before=JSONField(default=dict),
        by=CharField(max_length=200),
        created_at=DateTimeField(auto_now_add=True),
        undone_by=CharField(blank=True, default="", max_length=200),
        undone_at=DateTimeField(blank=True, null=True),
        meta={"verbose_name_plural": "branches"},
    ),
    "Memory": table(
        mysis=part_of("agents.mysis", "memories"),
        turn=ForeignKey("agents.turn", SET_NULL, blank=True, null=True),
        broadcast=maybe("agents.broadcast", SET_NULL, "deliveries"),
        role=CharField(choices=labelled(*ROLES), max_length=10),
        origin=CharField(choices=labelled(*ORIGINS), max_length=10),
        branch=loose_key("memory.branch", blank=True, editable=False, null=True),
        sender=CharField(blank=True, max_length=200),
        content=TextField(blank=True),
        reasoning=TextField(blank=True),
        signature=TextField(blank=True),
        tool_calls=JSONField(blank=True, default=list),
        calls_text=CallsText(blank=True, db_default="", editable=False),
        tool_call_id=CharField(blank=True, max_length=200),
        tool_name=CharField(blank=True, max_length=200),
        args=JSONField(blank=True, default=dict),
        is_error=BooleanField(default=False),
        pending=BooleanField(default=False),
        tick=BigIntegerField(blank=True, null=True),
        tokens=PositiveIntegerField(default=0),
        created_at=DateTimeField(auto_now_add=True),
        content_vector=vector_column(build_scoped_vector("content", "calls_text")),
        reasoning_vector=vector_column(build_scoped_vector("reasoning")),
        indexes=[
            index("memory_tail", "mysis", "-id"),
            index(
                "memory_intent",
                "mysis",
                "-id",
                where=Q(origin__in=["human", "broadcast"]),
            ),
            index(
                "memory_orders",
                "mysis",
                "-id",
                where=Q(
                    ("origin__in", ["human", "broadcast"]), NegatedExpression(BY_MYSES)
                ),
            ),
            index("memory_pending", "mysis", "id", where=Q(pending=True)),
            index_words("memory_content_fts", "content_vector"),
            index_words(
                "memory_reasoning_fts", "reasoning_vector", where=~Q(reasoning="")
            ),
        ],
        constraints=[
            check("memory_role_known", Q(role__in=ROLES)),
            check("memory_origin_known", Q(origin__in=ORIGINS)),
        ],
        meta={"verbose_name_plural": "memories"},
    ),
    "Note": table(
        mysis=part_of("agents.mysis", "notes"),
        name=CharField(max_length=60),
        text=TextField(),
        version=PositiveIntegerField(),
        author=CharField(max_length=200),
        written_at=DateTimeField(),
        ended_at=DateTimeField(blank=True, null=True),
        ended_by=CharField(blank=True, max_length=200),
        vector=vector_column(build_plain_vector("name", "text")),
        indexes=[index_words("note_fts", "vector")],
        constraints=[
            unique("note_version_once", "mysis", "name", "version"),
            unique("note_one_current", "mysis", "name", where=Q(ended_at__isnull=True)),
        ],
    ),
    "NoteFloor": table(mysis=row_of("agents.mysis"), version=PositiveIntegerField()),
}


class Migration(migrations.Migration):
    initial = True
    dependencies = [("agents", "0001_squashed_0031_credit_changes")]
    operations = [
        *create(TABLES),
        migrations.RunSQL(COUNT_WRITES),
        migrations.RunSQL(KEEP_AS_WRITTEN),
        migrations.RunSQL(LEAN_DEFAULT),
    ]
    replaces = [
        ("memory", name)
        for name in (
            "0001_initial",
            "0002_summaries_and_calibration",
            "0003_game_events_and_marks",
            "0004_actions_under_way",
            "0005_summary_orders",
            "0006_actions_of_late",
            "0007_clock_offsets",
            "0008_pending_calls",
            "0009_calls_are_searched",
            "0010_default_target",
            "0011_snapshot_versions",
            "0012_notes",
            "0013_default_policy",
            "0014_lean_default",
            "0015_orders",
            "0016_snapshot_credits",
            "0017_summary_search",
            "0018_note_floors",
            "0019_audit",
            "0020_branches",
            "0021_audit_truncate",
        )
    ]
