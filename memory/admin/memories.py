"""Memories in the admin: read-only, with full-text search and a page for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from memory.admin.read_only import MysisFilter, ReadOnlyAdmin
from memory.handles import parse_id
from memory.models import Branch, Memory, Note, NoteFloor
from memory.models.secret_tools import read_secret_tools
from memory.problems import SlowSearchError
from memory.search.query import TextQuery
from memory.search.results import Hit, search_messages
from memory.search.visibility import find_seen_ids

PAGE = 50
LISTED_MATCHES = 500
# Where another filter leaves some of them out.
FILTERED_MATCHES = 5_000
NARROWING = ("role__exact", "origin__exact", "is_error__exact")
# The newest matches that are counted by Mysis and by origin.
COUNTED = 100
FACETS = 8
CLIPPED = 120


@admin.register(Note)
class NoteAdmin(ReadOnlyAdmin[Note]):
    """What Myses noted themselves: the notes in use, and what they said before."""

    list_display = (
        "name",
        "mysis",
        "version",
        "author",
        "written_at",
        "ended_at",
        "ended_by",
    )
    list_filter = (MysisFilter, ("ended_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "text")
    exclude = ("vector",)
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Note]:
        return super().get_queryset(request).defer("vector").select_related("mysis")


admin.site.register(
    NoteFloor,
    ReadOnlyAdmin,
    list_display=("mysis", "version"),
    list_select_related=("mysis",),
)


admin.site.register(
    Branch,
    ReadOnlyAdmin,
    list_display=(
        *("id", "mysis", "kept_id", "messages", "correction_id", "by", "created_at"),
        "undone_at",
    ),
    list_filter=(MysisFilter,),
    list_select_related=("mysis",),
    ordering=("-id",),
)


class SearchForm(forms.Form):
    """What to look for, and where."""

    q = forms.CharField(label="Search for", max_length=500, strip=True)
    mysis: forms.ModelChoiceField[Any] = forms.ModelChoiceField(
        queryset=apps.get_model("agents", "Mysis")._default_manager.order_by("name"),
        required=False,
        empty_label="The whole fleet",
    )
    field = forms.ChoiceField(
        label="In",
        required=False,
        choices=[("content", "what was said"), ("reasoning", "reasoning")],
    )
    mode = forms.ChoiceField(
        label="Match",
        required=False,
        choices=[("fts", "words, in any order"), ("exact", "exactly this text")],
    )


class NamedHit(NamedTuple):
    """A hit and the name of its Mysis."""

    hit: Hit
    mysis: str


@dataclass(frozen=True, slots=True)
class Facet:
    """A narrower search, and how many of the newest matches it has."""

    label: str
    count: int
    query: str
    chosen: bool


@admin.register(Memory)
class MemoryAdmin(ReadOnlyAdmin[Memory]):
    """The log. The search box searches by the full-text index."""

    list_display = (
        "id",
        "mysis",
        "role",
        "origin",
        "line",
        "tick",
        "created_at",
        "branch_id",
    )
    list_filter = (MysisFilter, "role", "origin", "is_error")
    list_select_related = ("mysis",)
    search_fields = ("content",)
    search_help_text = 'Words in any order, "a phrase", -without. Newest 500 matches.'
    exclude = ("calls_text", "content_vector", "reasoning_vector")
    ordering = ("-id",)

    @admin.display(description="text")
    def line(self, row: Memory) -> str:
        names = ", ".join(call["function"]["name"] for call in row.tool_calls)
        text = row.content or (f"calls {names}" if names else row.reasoning)
        return text[:CLIPPED] + ("…" if len(text) > CLIPPED else "")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Memory]:
        rows = super().get_queryset(request)
        return rows.defer("content_vector", "reasoning_vector")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term.strip():
            return queryset, False
        wanted = TextQuery(
            search_term.replace("\x00", ""),
            mysis_id=parse_id(request.GET.get("of", "")),
            secret=read_secret_tools(),
        )
        narrowed = any(name in request.GET for name in NARROWING)
        try:
            ids = find_seen_ids(
                wanted, FILTERED_MATCHES if narrowed else LISTED_MATCHES
            )
        except SlowSearchError as error:
            self.message_user(request, error.detail, messages.ERROR)
            ids = []
        return queryset.filter(pk__in=ids), False

    def get_urls(self) -> list[URLPattern]:
        search = self.admin_site.admin_view(self.search_view)
        own = path("search/", search, name="memory_memory_search")
        return [own, *super().get_urls()]

    def search_view(self, request: HttpRequest) -> TemplateResponse:
        """Search messages or reasoning, in one Mysis or in the whole fleet."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = SearchForm(request.GET if "q" in request.GET else None)
        found = None
        try:
            found = _search(form.cleaned_data) if form.is_valid() else None
        except SlowSearchError as error:
            form.add_error("q", error.detail)
        origin = request.GET.get("origin")
        shown = [o for o in found or () if not origin or o.hit.origin == origin]
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Search the memory",
            "form": form,
            "found": None if found is None else shown[:PAGE],
            "counted": len(found or ()),
            "full": COUNTED,
            "facets": _count_by_mysis_and_origin(found or (), request),
            "page": PAGE,
        }
        return TemplateResponse(request, "admin/memory/memory/search.html", context)


def _search(wanted: dict[str, Any]) -> list[NamedHit]:
    mysis = wanted["mysis"]
    hits = search_messages(
        query=wanted["q"],
        mysis_id=mysis.pk if mysis else None,
        mode="exact" if wanted["mode"] == "exact" else "fts",
        reasoning=wanted["field"] == "reasoning",
        limit=COUNTED,
    )
    rows = Memory.objects.filter(pk__in=[hit.memory_id for hit in hits])
    names = dict(rows.values_list("pk", "mysis__name"))
    return [NamedHit(hit, names.get(hit.memory_id, "")) for hit in hits]


def _count_by_mysis_and_origin(
    found: Sequence[NamedHit], request: HttpRequest
) -> list[tuple[str, list[Facet]]]:
    names = {str(one.hit.mysis): one.mysis for one in found}
    myses = Counter(str(one.hit.mysis) for one in found).most_common(FACETS)
    origins = Counter(one.hit.origin for one in found).most_common()
    return [
        ("mysis", [_facet(request, "mysis", pk, names[pk], n) for pk, n in myses]),
        ("origin", [_facet(request, "origin", each, each, n) for each, n in origins]),
    ]


def _facet(
    request: HttpRequest, name: str, value: str, label: str, count: int
) -> Facet:
    query = request.GET.copy()
    taken = query.get(name) == value
    query[name] = "" if taken else value
    return Facet(label, count, query.urlencode(), taken)
