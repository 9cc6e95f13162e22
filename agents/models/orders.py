"""Broadcasts, orders, and how far each order has come with everybody who got it."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Case, Exists, OuterRef, Q, Value, When
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from agents.models.fleet import Mysis
from memory.models import Memory
from memory.models.vectors import build_plain_vector


class OrderState(models.TextChoices):
    """How far an order has come; the program finds the first three by itself.

    queued: in no call yet. shown: a call had it. answered: a turn that had it ended by
    itself. done, not_done: said by the Mysis or by an operator. superseded: an operator
    put something else in its place.
    """

    QUEUED = "queued"
    SHOWN = "shown"
    ANSWERED = "answered"
    DONE = "done"
    NOT_DONE = "not_done"
    SUPERSEDED = "superseded"


# An order in one of these is open: somebody still has to say what became of it.
OPEN_STATES = (OrderState.QUEUED, OrderState.SHOWN, OrderState.ANSWERED)
# What an order of several is summed up as: the first of these that one of them is in.
# So it is open until the last of them ended, and done only where none was not done.
SUMMED_UP = (*OPEN_STATES, OrderState.NOT_DONE, OrderState.DONE, OrderState.SUPERSEDED)


class Broadcast(models.Model):
    """One message to the fleet; each delivery is a Memory that points here.

    With a ``group`` or a ``tag`` it is for those Myses alone; without, for everybody,
    also for who is made later.
    """

    text = models.TextField()
    group = models.CharField(max_length=100, blank=True, default="", db_default="")
    tag = models.CharField(max_length=50, blank=True, default="", db_default="")
    sender = models.CharField(max_length=200)
    mysis = models.ForeignKey(
        Mysis, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    # Stays when the sender is deleted: an agent's message never becomes the commander's.
    from_mysis = models.BooleanField(default=False)
    # Deliver to the Myses up to this id; null when that is done.
    deliver_to = models.BigIntegerField(null=True, blank=True, editable=False)
    # The Myses up to this id have it.
    delivered_to = models.BigIntegerField(default=0, db_default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    vector = models.GeneratedField(
        expression=build_plain_vector("text"),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    class Meta:
        indexes = [
            GinIndex(fields=["vector"], name="broadcast_fts", fastupdate=False),
            models.Index(
                fields=["id"],
                name="broadcast_under_way",
                condition=Q(deliver_to__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.text[:60]

    @property
    def to(self) -> dict[str, object]:
        """Whom it is for, as REST and events name it."""
        if self.group:
            return {"group": self.group}
        return {"tag": self.tag} if self.tag else {"fleet": True}


class Order(models.Model):
    """What a person or a program told one Mysis, several, a group or the fleet.

    ``to`` is whom it was meant for: ``{"fleet": true}``, ``{"group": ...}``,
    ``{"tag": ...}`` or ``{"myses": [numbers]}``. With ``supersedes`` the orders that
    its recipients had open end with it.
    """

    text = models.TextField()
    sender = models.CharField(max_length=200)
    to = models.JSONField(default=dict)
    supersedes = models.BooleanField(default=False)
    broadcast = models.OneToOneField(
        Broadcast,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="order",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            GinIndex(build_plain_vector("text"), name="order_fts", fastupdate=False)
        ]

    def __str__(self) -> str:
        return self.text[:60]

    def get_absolute_url(self) -> str:
        """The address of its page."""
        return reverse("order", args=[self.pk])

    @staticmethod
    def is_summed_up_as(state: OrderState) -> Q:
        """Which orders this ``state`` sums up: the first that a recipient is in.

        One that is being delivered is queued; one that reached nobody is not done.
        """
        if state == OrderState.QUEUED:
            return _have_any(state) | _are_under_way()
        found = _have_any(state) & ~_have_any(*SUMMED_UP[: SUMMED_UP.index(state)])
        if state == OrderState.NOT_DONE:
            found |= ~_have_any()
        return found & ~_are_under_way()

    @staticmethod
    def sum_up() -> Case:
        """The state that sums an order up, as `is_summed_up_as` finds it."""
        reached = (When(_have_any(one), then=Value(str(one))) for one in SUMMED_UP)
        return Case(
            When(_are_under_way(), then=Value(str(OrderState.QUEUED))),
            *reached,
            default=Value(str(OrderState.NOT_DONE)),
        )

    @staticmethod
    def is_open() -> Q:
        """Which orders have not ended with everybody."""
        return _have_any(*OPEN_STATES) | _are_under_way()


class OrderRecipient(models.Model):
    """How far an order has come with one Mysis; ``memory`` is the message it came as.

    ``note`` is what was said of it last, by ``changed_by``. ``shown_at`` is when the
    Mysis first had it before it, ``answered_at`` when a turn that had it ended, whatever
    was said of it. ``since_at`` is when it got the order, last said that it works on it,
    or was given it again, and ``since_turn`` the number of its newest turn then.
    ``replaced_by`` is the number of the order that took its place, if it ended by one.
    """

    OPEN: ClassVar = OPEN_STATES

    order = models.ForeignKey(
        Order, on_delete=models.CASCADE, related_name="recipients", db_index=False
    )
    mysis = models.ForeignKey(
        Mysis, on_delete=models.CASCADE, related_name="orders", db_index=False
    )
    memory = models.OneToOneField(
        Memory,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    state = models.CharField(
        max_length=10, choices=OrderState.choices, default=OrderState.QUEUED
    )
    note = models.TextField(blank=True)
    shown_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    since_turn = models.PositiveIntegerField(default=0)
    since_at = models.DateTimeField(default=timezone.now, db_default=Now())
    changed_by = models.CharField(max_length=200, blank=True)
    changed_at = models.DateTimeField(null=True, blank=True)
    replaced_by = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["order", "mysis"], name="order_once_for_each"
            ),
            models.CheckConstraint(
                condition=Q(state__in=OrderState.values), name="order_state_known"
            ),
        ]
        indexes = [
            models.Index(fields=["order", "state"], name="order_by_state"),
            models.Index(fields=["state", "order"], name="order_in_state"),
            models.Index(fields=["mysis", "order"], name="order_of_mysis"),
            models.Index(
                fields=["mysis", "order"],
                name="order_open",
                condition=Q(state__in=["queued", "shown", "answered"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state}: order {self.order_id} to {self.mysis_id}"


def _have_any(*states: str) -> Q:
    """Whether an order has a recipient, in one of these ``states`` if any are given."""
    own = OrderRecipient.objects.filter(order=OuterRef("pk"))
    return Q(Exists(own.filter(state__in=states) if states else own))


def _are_under_way() -> Q:
    """Whether somebody is still to get an order.

    As a list, which is short: asked of each order, every broadcast would be looked up.
    """
    rows = Order.objects.filter(broadcast__deliver_to__isnull=False)
    return Q(pk__in=rows.values("pk"))
