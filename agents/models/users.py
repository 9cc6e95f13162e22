"""What is kept for each user: when they were last here, and views of the fleet."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from agents.validators import check_visible

# Who comes back after so long begins another visit.
AWAY = timedelta(minutes=30)
# Within a visit the row is written this often at most.
PAUSE = timedelta(minutes=5)


class Visit(models.Model):
    """The present visit of a user: ``seen_at`` is the last look at the fleet in it.

    ``since`` is the last look of the visit before, null on the first one.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="+",
    )
    seen_at = models.DateTimeField()
    since = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"visit of {self.user_id}"

    @classmethod
    def note_look(cls, user_id: int, now: datetime) -> datetime | None:
        """Keep that a user looks; the end of the visit before, None on the first one.

        Of two tabs that open at once the first begins the visit, for both.
        """
        rows = cls.objects.filter(pk=user_id)
        found = rows.first()
        if found is None:
            first = Visit(user_id=user_id, seen_at=now)
            Visit.objects.bulk_create([first], ignore_conflicts=True)
            return None
        if now - found.seen_at >= AWAY:
            before = found.seen_at
            rows.filter(seen_at=before).update(seen_at=now, since=before)
            return before
        if now - found.seen_at >= PAUSE:
            rows.filter(seen_at=found.seen_at).update(seen_at=now)
        return found.since

    @classmethod
    def read_since(cls, user_id: int) -> datetime | None:
        """The end of the visit before the present one, if there was one."""
        return cls.objects.filter(pk=user_id).values_list("since", flat=True).first()


class SavedView(models.Model):
    """Filter, sort and columns of the Fleet page, as the parameters of its address."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views"
    )
    name = models.CharField(max_length=60, validators=[check_visible])
    query = models.CharField(max_length=4_000, blank=True)
    # The one that the Fleet page opens with.
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "user",
                Lower("name"),
                name="saved_view_name_once",
                violation_error_message="You have a view of this name: choose another "
                "name, or delete that view first.",
            ),
            models.UniqueConstraint(
                fields=["user"],
                condition=Q(is_default=True),
                name="saved_view_one_default",
            ),
        ]

    def __str__(self) -> str:
        return self.name
