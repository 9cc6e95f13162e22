"""Factions, the forum, notes, and how one looks to others."""

from __future__ import annotations

from sandbox.game.parameters import Parameter
from sandbox.game.tool import Tool, text

LONGEST_TEXT = 10_000
_FACTION = text("faction_id", "The faction's ID, from faction_list")
_TITLE = text("title", "The title")
_CONTENT = text("content", "The text", longest=LONGEST_TEXT)
_NOTE = text("note_id", "The note's ID, from get_notes")
_THREAD = text("thread_id", "The thread's ID, from forum_list")
_A_TEXT = {"title": "Prices", "content": "Iron is cheap in Sol."}

_FACTIONS = (
    Tool("faction_list", "faction", "List the factions."),
    Tool(
        "faction_info",
        "faction",
        "See a faction, your own by default.",
        (text("faction_id", "The faction's ID", required=False),),
    ),
    Tool("faction_get_invites", "faction", "List the factions that invite you."),
    Tool(
        "create_faction",
        "faction",
        "Found a faction.",
        (text("name", "3 to 40 characters"), text("tag", "2 to 4 letters")),
        {"name": "Long Haul", "tag": "HAUL"},
        mutation=True,
    ),
    Tool(
        "join_faction",
        "faction",
        "Join a faction that has invited you.",
        (_FACTION,),
        {"faction_id": "faction_id"},
        mutation=True,
    ),
    Tool("leave_faction", "faction", "Leave your faction.", mutation=True),
    Tool(
        "faction_invite",
        "faction",
        "Invite a captain into your faction.",
        (text("player_id", "The captain's ID"),),
        {"player_id": "player_id"},
        mutation=True,
    ),
    Tool(
        "faction_declare_war",
        "faction",
        "Declare war on another faction.",
        (text("target_faction_id", "The other faction's ID"),),
        {"target_faction_id": "faction_id"},
        mutation=True,
    ),
)

_TEXTS = (
    Tool("get_notes", "notes", "List your notes."),
    Tool("read_note", "notes", "Read a note.", (_NOTE,), {"note_id": "note_id"}),
    Tool(
        "create_note", "notes", "Note a text.", (_TITLE, _CONTENT), _A_TEXT, writes=True
    ),
    Tool(
        "write_note",
        "notes",
        "Replace the text of a note.",
        (_NOTE, _CONTENT),
        {"note_id": "note_id", "content": "Iron is dear now."},
        writes=True,
    ),
    Tool("forum_list", "forum", "List the threads of the forum, newest first."),
    Tool(
        "forum_get_thread",
        "forum",
        "Read a thread.",
        (_THREAD,),
        {"thread_id": "thread_id"},
    ),
    Tool(
        "forum_create_thread",
        "forum",
        "Start a thread.",
        (_TITLE, _CONTENT),
        _A_TEXT,
        writes=True,
    ),
    Tool(
        "forum_reply",
        "forum",
        "Reply to a thread.",
        (_THREAD, _CONTENT),
        {"thread_id": "thread_id", "content": "Not any more."},
        writes=True,
    ),
    Tool(
        "captains_log_delete",
        "log",
        "Delete an entry of your captain's log.",
        (Parameter("index", "integer", "0 is the newest entry"),),
        {"index": 0},
        writes=True,
    ),
)

_LOOKS = (
    Tool(
        "set_status",
        "settings",
        "Set the line that others see beside your name.",
        (text("status_message", "The line"),),
        {"status_message": "Hauling iron"},
        writes=True,
    ),
    Tool(
        "set_colors",
        "settings",
        "Set your colors.",
        (text("primary_color", "#RRGGBB"), text("secondary_color", "#RRGGBB")),
        {"primary_color": "#FFAA00", "secondary_color": "#001122"},
        writes=True,
    ),
    Tool(
        "set_anonymous",
        "settings",
        "Hide your name, or show it again.",
        (Parameter("anonymous", "boolean", "True to hide"),),
        {"anonymous": True},
        writes=True,
    ),
)

TOOLS = (*_FACTIONS, *_TEXTS, *_LOOKS)
