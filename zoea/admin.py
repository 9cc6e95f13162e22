"""Tokens in the admin: made here, shown once, revoked; never read again."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from memory.admin.readonly import ReadOnlyAdmin

from .auth.tokens import digest_of, new_secret
from .models import ApiToken, IdempotencyRecord, SignInLink

admin.site.site_header = "Zoea admin"
admin.site.site_title = "Zoea"
admin.site.index_title = "What can be edited, and what is kept"


@admin.register(ApiToken)
class TokenAdmin(admin.ModelAdmin[ApiToken]):
    """API tokens: name, role, expiry."""

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
    fields = ("name", "role", "expires_at", "revoked_at")
    actions = ("revoke",)

    def save_model(
        self, request: HttpRequest, obj: ApiToken, form: Any, change: bool
    ) -> None:
        """A new token gets its secret, which is shown this once."""
        if change:
            super().save_model(request, obj, form, change)
            return
        secret = new_secret()
        obj.digest = digest_of(secret)
        super().save_model(request, obj, form, change)
        self.message_user(
            request,
            f"The token is {secret} — copy it now, it is not shown again.",
            messages.WARNING,
        )

    @admin.action(description="Revoke the selected tokens")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """From now on they are refused."""
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        self.message_user(request, f"Revoked {count}.", messages.SUCCESS)


@admin.register(SignInLink)
class LinkAdmin(ReadOnlyAdmin[SignInLink]):
    """One-time sign-in links: when they were made and used."""

    list_display = ("id", "created_at", "used_at")
    exclude = ("digest",)


@admin.register(IdempotencyRecord)
class IdempotencyAdmin(ReadOnlyAdmin[IdempotencyRecord]):
    """Answers kept for clients that repeat a write."""

    list_display = ("key", "actor", "status", "created_at")
    search_fields = ("key", "actor")
