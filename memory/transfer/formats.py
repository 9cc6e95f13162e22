"""Files with histories: our own export, chats in OpenAI's form, databases of Zoea Nova."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from memory.context.types import ORIGINS, ROLES
from memory.gamestate.values import repair_text
from memory.json_bounds import JsonBounds, TooDeepJsonError, TooMuchJsonError
from memory.redaction import hide_secrets
from memory.transfer.line import (
    TransferError,
    TransferMessage,
    TransferNote,
    find_default_origin,
    make_call,
    mask_message,
    parse_moment,
    parse_object,
    parse_tick,
)
from memory.transfer.nova import MAGIC, NovaDatabase

# Roles that other programs use for the same.
SYNONYMS = {"developer": "system", "function": "tool"}
LONGEST_NAME = 200
LARGEST_DOCUMENT = 512 * 1024 * 1024
# A line may be a whole chat.
LONGEST_LINE = 64 * 1024 * 1024
MOST_LINES = 1_000_000
# What a line or document holds: as many messages, of which every second calls a tool.
BOUNDS = JsonBounds(containers=3_000_000, messages=MOST_LINES, values=12_000_000)


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A readable history, which can be read more than once.

    ``secrets`` are texts that must not come in, beside those that it names itself.
    """

    path: Path
    format: str
    owner: str = ""
    secrets: frozenset[str] = frozenset()

    def read_lines(
        self, notes: list[TransferNote] | None = None
    ) -> Iterator[TransferMessage]:
        """The messages without secrets; raises TransferError that says where.

        What else it holds goes to the ``notes``, where there are any to fill.
        """
        if self.is_nova:
            with closing(NovaDatabase(self.path)) as base:
                secrets = base.read_passwords() | self.secrets
                for line in base.read_lines(self.owner):
                    yield mask_message(line, secrets)
            return
        reader = MessageReader()
        for place, value in _read_values(self.path, self.format):
            if _is_note(value):
                if notes is not None:
                    notes.append(_read_note(value["note"], place, self.secrets))
                continue
            try:
                line = reader.read_message(value)
            except TransferError as error:
                raise TransferError(f"{place}: {error}") from None
            yield mask_message(line, self.secrets)

    @property
    def is_nova(self) -> bool:
        """Whether it is a database of the original program."""
        return self.format == "nova"


def open_history(path: Path, *, name: str, wanted: str = "") -> HistoryFile:
    """Detect what a file is; raises TransferError, OSError.

    Of a database with several Myses ``wanted`` is read, else the one called ``name``,
    else the only one.
    """
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if head == MAGIC:
        return HistoryFile(path, "nova", _find_owner(path, name, wanted))
    if wanted:
        raise TransferError("--from is for databases; this file is none")
    return HistoryFile(path, _detect_kind(path))


def _find_owner(path: Path, name: str, wanted: str) -> str:
    with closing(NovaDatabase(path)) as base:
        names = base.read_names()
    searched = wanted or name
    for same in (str.__eq__, lambda a, b: a.casefold() == b.casefold()):
        found = [
            key
            for key, known in names.items()
            if same(known, searched) or key == searched
        ]
        if len(found) == 1:
            return found[0]
    if len(names) == 1 and not wanted:
        return next(iter(names))
    listed = ", ".join(sorted(names.values())) or "none"
    raise TransferError(f"say with --from which Mysis of it to take: {listed}")


def _detect_kind(path: Path) -> str:
    """Whether each line is JSON ("lines") or the whole file is ("document")."""
    with path.open("rb") as file:
        first = next((line for line in _read_lines(file) if line.strip()), b"")
    if not first:
        raise TransferError("is empty")
    try:
        BOUNDS.check(first)
        return "lines" if isinstance(json.loads(first), dict) else "document"
    except (ValueError, RecursionError):
        return "document"


def _read_values(path: Path, kind: str) -> Iterator[tuple[str, Any]]:
    if kind == "document":
        if path.stat().st_size > LARGEST_DOCUMENT:
            raise TransferError(
                "is too large for one document: give one message a line"
            )
        yield from _split_chat(_parse_json(path.read_bytes(), "the file"), "message")
        return
    with path.open("rb") as file:
        for number, line in enumerate(_read_lines(file), 1):
            place = f"line {number}"
            if len(line) > LONGEST_LINE:
                raise TransferError(f"{place}: longer than {LONGEST_LINE:,} bytes")
            if number > MOST_LINES:
                raise TransferError(f"has more than {MOST_LINES:,} lines: split it")
            if line.strip():
                yield from _split_chat(_parse_json(line, place), place)


def _read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long no more than tells so."""
    return iter(lambda: file.readline(LONGEST_LINE + 1), b"")


def _split_chat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """A message, or the messages of a chat, each with its place in words."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if not isinstance(value, list):
        yield place, value
        return
    if len(value) > MOST_LINES:
        where = "" if place == "message" else f"{place}: "
        raise TransferError(f"{where}has more than {MOST_LINES:,} messages: split it")
    for number, item in enumerate(value, 1):
        yield f"{place} {number}" if place == "message" else place, item


def _parse_json(data: bytes, place: str) -> Any:
    try:
        BOUNDS.check(data)
        return json.loads(data.decode("utf-8-sig"))
    except TooMuchJsonError as error:
        raise TransferError(f"{place}: holds {error}: split it") from None
    except TooDeepJsonError as error:
        raise TransferError(f"{place}: {error}") from None
    except UnicodeDecodeError as error:
        raise TransferError(f"{place}: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise TransferError(f"{place}: not JSON: {error.msg} at {where}") from None
    except (ValueError, RecursionError) as error:
        raise TransferError(f"{place}: not JSON that can be read: {error}") from None


def _is_note(value: object) -> bool:
    """Whether a line of an export is a note; a message has a role."""
    return isinstance(value, Mapping) and "note" in value and "role" not in value


def _read_note(value: object, place: str, secrets: Collection[str]) -> TransferNote:
    given = value if isinstance(value, Mapping) else {}
    try:
        name, text, by = (_read_text(given, key) for key in ("name", "text", "by"))
    except TransferError as error:
        raise TransferError(f"{place}: note.{error}") from None
    if not name.strip() or not text.strip():
        raise TransferError(f"{place}: a note must have a name and a text")
    written_at = parse_moment(given.get("updated_at"))
    return TransferNote(
        hide_secrets(name, secrets), hide_secrets(text, secrets), by, written_at
    )


# --- One message of JSON


class MessageReader:
    """Reads messages in their order; results get the name of their call."""

    def __init__(self) -> None:
        self._count = 0
        self._calls: dict[str, dict[str, Any]] = {}
        self._last = ""

    def read_message(self, value: object) -> TransferMessage:
        """One message; raises TransferError that names the field."""
        if not isinstance(value, Mapping):
            raise TransferError("a message must be a JSON object")
        self._count += 1
        given = {str(key): item for key, item in value.items()}
        role = _read_role(given.get("role"))
        calls = self._read_calls(given) if role == "assistant" else []
        call_id = _read_text(given, "tool_call_id") or (
            self._last if role == "tool" else ""
        )
        call = self._calls.get(call_id, {}) if role == "tool" else {}
        tool, name = _read_text(given, "tool_name"), _read_text(given, "name")
        own, sender = given.get("args"), _read_text(given, "sender") or name
        tool = tool or name or call.get("name", "")
        return TransferMessage(
            role=role,
            origin=_read_origin(given.get("origin"), role),
            content=_read_content(given),
            sender="" if role == "tool" else sender[:LONGEST_NAME],
            reasoning=_read_text(given, "reasoning")
            or _read_text(given, "reasoning_content"),
            signature=_read_text(given, "signature"),
            tool_calls=calls,
            tool_call_id=call_id[:LONGEST_NAME],
            tool_name=tool[:LONGEST_NAME] if role == "tool" else "",
            args=parse_object(call.get("arguments", "") if own is None else own),
            is_error=given.get("is_error") is True,
            pending=role == "tool" and given.get("pending") is True,
            tick=parse_tick(given.get("tick")),
            created_at=parse_moment(given.get("created_at", given.get("timestamp"))),
            broadcast_at=parse_moment(
                parse_object(given.get("broadcast")).get("created_at")
            ),
            taken_back=given.get("taken_back") is True,
        )

    def _read_calls(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        raw = given.get("tool_calls") or []
        if isinstance(given.get("function_call"), Mapping):
            raw = [{"function": given["function_call"]}]
        if not isinstance(raw, list):
            raise TransferError("tool_calls must be a list")
        calls = [self._read_call(item, place) for place, item in enumerate(raw)]
        for call in calls:
            self._calls[call["id"]] = call["function"]
            self._last = call["id"]
        return calls

    def _read_call(self, item: object, place: int) -> dict[str, Any]:
        given = item if isinstance(item, Mapping) else {}
        function = given.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str):
            raise TransferError("a tool call must have a function with a name")
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        known = given.get("id") or f"imported_{self._count}_{place}"
        return make_call(
            repair_text(str(known))[:LONGEST_NAME],
            repair_text(name),
            repair_text(arguments),
        )


def _read_role(value: object) -> str:
    role = SYNONYMS.get(str(value), value)
    if role not in ROLES:
        raise TransferError(f"role {value!r} is not one of {', '.join(ROLES)}")
    return str(role)


def _read_origin(value: object, role: str) -> str:
    if value is None:
        return find_default_origin(role)
    if value not in ORIGINS:
        raise TransferError(f"origin {value!r} is not one of {', '.join(ORIGINS)}")
    return str(value)


def _read_content(given: Mapping[str, Any]) -> str:
    """The text of a content; parts that are no text are named instead."""
    content = given.get("content")
    if content is None:
        content = given.get("refusal") or ""
    if isinstance(content, list):
        content = "\n".join(_read_part(item) for item in content)
    if not isinstance(content, str):
        raise TransferError("content must be a text, a list of parts, or null")
    return repair_text(content)


def _read_part(item: object) -> str:
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        raise TransferError("a part of a content must be an object")
    text = item.get("text", item.get("refusal"))
    return text if isinstance(text, str) else f"[{item.get('type')}, not imported]"


def _read_text(given: Mapping[str, Any], field: str) -> str:
    value = given.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TransferError(f"{field} must be a text")
    return repair_text(value)
