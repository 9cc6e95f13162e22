"""API tokens, users and groups in the admin. A token is shown once, when it is made."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, AdminUserCreationForm
from django.contrib.auth.models import Group, User
from django.db import models, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from memory import audit
from memory.admin.audit import AuditedAdmin
from memory.admin.read_only import ReadOnlyAdmin
from zoea.auth import AuditedPasswordMixin, hash_secret, make_secret
from zoea.models import ApiToken, IdempotencyRecord, SignInLink

admin.site.site_header = "Zoea admin"
admin.site.site_title = "Zoea"
admin.site.index_title = "What can be edited, and what is kept"
admin.site.unregister((User, Group))


@admin.register(Group)
class PlainGroupAdmin(AuditedAdmin[Group], GroupAdmin):
    """Permissions under a name, in a plain list: the stock pair of lists has no labels."""

    audited_as = "group"
    filter_horizontal = ()


class PasswordForm(AuditedPasswordMixin, AdminPasswordChangeForm):  # type: ignore[type-arg]
    """Django's form for the password of another user."""


class NewUserForm(AdminUserCreationForm):  # type: ignore[type-arg]
    """Django's form for a user; ``made_hash`` is of the password, where there is one."""

    made_hash = ""

    def set_password_and_save(
        self, user: User, commit: bool = True, **kwargs: Any
    ) -> User:
        if not self.made_hash:
            return super().set_password_and_save(user, commit=commit, **kwargs)
        user.password = self.made_hash
        if commit:
            user.save()
        return user


@admin.register(User)
class PlainUserAdmin(AuditedAdmin[User], UserAdmin[User]):
    """Who signs in: superusers administer, staff operates, all others only read."""

    audited_as = "user"
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()

    add_form = NewUserForm
    change_password_form = PasswordForm

    @method_decorator(sensitive_post_parameters())
    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Django's page, which is all of one transaction; the hash is made before it."""
        may_add = self.has_add_permission(request)
        if request.method == "POST" and may_add and self.has_change_permission(request):
            form = self.get_form(request)(request.POST)
            if form.is_valid():
                request.made_hash = form.save(commit=False).password  # type: ignore[attr-defined]
        return super().add_view(request, form_url, extra_context)

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        if not change:
            form.made_hash = getattr(request, "made_hash", "")
        return super().save_form(request, form, change)


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
class TokenAdmin(AuditedAdmin[ApiToken]):
    audited_as = "token"
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
        """Make the secret of a new token."""
        if not change:
            request.made_secret = make_secret()  # type: ignore[attr-defined]
            obj.digest = hash_secret(request.made_secret)  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the secret in this answer alone: a notice would put it into a cookie."""
        context = {
            **self.admin_site.each_context(request),
            "title": "A new API token",
            "opts": self.opts,
            "token": obj,
            "secret": request.made_secret,  # type: ignore[attr-defined]
        }
        return render(request, "admin/zoea/apitoken/made.html", context)

    @admin.action(description="Revoke the selected tokens")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        now = timezone.now()
        with transaction.atomic():
            rows = list(queryset.filter(revoked_at=None).select_for_update())
            for row in rows:
                audit.record("token.revoke", f"token:{row.name}", after={"at": now})
            queryset.filter(pk__in=[row.pk for row in rows]).update(revoked_at=now)
        self.message_user(request, f"Revoked {len(rows)}.", messages.SUCCESS)


@admin.register(SignInLink)
class LinkAdmin(ReadOnlyAdmin[SignInLink]):
    list_display = ("id", "created_at", "used_at")
    exclude = ("digest",)


@admin.register(IdempotencyRecord)
class IdempotencyAdmin(ReadOnlyAdmin[IdempotencyRecord]):
    list_display = ("key", "actor", "status", "created_at")
    search_fields = ("key", "actor")
