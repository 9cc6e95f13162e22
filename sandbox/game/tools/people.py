"""What captains say, write down and look like, and the factions that they found."""

from __future__ import annotations

import re

from sandbox.game.config import GameError, Json, make_view
from sandbox.game.sessions import Event
from sandbox.game.tool import flag, text
from sandbox.game.tools.rules import Call, act, ask, pick
from sandbox.game.world.models import Faction, Note, Player, Thread

CHANNELS = ("system", "local", "private")
MOST_KEPT = 100
MOST_NOTES = 20
MOST_THREADS = 50
LONGEST_STATUS = 100
LEADER, MEMBER = "leader", "member"
_NOTE_VIEW = make_view("note_id=id title content")
_NOTE_LINE = make_view("note_id=id title created_at")
_FACTION = make_view("faction_id=id name tag")
_THREAD_LINE = make_view("thread_id=id title author created_at")
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


# --- Chat


def _chat(call: Call) -> Json:
    channel, content = call.given["channel"], call.given["content"].strip()
    if channel not in CHANNELS:
        raise GameError(
            "invalid_channel", f"Unknown channel. Use one of: {', '.join(CHANNELS)}."
        )
    if not content:
        raise GameError("empty_message", "Message cannot be empty.")
    hearers = _hearers(call, channel)
    message = {
        "id": call.token(),
        "channel": channel,
        "sender_id": call.player.id,
        "sender": call.player.username,
        "content": content,
        "timestamp": call.state.now,
    }
    if channel == "local":
        message["system_id"] = call.player.system_id
    if channel == "private":
        message["target_id"] = hearers[0].id
    for hearer in hearers:
        call.state.tell(Event(message, "chat_message", "chat"), hearer)
    call.state.chat.append(message)
    del call.state.chat[:-MOST_KEPT]
    return {"message": "Message sent", "channel": channel, "id": message["id"]}


def _hearers(call: Call, channel: str) -> list[Player]:
    state, sender = call.state, call.player
    if channel == "private":
        target = state.players.get(call.given.get("target_id", ""))
        if target is None:
            raise GameError("invalid_target", "No such captain.")
        return [target]
    others = [state.players[name] for name in state.sessions.online()]
    others.remove(sender)
    if channel == "local":
        return [each for each in others if each.system_id == sender.system_id]
    return others


def _get_chat_history(call: Call) -> Json:
    channel = call.given["channel"]
    heard = [
        each
        for each in call.state.chat
        if each["channel"] == channel and _may_read(call.player, each)
    ]
    return {"channel": channel, "messages": heard[-50:], "count": len(heard[-50:])}


def _may_read(player: Player, message: Json) -> bool:
    if message["channel"] == "local":
        return bool(message["system_id"] == player.system_id)
    if message["channel"] == "private":
        return player.id in (message["sender_id"], message["target_id"])
    return True


CHAT = (
    ask("chat", "social", "Say something to other captains.", _chat,
        "channel", text("content", "What to say", "Hello.", longest=500),
        text("target_id", "Whom, for private", required=False), writes=True),
    ask("get_chat_history", "social", "Read what was said on a channel.",
        _get_chat_history, "channel"),
)  # fmt: skip

# --- Factions


def _brief(faction: Faction) -> Json:
    return {**_FACTION(faction), "member_count": len(faction.members)}


def _faction_info(call: Call) -> Json:
    wanted = call.given.get("faction_id") or call.player.faction_id
    faction = call.state.factions.get(wanted)
    if faction is None:
        raise GameError("invalid_faction", "No such faction. Use 'faction_list'.")
    players = call.state.players
    members = [
        {"player_id": name, "username": players[name].username, "rank": rank}
        for name, rank in faction.members.items()
    ]
    return {**_brief(faction), "members": members, "enemies": list(faction.enemies)}


def _faction_get_invites(call: Call) -> Json:
    every, me = call.state.factions.values(), call.player.id
    invites = [_brief(each) for each in every if me in each.invited]
    return {"invites": invites, "total_count": len(invites)}


def _find_own(call: Call) -> Faction:
    faction = call.state.faction_of(call.player)
    if faction is None:
        raise GameError("not_in_faction", "You are in no faction.")
    return faction


def _find_led(call: Call) -> Faction:
    faction = _find_own(call)
    if faction.members[call.player.id] != LEADER:
        raise GameError("not_leader", "Only the leader can do this.")
    return faction


def _make_faction(call: Call) -> Faction:
    name, tag = call.given["name"].strip(), call.given["tag"].strip().upper()
    if not 3 <= len(name) <= 40 or not 2 <= len(tag) <= 4:
        raise GameError("invalid_name", "A name has 3 to 40 signs, a tag 2 to 4.")
    taken = [each.name.casefold() for each in call.state.factions.values()]
    if name.casefold() in taken:
        raise GameError("name_taken", "There is a faction of this name.")
    return Faction(call.token(), name, tag)


_find_inviting = pick(
    "faction_id", lambda call: call.state.factions.values(), "not_invited",
    "This faction has not invited you.",
    fits=lambda call, faction: call.player.id in faction.invited)  # fmt: skip


def _enter(call: Call, rank: str) -> Json:
    faction, player = call.thing, call.player
    call.state.factions[faction.id] = faction
    faction.invited = [name for name in faction.invited if name != player.id]
    faction.members[player.id] = rank
    player.faction_id = faction.id
    return _FACTION(faction)


def _leave(call: Call) -> Json:
    """A faction without members is no more; a new leader is whoever is left."""
    faction, call.player.faction_id = call.thing, ""
    del faction.members[call.player.id]
    if not faction.members:
        del call.state.factions[faction.id]
    elif LEADER not in faction.members.values():
        faction.members[next(iter(faction.members))] = LEADER
    return {"faction_id": faction.id}


_find_guest = pick(
    "player_id", lambda call: call.state.players.values(), "invalid_target",
    "This captain cannot be invited.",
    fits=lambda call, guest: not guest.faction_id
    and guest.id not in _find_led(call).invited)  # fmt: skip


def _invite(call: Call) -> None:
    faction, me = _find_led(call), call.player
    faction.invited.append(call.thing.id)
    told = {"faction_id": faction.id, "faction_name": faction.name}
    told |= {"inviter_id": me.id, "inviter_name": me.username}
    call.tell(call.thing, "faction_invite", "faction", told)


def _find_enemy(call: Call) -> Faction:
    own = _find_led(call)
    other = call.state.factions.get(call.given["target_faction_id"])
    if other is None or other is own or other.id in own.enemies:
        raise GameError("invalid_target", "No such faction to make war on.")
    return other


def _declare_war(call: Call) -> None:
    own, other = _find_led(call), call.thing
    own.enemies.append(other.id)
    other.enemies.append(own.id)
    told = {"attacker_faction_id": own.id, "attacker_name": own.name}
    members = [call.state.players[name] for name in other.members]
    call.state.tell(Event(told, "faction_war_declared", "faction"), *members)


_UNBOUND = (
    (lambda call: call.player.faction_id, "already_in_faction",
     "Leave your faction first."),
)  # fmt: skip

FACTIONS = (
    ask("faction_list", "faction", "List the factions.", lambda call: {
        "factions": [_brief(each) for each in call.state.factions.values()],
        "total_count": len(call.state.factions)}),
    ask("faction_info", "faction", "See a faction, your own by default.", _faction_info,
        text("faction_id", "The faction's ID", required=False)),
    ask("faction_get_invites", "faction", "List the factions that invite you.",
        _faction_get_invites),
    act("create_faction", "faction", "Found a faction.",
        text("name", "3 to 40 characters", "Long Haul"),
        text("tag", "2 to 4 letters", "HAUL"), names=_make_faction, unless=_UNBOUND,
        changes=lambda call: _enter(call, LEADER)),
    act("join_faction", "faction", "Join a faction that has invited you.",
        text("faction_id", "The faction's ID, from faction_list", "faction_id"),
        names=_find_inviting, unless=_UNBOUND,
        changes=lambda call: _enter(call, MEMBER)),
    act("leave_faction", "faction", "Leave your faction.", names=_find_own, changes=_leave),
    act("faction_invite", "faction", "Invite a captain into your faction.",
        text("player_id", "The captain's ID", "player_id"), names=_find_guest,
        changes=_invite),
    act("faction_declare_war", "faction", "Declare war on another faction.",
        text("target_faction_id", "The other faction's ID", "faction_id"),
        names=_find_enemy, changes=_declare_war),
)  # fmt: skip

# --- Notes and the forum


def _create_note(call: Call) -> Json:
    if len(call.player.notes) >= MOST_NOTES:
        raise GameError("too_many_notes", f"At most {MOST_NOTES} notes.")
    title, content = call.given["title"], call.given["content"]
    note = Note(call.token(), title, content, call.state.now)
    call.player.notes.append(note)
    return {"message": "Note created", "note_id": note.id, "title": note.title}


_find_note = pick("note_id", lambda call: call.player.notes, "invalid_note",
                  "No such note. Use 'get_notes'.")  # fmt: skip


def _write_note(call: Call) -> Json:
    note = _find_note(call)
    note.content = call.given["content"]
    return {"message": "Note written", "note_id": note.id}


def _get_notes(call: Call) -> Json:
    """As recorded: null where there are none."""
    listed = [_NOTE_LINE(each) for each in call.player.notes]
    return {"notes": listed or None, "total_count": len(listed)}


def _forum_create_thread(call: Call) -> Json:
    token, me = call.token(), call.player.username
    thread = Thread(token, call.given["title"], me, call.state.now)
    threads = call.state.threads
    threads[thread.id] = thread
    while len(threads) > MOST_THREADS:
        del threads[next(iter(threads))]
    return {**_post(call, thread), "message": "Thread created"}


def _post(call: Call, thread: Thread) -> Json:
    post = {"author": call.player.username, "content": call.given["content"]}
    thread.posts.append(post | {"created_at": call.state.now})
    return {"message": "Reply posted", "thread_id": thread.id}


_find_thread = pick("thread_id", lambda call: call.state.threads.values(),
                    "invalid_thread", "No such thread. Use 'forum_list'.")  # fmt: skip


def _heading(thread: Thread) -> Json:
    return {**_THREAD_LINE(thread), "reply_count": len(thread.posts) - 1}


def _forum_get_thread(call: Call) -> Json:
    thread = _find_thread(call)
    return {**_heading(thread), "posts": list(thread.posts)}


def _captains_log_delete(call: Call) -> Json:
    index, log = call.given["index"], call.player.log
    if not 0 <= index < len(log):
        raise GameError("invalid_index", f"No log entry at index {index}.")
    del log[index]
    return {"message": "Log entry deleted", "index": index}


TEXTS = (
    ask("get_notes", "notes", "List your notes.", _get_notes),
    ask("read_note", "notes", "Read a note.",
        lambda call: _NOTE_VIEW(_find_note(call)), "note_id"),
    ask("create_note", "notes", "Note a text.", _create_note, "title", "content",
        writes=True),
    ask("write_note", "notes", "Replace the text of a note.", _write_note,
        "note_id", "content", example={"content": "Iron is dear now."}, writes=True),
    ask("forum_list", "forum", "List the threads of the forum, newest first.",
        lambda call: {
            "threads": [_heading(each) for each in
                        reversed(call.state.threads.values())],
            "total_count": len(call.state.threads)}),
    ask("forum_get_thread", "forum", "Read a thread.", _forum_get_thread,
        "thread_id"),
    ask("forum_create_thread", "forum", "Start a thread.", _forum_create_thread,
        "title", "content", writes=True),
    ask("forum_reply", "forum", "Reply to a thread.",
        lambda call: _post(call, _find_thread(call)),
        "thread_id", "content", example={"content": "Not any more."}, writes=True),
    ask("captains_log_delete", "log", "Delete an entry of your captain's log.",
        _captains_log_delete, "index", writes=True),
)  # fmt: skip

# --- Looks


def _set_status(call: Call) -> Json:
    status = call.given["status_message"].strip()
    if len(status) > LONGEST_STATUS:
        raise GameError("invalid_status", f"At most {LONGEST_STATUS} characters.")
    call.player.looks.status_message = status
    return {"message": "Status updated", "status_message": status}


def _set_colors(call: Call) -> Json:
    given, looks = call.given, call.player.looks
    if not all(_COLOR.fullmatch(value) for value in given.values()):
        raise GameError("invalid_color", "Colors are given as #RRGGBB.")
    looks.primary_color = given["primary_color"]
    looks.secondary_color = given["secondary_color"]
    return {"message": "Colors updated", **given}


def _set_anonymous(call: Call) -> Json:
    call.player.looks.anonymous = call.given["anonymous"]
    return {"message": "Updated", "anonymous": call.given["anonymous"]}


LOOKS = (
    ask("set_status", "settings", "Set the line that others see beside your name.",
        _set_status, text("status_message", "The line", "Hauling iron"), writes=True),
    ask("set_colors", "settings", "Set your colors.", _set_colors,
        text("primary_color", "#RRGGBB", "#FFAA00"),
        text("secondary_color", "#RRGGBB", "#001122"), writes=True),
    ask("set_anonymous", "settings", "Hide your name, or show it again.",
        _set_anonymous, flag("anonymous", "True to hide"), writes=True),
)  # fmt: skip
