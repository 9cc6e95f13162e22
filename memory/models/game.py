"""What is known of the game, by account, and rows as values of the game-state rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from django.db import models
from pydantic import TypeAdapter, ValidationError

from memory.gamestate.clock import Sighting
from memory.gamestate.invalidation import join_marks
from memory.gamestate.notices import Notice
from memory.gamestate.types import Snapshot, Stale
from memory.gamestate.values import parse_text

# The reason of a snapshot that a logout made doubtful; such a one has no marks.
BEFORE_LOGOUT = "captured before logout"
MOST_MARKS = 20
# The columns that hold the stale marks combined into one. Behind the paths of
# ``stale_fields`` an object tells the causes, where there are several.
JOINED_MARK = ("stale_reason", "stale_tick", "stale_fields")
# What most who read snapshots do without: tens of kilobytes.
LONG_COLUMNS = ("content", "merged")
# What an event's row and its notice both have.
SAME_IN_NOTICE = ("kind", "category", "tick", "exact", "at", "slack", "sent_at")
_CAUSES = "causes"
_MARKS = TypeAdapter(tuple[Stale, ...])


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
    # Counted up by the database at every write of the row (a trigger):
    # what was made of a row is good for as long as its version is the same.
    version = models.BigIntegerField(db_default=0, editable=False)
    # What get_status tells of the credits; null where it does not. With it whoever adds
    # up earnings need not read the content.
    credits = models.BigIntegerField(null=True, blank=True, editable=False)
    # What was in doubt of the answer whose place a new one takes, and the credits that
    # it told; not stored.
    replaced_mark: Stale | None = None
    replaced_credits: int | None = None

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["username", "tool_name", "args_key"],
                name="snapshot_once_per_call",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} of {self.username}"

    def to_outline(self) -> Snapshot:
        """The row without its content, as its age is judged by."""
        return Snapshot(
            tool=self.tool_name,
            args=self.args,
            content=None,
            tick=self.game_tick,
            captured_at=self.captured_at,
            logged_out=self.stale_reason == BEFORE_LOGOUT,
        )

    def to_snapshot(self) -> Snapshot:
        """The row as the game-state rules see it."""
        return replace(
            self.to_outline(),
            content=parse_text(self.content),
            stale=self.get_joined_mark(),
            field_ticks=self.field_ticks,
            logged_out=self.stale_reason == BEFORE_LOGOUT or bool(self.logged_out_at),
            shown=parse_text(self.merged) if self.merged else None,
            marks=parse_marks(self.marks),
            asked_at=self.asked_at,
            # A doubt takes the tick of a path away, and with it what was counted.
            counted=tuple(path for path in self.counted if path in self.field_ticks),
        )

    def get_joined_mark(self) -> Stale | None:
        """The row's stale marks combined into one; a logout does not count."""
        if not self.stale_reason or self.stale_reason == BEFORE_LOGOUT:
            return None
        fields = tuple(each for each in self.stale_fields if isinstance(each, str))
        told = next((e for e in self.stale_fields if isinstance(e, dict)), {})
        causes = parse_marks(told.get(_CAUSES, ()))
        return Stale(self.stale_reason, self.stale_tick, fields, causes=causes)

    def set_joined_mark(self, stale: Stale | None) -> None:
        """Set the columns that hold the combined mark."""
        self.stale_reason = stale.reason if stale else ""
        self.stale_tick = stale.tick if stale else None
        self.stale_fields = list(stale.fields) if stale else []
        if stale and stale.causes:
            causes = _MARKS.dump_python(
                stale.causes, mode="json", exclude_defaults=True
            )
            self.stale_fields.append({_CAUSES: causes})

    def set_marks(self, marks: Iterable[Stale]) -> None:
        """Set the marks; of very many the oldest of an action that touched the same are
        one, and are answered no more."""
        listed = list(marks)
        oldest = listed[: len(listed) - MOST_MARKS + 1]
        if len(listed) > MOST_MARKS and (joined := join_marks(oldest, None)):
            listed[: len(oldest)] = joined.parts
        kept = tuple(replace(each, causes=()) for each in listed)
        self.marks = _MARKS.dump_python(
            kept, mode="json", exclude={"__all__": {_CAUSES}}
        )


def parse_marks(stored: Iterable[Mapping[str, object]]) -> tuple[Stale, ...]:
    """The marks of a row, one for each action; one that is unreadable doubts the whole."""
    marks: list[Stale] = []
    for each in stored:
        try:
            marks += _MARKS.validate_python([each])
        except ValidationError:
            marks.append(Stale("an action that is not known any more"))
    return tuple(marks)


class AccountClock(models.Model):
    """The newest game tick seen for an account, and when it was seen.

    ``era`` is "A" where actions were queued, "C" where they were done at once. Our
    clock minus the game's was between ``offset_low`` and ``offset_high`` seconds at
    ``offset_at``; null where no answer has shown it.
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

    @property
    def sighting(self) -> Sighting | None:
        """The newest tick and its moment; None in a row that was never stored."""
        return None if self.tick is None else Sighting(self.tick, self.seen_at)


class GameEvent(models.Model):
    """One event that the game reported to an account, as it came.

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

    def to_notice(self) -> Notice:
        """The row as the game-state rules see it."""
        told = {name: getattr(self, name) for name in SAME_IN_NOTICE}
        return Notice(id=self.event_id, data=self.data, **told)


class ActionUnderWay(models.Model):
    """A recent action: until it takes effect new snapshots still show the old state.

    ``until`` stands for ``tick`` where the account's tick is unknown; it equals
    ``asked_at`` where the action is over. ``done_at`` is when it was answered: what
    was asked for before that may still show the old state too. ``target`` is where a
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
    """Names by id, and sizes of items, from the answers to an account."""

    username = models.CharField(max_length=100, primary_key=True)
    names = models.JSONField(default=dict, blank=True)
    sizes = models.JSONField(default=dict, blank=True)

    class Meta:
        verbose_name_plural = "lexica"

    def __str__(self) -> str:
        return f"lexicon of {self.username}"
