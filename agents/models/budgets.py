"""Hard limits of tokens and money, and what is spent of them."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from agents.models.fleet import Mysis
from agents.validators import NAME


class Budget(models.Model):
    """A limit that stops the next call before it is made.

    ``label`` is the name of the group or of the provider. Tokens are those of
    requests and answers, ``cost`` is in US dollars; None means no limit.
    """

    class Scope(models.TextChoices):
        """The calls that it counts."""

        FLEET = "fleet", "The whole fleet"
        EACH = "each", "Each Mysis by itself"
        MYSIS = "mysis", "One Mysis"
        GROUP = "group", "A group of Myses"
        POLICY = "policy", "All Myses under a policy"
        PROVIDER = "provider", "All calls of a provider"

    class Period(models.TextChoices):
        """How long it lasts."""

        DAY = "day", "A day (UTC)"
        TOTAL = "total", "Altogether"

    name = models.CharField(max_length=100, unique=True, validators=[NAME])
    scope = models.CharField(max_length=10, choices=Scope.choices)
    mysis = models.ForeignKey(
        Mysis, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets"
    )
    policy = models.ForeignKey(
        "memory.ContextPolicy",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
    )
    label = models.CharField(
        "group or provider",
        max_length=100,
        blank=True,
        help_text="The group as the Myses name it, or the name of the provider.",
    )
    period = models.CharField(max_length=10, choices=Period.choices, default=Period.DAY)
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cost = models.DecimalField(
        "cost in US dollars",
        max_digits=14,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal(0))],
    )
    created_at = models.DateTimeField(auto_now_add=True)

    TARGETS: ClassVar[dict[str, str]] = {
        Scope.MYSIS: "mysis",
        Scope.POLICY: "policy",
        Scope.GROUP: "label",
        Scope.PROVIDER: "label",
    }

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(tokens__isnull=False) | Q(cost__isnull=False),
                name="budget_limits_something",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse a budget without a limit, and one whose scope names nobody."""
        if self.tokens is None and self.cost is None:
            raise ValidationError(
                {"tokens": "Give a limit of tokens, of cost, or both."}
            )
        wanted = self.TARGETS.get(self.scope)
        for field in ("mysis", "policy", "label"):
            given = getattr(self, field)
            if field == wanted and not given:
                raise ValidationError({field: f"Say which one: scope {self.scope}."})
            if field != wanted and given:
                text = f"Leave it empty: the scope is {self.scope}."
                raise ValidationError({field: text})

    @property
    def target(self) -> str | None:
        """The name of its target; None for the fleet and for each."""
        if self.mysis is not None:
            return self.mysis.name
        if self.policy is not None:
            return self.policy.name
        return self.label or None


class BudgetSpend(models.Model):
    """What was spent of a budget on its last day, running calls included.

    ``subject`` is the id of the Mysis in a budget of each, else 0. A call counts by its
    estimate before it is made, and by its answer afterwards.
    """

    budget = models.ForeignKey(
        Budget, on_delete=models.CASCADE, related_name="spends", db_index=False
    )
    subject = models.BigIntegerField(default=0)
    day = models.DateField()
    tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=Decimal(0))

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "subject"], name="budget_spend_once"
            )
        ]

    def __str__(self) -> str:
        return f"spent of budget {self.budget_id}"
