"""A file with a history, whichever of the known formats it is in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .chat import Reader
from .line import Line, TransferError
from .masking import masked
from .nova import MAGIC, Nova

LARGEST_DOCUMENT = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A readable history: each of its messages, as often as asked.

    ``secrets`` are texts that must not come in, beside those that it names itself.
    """

    path: Path
    format: str
    owner: str = ""
    secrets: frozenset[str] = frozenset()

    def lines(self) -> Iterator[Line]:
        """The messages, without secrets; raises TransferError that says where."""
        if self.is_nova:
            yield from self._nova()
            return
        reader = Reader()
        for place, value in _values(self.path, self.format):
            try:
                line = reader.read(value)
            except TransferError as error:
                raise TransferError(f"{place}: {error}") from None
            yield masked(line, self.secrets)

    @property
    def is_nova(self) -> bool:
        """Whether it is a database of the original program."""
        return self.format == "nova"

    def _nova(self) -> Iterator[Line]:
        with closing(Nova(self.path)) as base:
            secrets = base.passwords() | self.secrets
            for line in base.lines(self.owner):
                yield masked(line, secrets)


def open_source(path: Path, *, name: str, wanted: str = "") -> Source:
    """Find out what a file is. Raises TransferError, OSError.

    Of a database with several Myses ``wanted`` is read, else the one called
    ``name``, else the only one.
    """
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if head == MAGIC:
        return Source(path, "nova", _owner(path, name, wanted))
    if wanted:
        raise TransferError("--from is for databases; this file is none")
    return Source(path, _kind(path))


def _owner(path: Path, name: str, wanted: str) -> str:
    base = Nova(path)
    try:
        names = base.names()
    finally:
        base.close()
    for searched in filter(None, (wanted, "" if wanted else name)):
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


def _kind(path: Path) -> str:
    """Whether each line is JSON ("lines") or the whole file is ("document")."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
    if not first:
        raise TransferError("is empty")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return "document"
    return "lines" if isinstance(value, dict) else "document"


def _values(path: Path, kind: str) -> Iterator[tuple[str, Any]]:
    if kind == "document":
        yield from _messages(_document(path), "message")
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield from _messages(_json(line, f"line {number}"), f"line {number}")


def _messages(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """A message, or the messages of a chat, each with its place in words."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if not isinstance(value, list):
        yield place, value
        return
    for number, item in enumerate(value, 1):
        yield f"{place} {number}" if place == "message" else place, item


def _document(path: Path) -> Any:
    if path.stat().st_size > LARGEST_DOCUMENT:
        raise TransferError("is too large for one document: give one message a line")
    return _json(path.read_bytes(), "the file")


def _json(data: bytes, place: str) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise TransferError(f"{place}: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise TransferError(f"{place}: not JSON: {error.msg} at {where}") from None
    except (ValueError, RecursionError) as error:
        raise TransferError(f"{place}: not JSON that can be read: {error}") from None
