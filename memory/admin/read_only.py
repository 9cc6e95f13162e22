"""Filters of lists that may be long: none of them reads a whole table."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import connection, models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from memory.models import Memory

#: Values are offered that the newest rows have.
NEWEST = 1_000
MOST_DIGITS = 18


class MysisFilter(admin.SimpleListFilter):
    """Of one Mysis, chosen by name from a box, since there may be hundreds."""

    title = "Mysis"
    parameter_name = "of"
    template = "admin/zoea_choice.html"
    #: Where the rows hold the Mysis's number.
    path: ClassVar[str] = "mysis_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """All of them by name."""
        myses: Any = Memory._meta.get_field("mysis").related_model
        rows = myses._default_manager.order_by("name").values_list("pk", "name")
        return [(str(pk), name) for pk, name in rows]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows of the one that is chosen; of nobody for what is no number."""
        if not self.value():
            return queryset
        number = chosen(self.value())
        return (
            queryset.none()
            if number is None
            else queryset.filter(**{self.path: number})
        )

    @property
    def others(self) -> list[tuple[str, str]]:
        """The parameters that choosing must keep."""
        kept = self.request.GET.items()
        return [(name, str(value)) for name, value in kept if name not in ("of", "p")]


class MysisOfTurnFilter(MysisFilter):
    """The same for what belongs to a turn."""

    path = "turn__mysis_id"


def chosen(value: str | None) -> int | None:
    """A number that may be a Mysis's."""
    if value is None or not value.isdecimal() or len(value) > MOST_DIGITS:
        return None
    return int(value)


class NewestValuesFilter(admin.AllValuesFieldListFilter):
    """The values of the newest rows, for a column without choices.

    The stock filter reads every row of the table each time the list is opened.
    """

    def __init__(
        self,
        field: models.Field[Any, Any],
        request: HttpRequest,
        params: dict[str, list[str]],
        model: type[models.Model],
        model_admin: admin.ModelAdmin[Any],
        field_path: str,
    ) -> None:
        super().__init__(field, request, params, model, model_admin, field_path)
        newest = model._default_manager.order_by("-pk").values_list(field_path)
        found = {value for (value,) in newest[:NEWEST] if value not in (None, "")}
        values: Any = sorted(found | set(self.lookup_val or ()))
        self.lookup_choices = values


# SECTION Rows that only the program writes: the admin shows them and changes nothing.

M = TypeVar("M", bound=models.Model)
EXACT_UP_TO = 10_000


class QuickPaginator(Paginator[Any]):
    """Counts small tables, and takes the planner's word for big ones."""

    @cached_property
    def count(self) -> int:
        """The number of rows; an estimate for an unfiltered big table.

        Of a filtered one no more than 10,000 are counted, and none beyond is listed.
        """
        rows = self.object_list
        if not isinstance(rows, models.QuerySet):
            return super().count
        if rows.query.where:
            return rows.order_by()[:EXACT_UP_TO].count()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass",
                [rows.model._meta.db_table],
            )
            guess: int = cursor.fetchone()[0]
        return guess if guess > EXACT_UP_TO else super().count


class ReadOnlyAdmin(admin.ModelAdmin[M]):
    """No adding, no changing, no deleting; fast on big tables."""

    show_full_result_count = False
    # Counts beside the filters would read all of a big table for each of them.
    show_facets = admin.ShowFacets.NEVER
    paginator = QuickPaginator
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Only the program adds rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The rows are the record of what happened."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows go with their Mysis, or by retention."""
        return False
