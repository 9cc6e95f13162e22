"""Snapshots, sent contexts and calibrations: shown, never edited."""

from __future__ import annotations

import json
import re
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import BooleanField, OuterRef, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Length
from django.http import HttpRequest
from django.utils import timezone

from memory.admin.read_only import MysisFilter, NewestValuesFilter, ReadOnlyAdmin
from memory.context import registry
from memory.context.types import TOOL_MODES
from memory.gamestate.clock import Sighting
from memory.gamestate.confidence import Confidence, count_age_in_ticks, judge_age
from memory.gamestate.types import Moment
from memory.models import (
    AccountClock,
    ActionUnderWay,
    ContextPolicy,
    ContextText,
    GameEvent,
    GameSnapshot,
    Lexicon,
    SentContext,
    TokenCalibration,
)
from memory.snapshots.reads import IS_UNHEARD, find_moment


class BeliefFilter(admin.SimpleListFilter):
    """By how far snapshots are to be believed now, by marks and by age."""

    title = "confidence"
    parameter_name = "belief"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        partly = f"partly {Confidence.INVALIDATED}"
        return [(name, name) for name in (*map(str, Confidence), partly)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        # Judged row by row: there is one for each account and tool, no more.
        wanted = self.value()
        if wanted is None:
            return queryset
        found = [row.pk for row in queryset if describe_confidence(row) == wanted]
        return queryset.filter(pk__in=found)


@admin.register(GameSnapshot)
class SnapshotAdmin(ReadOnlyAdmin[GameSnapshot]):
    """The newest answer of each state tool, how old it is, and what made it untrue."""

    list_display = (
        "username",
        "tool_name",
        "args_key",
        "confidence",
        "age",
        "stale_reason",
        "stale_tick",
        "captured_at",
        "size",
        "logged_out_at",
    )
    list_filter = (BeliefFilter, "tool_name", ("stale_reason", NewestValuesFilter))
    search_fields = ("username", "tool_name")
    ordering = ("username", "tool_name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[GameSnapshot]:
        seen = AccountClock.objects.filter(username=OuterRef("username"))
        rows = super().get_queryset(request).defer("content", "merged")
        return rows.annotate(
            length=Length("content"),
            seen_tick=Subquery(seen.values("tick")[:1]),
            seen_at=Subquery(seen.values("seen_at")[:1]),
            unheard=RawSQL(  # noqa: S611 (no input in the text)
                IS_UNHEARD.format(username="memory_gamesnapshot.username"),
                [],
                output_field=BooleanField(),
            ),
        )

    @admin.display(description="characters", ordering="length")
    def size(self, row: GameSnapshot) -> int:
        return int(getattr(row, "length", 0))

    @admin.display(description="age, ticks")
    def age(self, row: GameSnapshot) -> int | None:
        return count_age_in_ticks(row.to_outline(), _find_present(row))

    @admin.display(description="confidence")
    def confidence(self, row: GameSnapshot) -> str:
        return describe_confidence(row)


def describe_confidence(row: GameSnapshot) -> str:
    """How far to believe a row that has the account's clock, in a word."""
    if row.logged_out_at is not None:
        return str(Confidence.STALE)
    if row.stale_reason:
        mark = row.get_joined_mark()
        partly = "partly " if mark and mark.fields else ""
        return f"{partly}{Confidence.INVALIDATED}"
    return str(judge_age(row.to_outline(), _find_present(row)))


def _find_present(row: GameSnapshot) -> Moment:
    tick, at = getattr(row, "seen_tick", None), getattr(row, "seen_at", None)
    seen = Sighting(tick, at) if tick is not None and at else None
    heard = settings.ZOEA_FETCH_EVENTS and not getattr(row, "unheard", False)
    return find_moment(seen, timezone.now(), heard=heard)


@admin.register(SentContext)
class SentAdmin(ReadOnlyAdmin[SentContext]):
    """What each call was sent, by reference."""

    list_display = (
        "id",
        "mysis",
        "turn",
        "call_number",
        "strategy",
        "username",
        "created_at",
    )
    list_filter = (
        MysisFilter,
        ("strategy", NewestValuesFilter),
        ("dialect", NewestValuesFilter),
    )
    list_select_related = ("mysis", "call__turn")
    search_fields = ("mysis__name", "username", "digest__startswith")
    ordering = ("-id",)

    @admin.display(description="turn", ordering="call__turn")
    def turn(self, row: SentContext) -> int:
        return row.call.turn.number

    @admin.display(description="call")
    def call_number(self, row: SentContext) -> int:
        return row.call.number


@admin.register(ContextText)
class TextAdmin(ReadOnlyAdmin[ContextText]):
    """Texts that many calls were sent, stored once."""

    list_display = ("digest", "beginning")

    @admin.display(description="text")
    def beginning(self, row: ContextText) -> str:
        return row.text[:120]


# Tables that need no more than their columns.
admin.site.register(
    AccountClock,
    ReadOnlyAdmin,
    list_display=("username", "tick", "seen_at"),
    search_fields=("username",),
)
admin.site.register(
    GameEvent,
    ReadOnlyAdmin,
    list_display=("username", "kind", "tick", "at", "received_at"),
    list_filter=(("kind", NewestValuesFilter),),
    search_fields=("username", "event_id"),
    ordering=("-id",),
)
admin.site.register(
    ActionUnderWay,
    ReadOnlyAdmin,
    list_display=("username", "tool", "tick", "asked_at", "done_at", "until"),
    search_fields=("username", "tool"),
)
admin.site.register(
    Lexicon, ReadOnlyAdmin, list_display=("username",), search_fields=("username",)
)
admin.site.register(
    TokenCalibration,
    ReadOnlyAdmin,
    list_display=("model", "used", "factor", "error", "samples", "updated_at"),
)


class PolicyForm(forms.ModelForm[ContextPolicy]):
    """A policy whose strategy exists and takes these options."""

    strategy = forms.ChoiceField(
        choices=lambda: [(name, name) for name in registry.list_names()]
    )

    tools = forms.ChoiceField(
        choices=[
            ("", "as in the options"),
            *((m, m.replace("_", " ")) for m in TOOL_MODES),
        ],
        required=False,
        help_text="full: every schema; compact: the same in fewer words; on demand: one "
        "line a tool in the system message, schemas when they are asked for.",
    )
    allow = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60}),
        help_text="Names or patterns of the game's tools that may be called, such as "
        "get_* mine travel. Empty: as in the options, else all.",
    )

    class Meta:
        model = ContextPolicy
        fields = (
            "name",
            "strategy",
            "options",
            "budget_tokens",
            "budget_reserve",
            "is_default",
        )
        help_texts = {
            "options": 'As JSON, for example {"window": 30}. Tools and Allow are options '
            "too and are written here when they are chosen below."
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Compared with what the page showed: another may be the default by now.
        self.fields["is_default"].show_hidden_initial = True

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if (options := cleaned.get("options")) is None:
            options = cleaned["options"] = {}
        if isinstance(options, dict):
            chosen = {"tools": cleaned.get("tools"), "allow": self._split_allow()}
            chosen = {name: value for name, value in chosen.items() if value}
            options = cleaned["options"] = {**options, **chosen}
        if not isinstance(options, dict):
            self.add_error("options", "Give a JSON object, for example {}.")
        elif "strategy" in cleaned:
            try:
                registry.validate_options(cleaned["strategy"], options)
            except (ValueError, TypeError) as error:
                self.add_error("options", str(error))
        reserve, tokens = cleaned.get("budget_reserve"), cleaned.get("budget_tokens")
        if reserve is not None and tokens is not None and reserve >= tokens:
            self.add_error("budget_reserve", "Must be smaller than the budget.")
        return cleaned

    def _split_allow(self) -> list[str]:
        text = self.cleaned_data.get("allow") or ""
        return [name for name in re.split(r"[\s,]+", text) if name]


class PolicyAdmin(admin.ModelAdmin[ContextPolicy]):
    """Strategy, options and budget under a name; registered where it can be tried."""

    form = PolicyForm
    list_display = (
        "name",
        "strategy",
        "options",
        "budget_tokens",
        "is_default",
        "updated_at",
    )
    list_filter = ("strategy",)
    search_fields = ("name",)

    def save_model(
        self, request: HttpRequest, obj: ContextPolicy, form: Any, change: bool
    ) -> None:
        """Store the row; which one is the default only where that was changed."""
        fields = {*PolicyForm.Meta.fields, "updated_at"}
        if "is_default" not in form.changed_data:
            fields.remove("is_default")
        obj.save(update_fields=fields if change else None)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A new policy begins as the default one; what the address says wins."""
        taken = set(PolicyForm.Meta.fields) - {"name", "is_default"}
        default = forms.model_to_dict(ContextPolicy.read_default(), taken)
        given = super().get_changeform_initial_data(request)
        if "options" in given:
            try:
                given["options"] = json.loads(str(given["options"]))
            except (ValueError, RecursionError):
                del given["options"]
        return default | given
