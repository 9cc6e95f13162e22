"""The audit log in the admin, and how what is edited in the admin gets into it."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from memory import audit
from memory.admin.read_only import MaskedSearchAdmin, NewestValuesFilter, ReadOnlyAdmin
from memory.models import AuditEntry

M = TypeVar("M", bound=Model)


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin[AuditEntry]):
    """Who did what to what; nobody changes it."""

    list_display = ("at", "who", "action", "object", "address", "token")
    list_filter = (
        ("action", NewestValuesFilter),
        ("who", NewestValuesFilter),
        ("token", NewestValuesFilter),
    )
    search_fields = ("who", "action", "object", "address", "token")
    ordering = ("-id",)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """For admins alone, as over REST: it tells of everybody."""
        return bool(request.user.is_active and request.user.is_superuser)


class AuditedAdmin(MaskedSearchAdmin[M]):
    """Rows whose adding, changing and deleting here stand in the audit log.

    ``audited_as`` is what such a row is called there.
    """

    audited_as: ClassVar[str]

    def name_audited(self, obj: Model) -> str:
        """How the audit log names a row."""
        return f"{self.audited_as}:{obj}"

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        """Keep what is stored, to tell what changed."""
        row = form.instance
        stored = type(row)._base_manager.filter(pk=row.pk).first() if change else None
        form.audited = (self.name_audited(stored), _read(stored)) if stored else ()
        return super().save_form(request, form, change)

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        """Record what the form did: Django asks for this once all is saved."""
        if hasattr(form, "audited"):
            self.record_form(form)
        return super().construct_change_message(request, form, formsets, add)

    def record_form(self, form: Any) -> None:
        """Record a row that was added, or what of it changed."""
        row, now = form.instance, _read(form.instance)
        if form.audited:
            thing, before = form.audited
            audit.record_change(
                f"{self.audited_as}.update", thing, before=before, after=now
            )
        else:
            thing = self.name_audited(row)
            audit.record_change(f"{self.audited_as}.create", thing, after=now)

    def delete_model(self, request: HttpRequest, obj: M) -> None:
        self._record_deletion(obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[M]) -> None:
        with transaction.atomic():
            for row in queryset:
                self._record_deletion(row)
            super().delete_queryset(request, queryset)

    def _record_deletion(self, row: Model) -> None:
        action = f"{self.audited_as}.delete"
        audit.record_change(action, self.name_audited(row), before=_read(row))


def _read(row: Model) -> dict[str, Any]:
    """The columns of a stored row, and the names of the rows that it is joined to."""
    joined = {
        field.name: sorted(map(str, getattr(row, field.name).all()))
        for field in row._meta.many_to_many
    }
    return {**audit.read_columns(row), **joined}
