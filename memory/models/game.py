"""What is known of the game, by account."""

from __future__ import annotations

from django.db import models


class GameSnapshot(models.Model):
    """The newest good answer of one state tool for one game account (G1)."""

    username = models.CharField(max_length=100)
    tool_name = models.CharField(max_length=200)
    args_key = models.CharField(max_length=300, blank=True)
    args = models.JSONField(default=dict, blank=True)
    content = models.TextField()
    # The content with events merged in; ``content`` stays as it was recorded.
    merged = models.TextField(blank=True)
    game_tick = models.BigIntegerField(null=True, blank=True)
    captured_at = models.DateTimeField()
    stale_reason = models.CharField(max_length=200, blank=True)
    stale_tick = models.BigIntegerField(null=True, blank=True)
    stale_fields = models.JSONField(default=list, blank=True)
    field_ticks = models.JSONField(default=dict, blank=True)
    counted = models.JSONField(default=list, blank=True)
    # One for each action since; the stale columns are what they come to.
    marks = models.JSONField(default=list, blank=True)
    # When the call was sent: the answer was made between then and captured_at.
    asked_at = models.DateTimeField(null=True, blank=True)
    # The confidence by age that was announced last.
    announced = models.CharField(max_length=20, blank=True)
    logged_out_at = models.DateTimeField(null=True, blank=True)
    # Counted up by the database at every write of the row (a trigger, migration 0011):
    # what was made of a row is good for as long as its version is the same.
    version = models.BigIntegerField(db_default=0, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["username", "tool_name", "args_key"],
                name="snapshot_once_per_call",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} of {self.username}"


class AccountClock(models.Model):
    """The newest game tick seen for an account, and when it was seen.

    ``era`` is "A" where actions were queued, "C" where they were done at once. Our
    clock minus the game's was between ``offset_low`` and ``offset_high`` seconds at
    ``offset_at``; null where no answer has told.
    """

    username = models.CharField(max_length=100, primary_key=True)
    tick = models.BigIntegerField()
    seen_at = models.DateTimeField()
    era = models.CharField(max_length=1, blank=True)
    offset_low = models.FloatField(null=True, blank=True)
    offset_high = models.FloatField(null=True, blank=True)
    offset_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.username} at tick {self.tick}"


class GameEvent(models.Model):
    """One event that the game told an account of, kept as it was told.

    ``at`` is when it happened by our clock, give or take ``slack`` seconds;
    ``sent_at`` by the game's.
    """

    username = models.CharField(max_length=100)
    event_id = models.CharField(max_length=100)
    category = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=100)
    data = models.JSONField(default=dict, blank=True)
    tick = models.BigIntegerField(null=True, blank=True)
    exact = models.BooleanField(default=False)
    at = models.DateTimeField(null=True, blank=True)
    slack = models.FloatField(default=0.0)
    sent_at = models.DateTimeField(null=True, blank=True)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["username", "event_id"], name="game_event_once"
            )
        ]
        indexes = [
            models.Index(fields=["username", "received_at"], name="game_event_newest")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.username}"


class ActionUnderWay(models.Model):
    """An action of late: until it takes effect new snapshots still show the old truth.

    ``until`` stands for ``tick`` where the account's tick is unknown; it equals
    ``asked_at`` where the action is over. ``done_at`` is when it was answered: what
    was asked for before that may still show the old truth too. ``target`` is where a
    flight goes.
    """

    username = models.CharField(max_length=100, db_index=True)
    tool = models.CharField(max_length=200)
    tick = models.BigIntegerField(null=True, blank=True)
    asked_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True, blank=True)
    target = models.CharField(max_length=200, blank=True, db_default="")
    until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "actions under way"

    def __str__(self) -> str:
        return f"{self.tool} of {self.username}"


class Lexicon(models.Model):
    """Names by id, and sizes of items, that the answers to an account have told."""

    username = models.CharField(max_length=100, primary_key=True)
    names = models.JSONField(default=dict, blank=True)
    sizes = models.JSONField(default=dict, blank=True)

    class Meta:
        verbose_name_plural = "lexica"

    def __str__(self) -> str:
        return f"lexicon of {self.username}"
