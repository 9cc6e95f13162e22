"""Myses, their game accounts and their pins."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce, Lower
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property

from agents.encryption import SealedProperty
from agents.models.llm import Prompt
from agents.validators import NAME, check_model_settings, check_tag, check_visible
from memory.assembly.hashes import hash_text
from memory.models.contexts import ContextPolicy

NAME_TAKEN = "This name is taken: choose another."
MOST_TAGS = 20
# Names that stand for other pages, or vanish when a browser tidies up a path.
RESERVED = frozenset({"new", ".", ".."})


def find_page_key(mysis_id: int, name: str) -> str:
    """What names a Mysis in the addresses of its pages."""
    return str(mysis_id) if name.lower() in RESERVED else name


class ErrorCode(models.TextChoices):
    """What an error comes from, so that a page knows where it is mended."""

    MODEL = "model"
    PROVIDER = "provider"
    KEY = "key"
    REQUEST = "request"
    CONTEXT = "context"
    GAME = "game"


class Account(models.Model):
    """A game account; the model never sees its password."""

    username = models.CharField(max_length=100, unique=True)
    sealed_password = models.TextField(blank=True, editable=False)
    empire = models.CharField(max_length=50, blank=True)
    player_id = models.CharField(max_length=100, blank=True)
    sealed_session = models.TextField(blank=True, editable=False)
    # What the game answered to a registration, where no password was found in it. A
    # default of the database: a worker of the former version writes none.
    sealed_answer = models.TextField(blank=True, db_default="", editable=False)
    assigned_to = models.ForeignKey(
        "Mysis",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="accounts",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    password = SealedProperty("sealed_password")
    # The game's own session id.
    game_session = SealedProperty("sealed_session")
    registration_answer = SealedProperty("sealed_answer")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                Lower("username"),
                name="account_name_any_case",
                violation_error_message=NAME_TAKEN,
            )
        ]

    def __str__(self) -> str:
        return self.username


class Mysis(models.Model):
    """One agent."""

    class State(models.TextChoices):
        """Changed by compare-and-set only; stop always wins."""

        IDLE = "idle"
        RUNNING = "running"
        STOPPED = "stopped"
        ERRORED = "errored"

    name = models.CharField(
        max_length=100,
        unique=True,
        validators=[NAME, check_visible],
        error_messages={"unique": NAME_TAKEN},
    )
    model = models.CharField(max_length=300, default="pilot")
    model_settings = models.JSONField(
        default=dict, blank=True, validators=[check_model_settings]
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.IDLE)
    # Raised by start and stop: a turn of an older epoch must not write.
    epoch = models.PositiveIntegerField(default=0, editable=False)
    # The queued job of the next turn; any other job of this Mysis is void.
    next_job = models.BigIntegerField(null=True, blank=True, editable=False)
    prompt = models.ForeignKey(
        Prompt, on_delete=models.PROTECT, null=True, blank=True, related_name="myses"
    )
    policy = models.ForeignKey(
        "memory.ContextPolicy",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="myses",
    )
    account = models.OneToOneField(
        Account,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="active_mysis",
    )
    max_iterations = models.PositiveIntegerField(
        default=10, validators=[MinValueValidator(1), MaxValueValidator(1000)]
    )
    messaging = models.BooleanField(
        default=False,
        help_text="Whether it is given tools to write to other Myses.",
    )
    group = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="A word of your own; a budget can limit all Myses of a group, and a "
        "broadcast can go to them alone.",
    )
    tags = ArrayField(
        models.CharField(max_length=50, validators=[check_tag]),
        size=MOST_TAGS,
        blank=True,
        default=list,
        db_default=[],
        help_text="Words of your own, to find and to address it by; with commas between.",
    )
    # Which standing order its newest view lacks word for word, with the remedy.
    lost_pins = models.TextField(blank=True, default="", db_default="", editable=False)
    # Why it makes no call although it runs: the spent budget, with the remedy.
    hold = models.TextField(blank=True, default="", db_default="", editable=False)
    # The id of the newest human message or broadcast that a call has considered.
    heard = models.BigIntegerField(default=0, db_default=0, editable=False)
    # Why it seems to get nowhere; only a badge, it goes on.
    stuck = models.TextField(blank=True, default="", db_default="", editable=False)
    # Evidence for that: digests of its last calls and results, and empty turns.
    trail = models.TextField(blank=True, default="", db_default="", editable=False)
    empty_turns = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    # The size of a view that fitted after a refusal without a limit; for that model,
    # for a while.
    view_tokens = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    view_model = models.CharField(
        max_length=300, blank=True, default="", db_default="", editable=False
    )
    view_until = models.DateTimeField(null=True, blank=True, editable=False)
    nudges = models.PositiveIntegerField(default=0, editable=False)
    # Turns in a row that the model or the game failed; back-off grows with it.
    failures = models.PositiveIntegerField(default=0, editable=False)
    # Turns in a row whose worker died before it could write their end.
    lost_turns = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    activity = models.CharField(max_length=200, blank=True, editable=False)
    tick = models.BigIntegerField(null=True, blank=True, editable=False)
    wake_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    # Empty for one that its own settings mend, or whose cause is not known.
    last_error_code = models.CharField(
        max_length=20, blank=True, default="", db_default="", editable=False
    )
    turn_count = models.PositiveIntegerField(default=0, editable=False)
    input_tokens = models.BigIntegerField(default=0, editable=False)
    output_tokens = models.BigIntegerField(default=0, editable=False)
    cost = models.DecimalField(
        max_digits=14, decimal_places=6, default=Decimal(0), editable=False
    )
    last_memory_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "myses"
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["idle", "running", "stopped", "errored"]),
                name="mysis_state_known",
            ),
            models.UniqueConstraint(
                Lower("name"),
                name="mysis_name_any_case",
                violation_error_message=NAME_TAKEN,
            ),
        ]
        indexes = [
            models.Index(fields=["state"], name="mysis_state"),
            models.Index(fields=["id"], name="mysis_held", condition=~Q(hold="")),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        """The address of its page."""
        return reverse("mysis", args=[self.page_key])

    def clean(self) -> None:
        """Keep each tag once, in the order given."""
        self.tags = list(dict.fromkeys(self.tags))

    @classmethod
    def list_tags(cls) -> list[str]:
        """All tags that Myses have, by name."""
        each = models.Func(models.F("tags"), function="unnest")
        rows = cls.objects.annotate(tag=each).values_list("tag", flat=True)
        return list(rows.order_by("tag").distinct())

    @classmethod
    def select_members(
        cls, *, group: str = "", tag: str = ""
    ) -> models.QuerySet[Mysis]:
        """The Myses of a group, or with a tag; of both where both are given."""
        if "\x00" in group + tag:
            return cls.objects.none()
        rows = cls.objects.all()
        if group:
            rows = rows.filter(group=group)
        return rows.filter(tags__contains=[tag]) if tag else rows

    @classmethod
    def count_by_state(cls) -> dict[str, int]:
        """The number of Myses in each state."""
        found = cls.objects.values_list("state").annotate(n=models.Count("pk"))
        return dict.fromkeys(map(str, cls.State), 0) | dict(found.order_by())

    @property
    def page_key(self) -> str:
        """What names it in the addresses of its pages: its name, else its number."""
        return find_page_key(self.pk, self.name)

    @property
    def effective_policy(self) -> ContextPolicy:
        """Its own policy, else the fleet's default, else the built-in one."""
        return self.policy or self.fleet_policy

    @property
    def policy_label(self) -> str:
        """The name of its own policy, else what stands in for it."""
        return self.policy.name if self.policy else self.fleet_policy.default_label

    @cached_property
    def fleet_policy(self) -> ContextPolicy:
        """What it has where it has no policy of its own; a turn has read it already."""
        return ContextPolicy.read_default()

    @staticmethod
    def _find_policy_id() -> Coalesce:
        """The id of its effective policy; null where it is the built-in one."""
        default = ContextPolicy.objects.filter(is_default=True).values("pk")
        return Coalesce("policy_id", models.Subquery(default))

    @classmethod
    def select_users(cls, policy_id: int | None) -> models.QuerySet[Mysis]:
        """Those whose calls are made under a stored policy; none for None."""
        rows = cls.objects.alias(in_effect=cls._find_policy_id())
        return rows.filter(in_effect=policy_id or 0)

    @classmethod
    def count_by_policy(cls) -> dict[int | None, int]:
        """The number of Myses under each policy that has any."""
        rows = cls.objects.annotate(in_effect=cls._find_policy_id())
        found = rows.values_list("in_effect").annotate(n=models.Count("pk"))
        return dict(found.order_by())

    @staticmethod
    def share_fleet_policy(rows: Iterable[Mysis]) -> None:
        """Give the fleet's default to those without a policy, read once for all."""
        without = [row for row in rows if row.policy_id is None]
        if without:
            shared = ContextPolicy.read_default()
            for row in without:
                row.fleet_policy = shared

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        """Read it again, and the fleet's default where that is asked for."""
        vars(self).pop("fleet_policy", None)
        super().refresh_from_db(*args, **kwargs)

    def narrowed_view(self) -> int:
        """The tokens that its views are limited to for a while; 0: no such limit."""
        if self.view_until is None or self.view_model != self.model:
            return 0
        return self.view_tokens if timezone.now() < self.view_until else 0


class Pin(models.Model):
    """A standing order that no strategy may lose (I16).

    It stands in every view while it is active or acknowledged. ``digest`` is the
    SHA-256 of the text as its author wrote it; every view is checked against it.
    """

    class State(models.TextChoices):
        """What became of it; one that is done or superseded is in no view."""

        ACTIVE = "active"
        ACKNOWLEDGED = "acknowledged"
        DONE = "done"
        SUPERSEDED = "superseded"

    STANDING: ClassVar = (State.ACTIVE, State.ACKNOWLEDGED)

    mysis = models.ForeignKey(Mysis, on_delete=models.CASCADE, related_name="pins")
    text = models.TextField()
    # Empty where the row was not written by an action: then its text is taken as it is.
    digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    state = models.CharField(
        max_length=12, choices=State.choices, default=State.ACTIVE, db_default="active"
    )
    author = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_by = models.CharField(
        max_length=200, blank=True, default="", db_default="", editable=False
    )
    changed_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return self.text[:60]

    @property
    def known_hash(self) -> str:
        """The SHA-256 that its text must have."""
        return self.digest or hash_text(self.text)
