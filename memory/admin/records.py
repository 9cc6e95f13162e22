"""Snapshots, sent contexts and calibrations: shown, never edited."""

from __future__ import annotations

from django.contrib import admin

from memory.models import (
    AccountClock,
    ActionUnderWay,
    ContextText,
    GameEvent,
    GameSnapshot,
    Lexicon,
    SentContext,
    TokenCalibration,
)

from .readonly import ReadOnlyAdmin


@admin.register(GameSnapshot)
class SnapshotAdmin(ReadOnlyAdmin[GameSnapshot]):
    """The newest answer of each state tool, with what made it untrue."""

    list_display = (
        "username",
        "tool_name",
        "args_key",
        "size",
        "game_tick",
        "captured_at",
        "stale_reason",
        "stale_tick",
        "logged_out_at",
    )
    list_filter = ("tool_name", "stale_reason")
    search_fields = ("username", "tool_name")
    ordering = ("username", "tool_name")

    @admin.display(description="bytes")
    def size(self, row: GameSnapshot) -> int:
        """The size of the answer."""
        return len(row.content.encode())


@admin.register(AccountClock)
class ClockAdmin(ReadOnlyAdmin[AccountClock]):
    """The newest tick seen for each account."""

    list_display = ("username", "tick", "seen_at")
    search_fields = ("username",)


@admin.register(GameEvent)
class EventAdmin(ReadOnlyAdmin[GameEvent]):
    """What the game told each account, as it was told."""

    list_display = ("username", "kind", "tick", "at", "received_at")
    list_filter = ("kind",)
    search_fields = ("username", "event_id")
    ordering = ("-id",)


@admin.register(ActionUnderWay)
class ActionAdmin(ReadOnlyAdmin[ActionUnderWay]):
    """Actions of late, and when each takes effect."""

    list_display = ("username", "tool", "tick", "asked_at", "done_at", "until")
    search_fields = ("username", "tool")


@admin.register(Lexicon)
class LexiconAdmin(ReadOnlyAdmin[Lexicon]):
    """Names and sizes that each account was told."""

    list_display = ("username",)
    search_fields = ("username",)


@admin.register(SentContext)
class SentAdmin(ReadOnlyAdmin[SentContext]):
    """What each call was sent, by reference."""

    list_display = ("id", "mysis", "call", "strategy", "username", "created_at")
    list_filter = ("strategy", "dialect")
    list_select_related = ("mysis", "call")
    ordering = ("-id",)


@admin.register(ContextText)
class TextAdmin(ReadOnlyAdmin[ContextText]):
    """Texts that many calls were sent, stored once."""

    list_display = ("digest", "beginning")

    @admin.display(description="text")
    def beginning(self, row: ContextText) -> str:
        """The first words."""
        return row.text[:120]


@admin.register(TokenCalibration)
class CalibrationAdmin(ReadOnlyAdmin[TokenCalibration]):
    """How each model counts tokens, against the estimate."""

    list_display = ("model", "used", "factor", "error", "samples", "updated_at")
