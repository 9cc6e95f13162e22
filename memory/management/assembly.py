"""``assemble`` without Django: it must start fast and needs no database.

``manage.py`` calls `main` before it sets anything up.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from memory.context.assemble import assemble
from memory.context.documents import build_result_document, parse_request
from memory.gamestate.document import StateBlock
from memory.json_bounds import JsonBounds, TooDeepJsonError, TooMuchJsonError

HELP = "Assemble a message history as a model would be sent it. Stores nothing."
BAD_INPUT = 2
INTERRUPTED = 130
# Bytes of one document, which takes gigabytes while it is worked on; and what it holds,
# four times what REST takes.
LARGEST = 256 * 1024 * 1024
BOUNDS = JsonBounds(containers=800_000, messages=400_000, values=8_000_000)
_TOO_LARGE = "the document is too large for this machine"


class InputError(Exception):
    """Input that is not of the form; one line that names what is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split()))


class OutputError(Exception):
    """The result cannot be written; one line that says why."""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; {self.prog} --help tells more\n")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="the JSON document; - for standard input"
    )
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help="one document per line in; per line out its result or an error",
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command on these arguments; the exit status."""
    parser = _Parser(prog="manage.py assemble", description=HELP)
    add_arguments(parser)
    given = parser.parse_args(arguments)
    return assemble_file(given.file, jsonl=given.jsonl)


def assemble_file(file: str, *, jsonl: bool) -> int:
    """Write the result to standard output; 0, or 2 after one line of error."""
    try:
        with _opened(file) as source:
            _answer(source, jsonl)
    except InputError as error:
        return _refuse(str(error))
    except MemoryError:
        return _refuse(_TOO_LARGE)
    except BrokenPipeError:
        _drop_output()  # the reader has seen enough
        return 0
    except OutputError as error:
        _drop_output()
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{file}: {error.strerror or error}")
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _opened(file: str) -> IO[bytes]:
    if file != "-":
        return Path(file).open("rb")
    if sys.stdin is None:
        raise InputError("standard input is closed")
    return sys.stdin.buffer


def _drop_output() -> None:
    """Keep what is left to be written from failing again when Python ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(text: str) -> int:
    line = f"manage.py assemble: {' '.join(text.split())}\n"
    if sys.stderr is not None:
        sys.stderr.buffer.write(line.encode("utf-8", "backslashreplace"))
        sys.stderr.buffer.flush()
    return BAD_INPUT


def _answer(source: IO[bytes], jsonl: bool) -> None:
    if not jsonl:
        _write(assemble_json(source.read(LARGEST + 1)))
        return
    for line in _lines(source):
        try:
            result = assemble_json(line)
        except InputError as error:
            result = {"error": str(error)}
        _write(result)


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    """Every line; of one that is too long only enough to see that."""
    while line := source.readline(LARGEST + 1):
        yield line
        while len(line) > LARGEST and not line.endswith(b"\n"):
            line = source.readline(LARGEST + 1)


def assemble_json(data: bytes) -> dict[str, Any]:
    """The result for one document; InputError where it is not of the form."""
    try:
        return build_result_document(assemble(parse_request(_load(data), StateBlock)))
    except MemoryError:
        raise InputError(_TOO_LARGE) from None
    except (RecursionError, TooDeepJsonError):
        raise InputError("the document is nested too deeply") from None
    except ValueError as error:
        raise InputError(str(error)) from None


def _load(data: bytes) -> object:
    if len(data) > LARGEST:
        raise InputError(
            f"the document has more than {LARGEST:,} bytes; give fewer messages"
        )
    try:
        BOUNDS.check(data)
    except TooMuchJsonError as error:
        raise InputError(f"the document holds {error}; give fewer") from None
    try:
        text = data.decode("utf-8-sig", "surrogatepass")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}") from None
    if not text.strip():
        raise InputError("nothing came; give one JSON object")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InputError(f"not JSON: {error.msg} at {where}") from None


def _no_constant(name: str) -> NoReturn:
    raise InputError(f"not JSON: {name} is no JSON number")


def _write(result: dict[str, Any]) -> None:
    # In ASCII: some readers also break lines at U+2028 and the like.
    line = json.dumps(result).encode("ascii") + b"\n"
    if sys.stdout is None:
        raise OutputError("standard output is closed")
    try:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: {error.strerror or error}") from None
