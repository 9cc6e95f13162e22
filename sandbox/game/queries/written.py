"""Notes of one's own, and the forum of all."""

from __future__ import annotations

from sandbox.game.errors import GameError
from sandbox.game.holdings import Note, Thread
from sandbox.game.queries.call import Call, Json
from sandbox.game.stamps import rfc3339

MOST_NOTES = 20
MOST_THREADS = 50


def create_note(call: Call) -> Json:
    if len(call.player.notes) >= MOST_NOTES:
        raise GameError("too_many_notes", f"At most {MOST_NOTES} notes.")
    note = Note(
        call.state.sources.token(16),
        call.arguments["title"],
        call.arguments["content"],
        _now(call),
    )
    call.player.notes.append(note)
    return {"message": "Note created", "note_id": note.id, "title": note.title}


def _now(call: Call) -> str:
    return rfc3339(call.state.sources.now_ns())


def _note(call: Call) -> Note:
    for note in call.player.notes:
        if note.id == call.arguments["note_id"]:
            return note
    raise GameError("invalid_note", "No such note. Use 'get_notes'.")


def write_note(call: Call) -> Json:
    note = _note(call)
    note.content = call.arguments["content"]
    return {"message": "Note written", "note_id": note.id}


def read_note(call: Call) -> Json:
    note = _note(call)
    return {"note_id": note.id, "title": note.title, "content": note.content}


def get_notes(call: Call) -> Json:
    """As recorded: null where there are none."""
    listed = [
        {"note_id": one.id, "title": one.title, "created_at": one.created_at}
        for one in call.player.notes
    ]
    return {"notes": listed or None, "total_count": len(listed)}


def forum_create_thread(call: Call) -> Json:
    thread = Thread(
        call.state.sources.token(16),
        call.arguments["title"],
        call.player.username,
        _now(call),
    )
    threads = call.state.threads
    threads[thread.id] = thread
    while len(threads) > MOST_THREADS:
        del threads[next(iter(threads))]
    _post(call, thread)
    return {"message": "Thread created", "thread_id": thread.id}


def _post(call: Call, thread: Thread) -> None:
    post = {"author": call.player.username, "content": call.arguments["content"]}
    thread.posts.append(post | {"created_at": _now(call)})


def _thread(call: Call) -> Thread:
    thread = call.state.threads.get(call.arguments["thread_id"])
    if thread is None:
        raise GameError("invalid_thread", "No such thread. Use 'forum_list'.")
    return thread


def forum_reply(call: Call) -> Json:
    thread = _thread(call)
    _post(call, thread)
    return {"message": "Reply posted", "thread_id": thread.id}


def forum_list(call: Call) -> Json:
    """The newest threads first."""
    listed = [_heading(one) for one in reversed(call.state.threads.values())]
    return {"threads": listed, "total_count": len(listed)}


def _heading(thread: Thread) -> Json:
    return {
        "thread_id": thread.id,
        "title": thread.title,
        "author": thread.author,
        "created_at": thread.created_at,
        "reply_count": len(thread.posts) - 1,
    }


def forum_get_thread(call: Call) -> Json:
    thread = _thread(call)
    return {**_heading(thread), "posts": list(thread.posts)}
