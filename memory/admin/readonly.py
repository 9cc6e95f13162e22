"""Rows that only the program writes: the admin shows them and changes nothing."""

from __future__ import annotations

from typing import Any, TypeVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import connection, models
from django.http import HttpRequest
from django.utils.functional import cached_property

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
