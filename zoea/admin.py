"""API tokens, users and groups in the admin. A token is shown once, when it is made."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from memory.admin.read_only import ReadOnlyAdmin
from memory.redaction import SHOWN_ONCE
from zoea.auth import hash_secret, make_secret
from zoea.models import ApiToken, IdempotencyRecord, SignInLink

admin.site.site_header = "Zoea admin"
admin.site.site_title = "Zoea"
admin.site.index_title = "What can be edited, and what is kept"
admin.site.unregister((User, Group))


@admin.register(Group)
class PlainGroupAdmin(GroupAdmin):
    """Permissions under a name, in a plain list: the stock pair of lists has no labels."""

    filter_horizontal = ()


@admin.register(User)
class PlainUserAdmin(UserAdmin[User]):
    """Who signs in: superusers administer, staff operates, all others only read."""

    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()


DAY_AND_MINUTE = forms.DateTimeInput(
    format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}
)


class TokenForm(forms.ModelForm[ApiToken]):
    class Meta:
        model = ApiToken
        fields = ("name", "role", "expires_at", "revoked_at")
        help_texts: ClassVar[dict[str, str]] = {
            "expires_at": "UTC. Empty: it never ends.",
            "revoked_at": "UTC. From then on it is refused.",
        }

    def clean_expires_at(self) -> datetime | None:
        """Refuse a new end in the past: revoking ends a token now."""
        end: datetime | None = self.cleaned_data["expires_at"]
        if end and "expires_at" in self.changed_data and end <= timezone.now():
            raise forms.ValidationError("That is over already: give a later moment.")
        return end


@admin.register(ApiToken)
class TokenAdmin(admin.ModelAdmin[ApiToken]):
    list_display = (
        "name",
        "role",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    list_filter = ("role",)
    search_fields = ("name",)
    form = TokenForm
    # One native field each: the stock pair of fields has no labels.
    formfield_overrides: ClassVar[dict[Any, Any]] = {
        models.DateTimeField: {
            "form_class": forms.DateTimeField,
            "widget": DAY_AND_MINUTE,
        }
    }
    actions = ("revoke",)

    def save_model(
        self, request: HttpRequest, obj: ApiToken, form: Any, change: bool
    ) -> None:
        """Make the secret of a new token and show it, once."""
        if change:
            super().save_model(request, obj, form, change)
            return
        secret = make_secret()
        obj.digest = hash_secret(secret)
        super().save_model(request, obj, form, change)
        self.message_user(
            request,
            f"The token is {secret} — copy it now, it is not shown again.",
            messages.WARNING,
            extra_tags=SHOWN_ONCE,
        )

    @admin.action(description="Revoke the selected tokens")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        self.message_user(request, f"Revoked {count}.", messages.SUCCESS)


@admin.register(SignInLink)
class LinkAdmin(ReadOnlyAdmin[SignInLink]):
    list_display = ("id", "created_at", "used_at")
    exclude = ("digest",)


@admin.register(IdempotencyRecord)
class IdempotencyAdmin(ReadOnlyAdmin[IdempotencyRecord]):
    list_display = ("key", "actor", "status", "created_at")
    search_fields = ("key", "actor")
