"""The tables of the fleet that need some of the log."""

from __future__ import annotations

from decimal import Decimal

from django.core.validators import MinValueValidator
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
    DecimalField,
    OneToOneField,
    PositiveBigIntegerField,
    PositiveIntegerField,
    Q,
    TextField,
)
from django.db.models.functions import Now
from django.utils import timezone

from agents.validators import NAME
from memory.migrations._tables import (
    begins_as,
    check,
    create,
    dollars,
    index,
    maybe,
    part_of,
    row_of,
    table,
    unique,
)

STATES = ["queued", "shown", "answered", "done", "not_done", "superseded"]

TABLES = {
    "Budget": table(
        name=CharField(max_length=100, unique=True, validators=[NAME]),
        scope=CharField(
            choices=[
                ("fleet", "The whole fleet"),
                ("each", "Each Mysis by itself"),
                ("mysis", "One Mysis"),
                ("group", "A group of Myses"),
                ("policy", "All Myses under a policy"),
                ("provider", "All calls of a provider"),
            ],
            max_length=10,
        ),
        mysis=maybe("agents.mysis", CASCADE, "budgets"),
        policy=maybe("memory.contextpolicy", CASCADE, "+"),
        label=CharField(
            blank=True,
            help_text="The group as the Myses name it, or the name of the provider.",
            max_length=100,
            verbose_name="group or provider",
        ),
        period=CharField(
            choices=[("day", "A day (UTC)"), ("total", "Altogether")],
            default="day",
            max_length=10,
        ),
        tokens=PositiveBigIntegerField(blank=True, null=True),
        cost=DecimalField(
            blank=True,
            decimal_places=6,
            max_digits=14,
            null=True,
            validators=[MinValueValidator(Decimal("0"))],
            verbose_name="cost in US dollars",
        ),
        created_at=DateTimeField(auto_now_add=True),
        constraints=[
            check(
                "budget_limits_something",
                Q(tokens__isnull=False) | Q(cost__isnull=False),
            )
        ],
    ),
    "BudgetSpend": table(
        budget=part_of("agents.budget", "spends"),
        subject=BigIntegerField(default=0),
        day=DateField(),
        tokens=BigIntegerField(default=0),
        cost=dollars(),
        constraints=[unique("budget_spend_once", "budget", "subject")],
    ),
    "OrderRecipient": table(
        order=part_of("agents.order", "recipients"),
        mysis=part_of("agents.mysis", "orders"),
        memory=maybe("memory.memory", SET_NULL, "+", OneToOneField),
        state=begins_as(*STATES),
        note=TextField(blank=True),
        shown_at=DateTimeField(blank=True, null=True),
        answered_at=DateTimeField(blank=True, null=True),
        since_turn=PositiveIntegerField(default=0),
        since_at=DateTimeField(db_default=Now(), default=timezone.now),
        changed_by=CharField(blank=True, max_length=200),
        changed_at=DateTimeField(blank=True, null=True),
        replaced_by=BigIntegerField(blank=True, null=True),
        indexes=[
            index("order_by_state", "order", "state"),
            index("order_in_state", "state", "order"),
            index("order_of_mysis", "mysis", "order"),
            index("order_open", "mysis", "order", where=Q(state__in=STATES[:3])),
        ],
        constraints=[
            unique("order_once_for_each", "order", "mysis"),
            check("order_state_known", Q(state__in=STATES)),
        ],
    ),
    "Delivery": table(
        memory=row_of("memory.memory", "delivery"),
        mysis=part_of("agents.mysis", "+"),
        turn=maybe("agents.turn", SET_NULL, "+"),
        turn_number=PositiveIntegerField(),
        call_number=PositiveIntegerField(),
        shown=BooleanField(default=True),
        shown_at=DateTimeField(auto_now_add=True),
        done_at=DateTimeField(blank=True, null=True),
        indexes=[
            index("delivery_of_mysis", "mysis", "memory"),
            index("delivery_open", "mysis", where=Q(done_at__isnull=True)),
        ],
        meta={"verbose_name_plural": "deliveries"},
    ),
}


class Migration(migrations.Migration):
    initial = True
    dependencies = [
        ("agents", "0001_squashed_0031_credit_changes"),
        ("memory", "0001_squashed_0021_audit_truncate"),
    ]
    operations = [
        migrations.AddField(
            model_name="mysis",
            name="policy",
            field=maybe("memory.contextpolicy", PROTECT, "myses"),
        ),
        *create(TABLES),
    ]
    # Not the last: where that one is applied, so is this. Then a database in which the
    # first of the two alone is applied is new, and goes on from there.
    replaces = [("agents", "0002_initial")]
