"""The log, and the notes that a Mysis keeps beside it.

The log is what was said, called and answered. Append-only: views derive, never edit.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import BooleanField, F, Func, Q, Value

from memory.context.types import PEER
from memory.models.vectors import CallsText, build_plain_vector, build_scoped_vector

# What a person said, not another Mysis (A14); in SQL, and word for word what the index
# of orders has as its condition.
IS_ORDER = f"origin IN ('human', 'broadcast') AND NOT starts_with(sender, '{PEER}')"
# What was not taken back; and what was not at a moment, with the values of its `Standing`.
STANDS = "branch_id IS NULL"
STOOD = """((branch_id IS NULL OR branch_id > %(branch)s)
  AND id NOT BETWEEN %(gap_first)s AND %(gap_through)s)"""
_IS_PEERS = Func(
    F("sender"), Value(PEER), function="starts_with", output_field=BooleanField()
)


class Role(models.TextChoices):
    """Who speaks, in the terms of the chat formats."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Origin(models.TextChoices):
    """Where a message came from. Only human and broadcast are intent (A14)."""

    HUMAN = "human"
    BROADCAST = "broadcast"
    AGENT = "agent"
    TOOL = "tool"
    NUDGE = "nudge"
    PROMPT = "prompt"
    SUMMARY = "summary"
    STATE = "state"
    FILLER = "filler"
    WARNING = "warning"


class Memory(models.Model):
    """One stored message of one Mysis."""

    mysis = models.ForeignKey(
        "agents.Mysis",
        on_delete=models.CASCADE,
        related_name="memories",
        db_index=False,
    )
    turn = models.ForeignKey(
        "agents.Turn", on_delete=models.SET_NULL, null=True, blank=True
    )
    broadcast = models.ForeignKey(
        "agents.Broadcast",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="deliveries",
    )
    role = models.CharField(max_length=10, choices=Role.choices)
    origin = models.CharField(max_length=10, choices=Origin.choices)
    # Which branch took it back; null: it stands. Without a default, a constraint or an
    # index, so that adding it to a log of millions takes no time.
    branch = models.ForeignKey(
        "memory.Branch",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
    )
    sender = models.CharField(max_length=200, blank=True)
    content = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    signature = models.TextField(blank=True)
    tool_calls = models.JSONField(default=list, blank=True)
    calls_text = CallsText(blank=True, db_default="", editable=False)
    tool_call_id = models.CharField(max_length=200, blank=True)
    tool_name = models.CharField(max_length=200, blank=True)
    args = models.JSONField(default=dict, blank=True)
    is_error = models.BooleanField(default=False)
    pending = models.BooleanField(default=False)
    tick = models.BigIntegerField(null=True, blank=True)
    tokens = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    content_vector = models.GeneratedField(
        expression=build_scoped_vector("content", "calls_text"),
        output_field=SearchVectorField(),
        db_persist=True,
    )
    reasoning_vector = models.GeneratedField(
        expression=build_scoped_vector("reasoning"),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    class Meta:
        verbose_name_plural = "memories"
        indexes = [
            models.Index(fields=["mysis", "-id"], name="memory_tail"),
            models.Index(
                fields=["mysis", "-id"],
                name="memory_intent",
                condition=Q(origin__in=["human", "broadcast"]),
            ),
            models.Index(
                fields=["mysis", "-id"],
                name="memory_orders",
                condition=Q(("origin__in", ["human", "broadcast"]), ~_IS_PEERS),
            ),
            # Asked at the start and the end of each turn, of a log of any length.
            models.Index(
                fields=["mysis", "id"],
                name="memory_pending",
                condition=Q(pending=True),
            ),
            # fastupdate off: with the pending list an insert can stall 400 ms.
            GinIndex(
                fields=["content_vector"], name="memory_content_fts", fastupdate=False
            ),
            GinIndex(
                fields=["reasoning_vector"],
                name="memory_reasoning_fts",
                fastupdate=False,
                condition=~Q(reasoning=""),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(role__in=Role.values), name="memory_role_known"
            ),
            models.CheckConstraint(
                condition=Q(origin__in=Origin.values), name="memory_origin_known"
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk} {self.role}"

    @property
    def taken_back(self) -> bool:
        """Whether no view shows it any more."""
        return self.branch_id is not None


class Branch(models.Model):
    """A stretch of a log that was taken back, from ``first_id`` to ``through_id``.

    It was asked to go on after ``asked_id``, and goes on after ``kept_id``: a later one
    where a call and its results would have been parted. ``correction_id`` is the message
    that stands in the place of the stretch, 0 where that was imported; ``before`` is what an
    undo restores beside it.
    """

    mysis = models.ForeignKey(
        "agents.Mysis", on_delete=models.CASCADE, related_name="branches"
    )
    asked_id = models.BigIntegerField()
    kept_id = models.BigIntegerField()
    first_id = models.BigIntegerField()
    through_id = models.BigIntegerField()
    messages = models.PositiveIntegerField()
    correction_id = models.BigIntegerField(default=0)
    before = models.JSONField(default=dict)
    by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    undone_by = models.CharField(max_length=200, blank=True, default="")
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "branches"

    def __str__(self) -> str:
        return f"branch {self.pk} of {self.mysis}"

    @property
    def moved(self) -> bool:
        """Whether it goes on later than was asked."""
        return self.kept_id != self.asked_id


class Note(models.Model):
    """One version of a note; the one without an end is the note as it stands.

    ``author`` wrote it, ``ended_by`` replaced or forgot it.
    """

    mysis = models.ForeignKey(
        "agents.Mysis", on_delete=models.CASCADE, related_name="notes", db_index=False
    )
    name = models.CharField(max_length=60)
    text = models.TextField()
    version = models.PositiveIntegerField()
    author = models.CharField(max_length=200)
    written_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=200, blank=True)
    vector = models.GeneratedField(
        expression=build_plain_vector("name", "text"),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["mysis", "name", "version"], name="note_version_once"
            ),
            models.UniqueConstraint(
                fields=["mysis", "name"],
                condition=Q(ended_at__isnull=True),
                name="note_one_current",
            ),
        ]
        indexes = [GinIndex(fields=["vector"], name="note_fts", fastupdate=False)]

    def __str__(self) -> str:
        return f"{self.name}, version {self.version}"


class NoteFloor(models.Model):
    """The greatest version of a note of which nothing is kept any more.

    A note that is new begins above: a call may have been sent one of its name.
    """

    mysis = models.OneToOneField(
        "agents.Mysis", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    version = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"above {self.version}"
