"""Lists that tell nothing hidden, rows that only the program writes, and long tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import smart_split

from memory.handles import parse_id
from memory.models import Memory, fetch_rows
from memory.redaction import hide_secrets_in_row

M = TypeVar("M", bound=models.Model)
# Values are offered that the newest rows have.
NEWEST = 1_000
EXACT_UP_TO = 10_000
# A search looks at so many rows at most, and at so many that belong to one of them.
SEARCHED = 500
# What a filter by a related row asks: which one it is, not what it holds.
RELATED_LOOKUPS = (
    "",
    "exact",
    "in",
    "isnull",
    "id",
    "id__exact",
    "id__in",
    "pk",
    "pk__exact",
)


class QuickPaginator(Paginator[Any]):
    """Counts small tables, and takes the planner's estimate of big ones.

    Of a filtered table at most 10,000 rows are counted, and none beyond is listed.
    """

    @cached_property
    def count(self) -> int:
        rows = self.object_list
        if not isinstance(rows, models.QuerySet):
            return super().count
        if rows.query.where:
            return rows.order_by()[:EXACT_UP_TO].count()
        estimate = "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass"
        guess = int(fetch_rows(estimate, [rows.model._meta.db_table])[0][0])
        return guess if guess > EXACT_UP_TO else super().count


class MaskedChangeList(ChangeList):
    """A page of rows without secrets: their columns show them cut (A11)."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and mask its rows."""
        super().get_results(request)
        self.result_list: Any = [hide_secrets_in_row(row) for row in self.result_list]


def _read_texts(row: models.Model, name: str) -> Iterator[str]:
    """The texts of a searched column, or of related rows', without secrets."""
    name, _, rest = name.partition("__")
    value = getattr(row, name)
    if isinstance(value, models.Manager):
        for related in value.order_by("-pk")[:SEARCHED]:
            yield from _read_texts(hide_secrets_in_row(related), rest)
    elif isinstance(value, models.Model):
        yield from _read_texts(hide_secrets_in_row(value), rest)
    else:
        # What may follow is a kind of comparison.
        yield str(value)


class MaskedSearchAdmin(admin.ModelAdmin[M]):
    """A list whose searches and filters tell nothing of what is hidden in its rows."""

    search_help_text = (
        f"Of the rows that match, the newest {SEARCHED} are searched, and the newest "
        f"{SEARCHED} that belong to each."
    )

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Whether an address may filter so: by what is offered alone.

        Django allows all columns. By how a text begins or by a pattern, what is hidden
        in it could be read letter by letter.
        """
        filters = self.get_list_filter(request)
        names = {
            one[0]
            if isinstance(one, tuple | list)
            # A filter of our own has a parameter of its own.
            else getattr(one, "parameter_name", one)
            for one in filters
        }
        offered = {*map(str, names), self.date_hierarchy, self.opts.pk.name, "pk"}
        name, _, rest = lookup.partition("__")
        columns = {one.name: one for one in self.opts.get_fields()}
        columns |= {one.attname: one for one in self.opts.concrete_fields}
        # Django itself sends back whoever names what is no column.
        if name not in offered:
            return name not in columns
        joined = name in columns and columns[name].is_relation
        return not joined or rest in RELATED_LOOKUPS

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Rows whose texts hold all words after they are masked, the newest of them."""
        found, double = super().get_search_results(request, queryset, search_term)
        words = [word.strip("\"'").lower() for word in smart_split(search_term)]
        if not words:
            return found, double
        newest = found.order_by("-pk").distinct()[:SEARCHED]
        masked = (hide_secrets_in_row(row) for row in newest)
        shown = [row.pk for row in masked if self._holds(row, words, request)]
        return queryset.filter(pk__in=shown), False

    def _holds(self, row: Any, words: list[str], request: HttpRequest) -> bool:
        fields = self.get_search_fields(request)
        texts = [
            text.lower()
            for name in fields
            for text in _read_texts(row, name.lstrip("=^@"))
        ]
        return all(any(word in text for text in texts) for word in words)


class ReadOnlyAdmin(MaskedSearchAdmin[M]):
    """No adding, no changing, no deleting; fast on big tables."""

    show_full_result_count = False
    # Counts beside the filters would read all of a big table for each of them.
    show_facets = admin.ShowFacets.NEVER
    paginator = QuickPaginator
    list_per_page = 50

    def _refuse(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return MaskedChangeList

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> M | None:
        """The row without secrets (A11); nothing saves it."""
        row = super().get_object(request, object_id, from_field)
        return row and hide_secrets_in_row(row)

    has_add_permission = has_change_permission = has_delete_permission = _refuse


class MysisFilter(admin.SimpleListFilter):
    """Of one Mysis, chosen by name from a box, since there may be hundreds."""

    title = "Mysis"
    parameter_name = "of"
    template = "admin/zoea_choice.html"
    # Where the rows hold the Mysis's number.
    path: ClassVar[str] = "mysis_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        myses: Any = Memory._meta.get_field("mysis").related_model
        rows = myses._default_manager.order_by("name").values_list("pk", "name")
        return [(str(pk), name) for pk, name in rows]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        number = parse_id(self.value() or "")
        # No Mysis has what is no number.
        return queryset.filter(**{self.path: -1 if number is None else number})

    @property
    def others(self) -> list[tuple[str, str]]:
        # What choosing must keep of the address.
        kept = self.request.GET.items()
        return [(name, str(value)) for name, value in kept if name not in ("of", "p")]


class MysisOfTurnFilter(MysisFilter):
    """Of one Mysis, for rows that belong to a turn."""

    path = "turn__mysis_id"


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
