"""Views of the fleet that users keep under names of their own."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from agents.validators import check_visible


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
