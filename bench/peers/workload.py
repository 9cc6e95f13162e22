"""What every store is given, and how it is timed; the standard library only.

Each store's program hands a `Store` to `run`, in an environment of its own. It is started
twice for each length: with ``fill``, which is not timed, and with ``measure``. Both end
with one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from random import Random
from typing import Any
from uuid import UUID, uuid5

SEED = 20_260_205
NAMESPACE = UUID("6a1f1d0c-6a0e-5f0b-9f43-2c1d9f0e7a11")
MESSAGES_A_TURN = 2
RESULT_BYTES = 800
VOCABULARY = 2_000
TOOLS = ("mine", "get_status", "view_market", "travel")

WORDS = {"rare": "quartzglow", "medium": "ironhollow"}
#: The turns with the rare word: a few in a history of any length, most of them old.
RARE_IN = frozenset({3, 30, 300, 3_000, 30_000})
#: The medium word is in one result of so many.
MEDIUM_EACH = 20
#: How many of the newest messages a context is asked for, and hits of a search.
NEWEST, HITS = 50, 20
SEARCHED_FROM = 1_000

REPEATS, SEARCH_REPEATS = 40, 20
LEAST_REPEATS = 3
#: A history may grow by this share while it is measured; then the next copy is taken.
GROWTH = 0.1

Cells = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Turn:
    """A call of one tool and its result; ``arguments`` and ``result`` are JSON texts."""

    number: int
    tool: str
    arguments: str
    result: str

    @property
    def call_id(self) -> str:
        return f"call_{self.number}"


class Store:
    """One library's store of conversations, met as its users meet it."""

    #: The distributions whose versions are reported.
    packages: tuple[str, ...] = ()

    def create(self) -> None:
        """Make the tables, where they are not there."""

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        """Store a new conversation, by the fastest way that the library has."""
        raise NotImplementedError

    def open(self, conversation: str) -> None:
        """Go on with a conversation: what follows is about this one."""
        raise NotImplementedError

    def append(self, turn: Turn) -> None:
        """Store a turn, as the library's own runtime does."""
        raise NotImplementedError

    def fetch(self) -> int:
        """Read what the next call of a model is made of; how many messages."""
        raise NotImplementedError

    def settle(self) -> None:
        """Do what comes between a context and its answer; not timed."""

    def search(self, word: str) -> int:
        """Find the newest messages with a word; how many."""
        raise NotImplementedError

    @property
    def searches(self) -> bool:
        """Whether the library has a search of messages at all."""
        return type(self).search is not Store.search

    def close(self) -> None:
        """Close the connections."""


# --- The history


def make_turn(number: int) -> Turn:
    """The turn of this number, the same each time and in a history of any length."""
    dice = Random(f"{SEED}-{number}")  # noqa: S311 (it is to be repeatable)
    tool = TOOLS[number % len(TOOLS)]
    said = [WORDS["rare"]] if number in RARE_IN else []
    said += [WORDS["medium"]] if number % MEDIUM_EACH == 0 else []
    document = {"tick": number, "tool": tool, "credits": dice.randrange(10**6)}
    room = RESULT_BYTES - len(json.dumps(document | {"message": ""}))
    while len(" ".join(said)) < room:
        said.append(make_word(dice.randrange(VOCABULARY)))
    return Turn(
        number=number,
        tool=tool,
        arguments=json.dumps({"target": make_word(dice.randrange(VOCABULARY))}),
        result=json.dumps(document | {"message": " ".join(said)}),
    )


def make_word(rank: int) -> str:
    """The word of a rank; none of them is one of `WORDS`."""
    syllables = ("ka", "ro", "mi", "te", "su", "no", "va", "li", "pe", "du")
    return "".join(syllables[int(digit)] for digit in str(rank))


def make_turns(length: int) -> Iterable[Turn]:
    """The turns of a history of so many messages."""
    return map(make_turn, range(length // MESSAGES_A_TURN))


def name_conversation(length: int, copy: int) -> str:
    """The id of a conversation; a UUID, since one of the libraries takes no other."""
    return str(uuid5(NAMESPACE, f"{length}-{copy}"))


def count_copies(length: int) -> int:
    """How many histories of a length are needed, so that none grows by much."""
    return max(1, round(REPEATS * MESSAGES_A_TURN / (length * GROWTH)))


# --- The measurement


def fill(store: Store, length: int) -> dict[str, Any]:
    """Store the histories of one length."""
    begun = time.perf_counter()
    store.create()
    for copy in range(count_copies(length)):
        store.fill(name_conversation(length, copy), make_turns(length))
    return {"seconds": time.perf_counter() - begun}


def measure(store: Store, length: int, seconds: float) -> Cells:
    """Each cell's median milliseconds, within about so many seconds for a cell.

    What takes long gets up to `LEAST_REPEATS` times that, and one run at least.
    """
    cells = measure_turns(store, length, seconds)
    if length >= SEARCHED_FROM and store.searches:
        store.open(name_conversation(length, 0))
        for name, word in WORDS.items():
            cells[name] = _guarded(partial(_time_search, store, word, seconds))
    return cells


def measure_turns(store: Store, length: int, seconds: float) -> Cells:
    """Fetch a context, append a turn, and so on, as an agent does."""
    fetched: list[float] = []
    appended: list[float] = []
    messages, failed = 0, ""
    try:
        for turn in _open_copies(store, length):
            took, messages = _time(store.fetch)
            fetched.append(took)
            store.settle()
            appended.append(_time(partial(store.append, turn))[0])
            if _is_enough(fetched, seconds) or _is_enough(appended, seconds):
                break
            if turn.number == length // MESSAGES_A_TURN:
                # The first of each copy is to warm up, unless it is all there is.
                fetched.pop()
                appended.pop()
    except Exception as error:
        failed = _describe(error)
    return {
        "append": {"error": failed} if failed else _cell(appended),
        "context": _cell(fetched) | {"messages": messages}
        if fetched
        else {"error": failed},
    }


def _open_copies(store: Store, length: int) -> Iterator[Turn]:
    """The turns that are added to the copies, one copy after the other."""
    first, copies = length // MESSAGES_A_TURN, count_copies(length)
    for copy in range(copies):
        store.open(name_conversation(length, copy))
        yield from map(make_turn, range(first, first + 1 + max(1, REPEATS // copies)))


def _is_enough(samples: Sequence[float], seconds: float) -> bool:
    """Whether the time is up; what takes long gets some runs all the same."""
    bound = seconds if len(samples) >= LEAST_REPEATS else seconds * LEAST_REPEATS
    return sum(samples) > bound


def _time_search(store: Store, word: str, seconds: float) -> dict[str, Any]:
    samples: list[float] = []
    hits = 0
    # The first is to warm up, unless it is all there is.
    while len(samples) <= SEARCH_REPEATS and not _is_enough(samples, seconds):
        took, hits = _time(partial(store.search, word))
        samples.append(took)
    return _cell(samples[1:] or samples) | {"messages": hits}


def _guarded(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return work()
    except Exception as error:
        return {"error": _describe(error)}


def _time(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def _cell(samples: Sequence[float]) -> dict[str, Any]:
    return {"ms": statistics.median(samples) * 1000, "repeats": len(samples)}


def _describe(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:300]


# --- The command line of a store's program


def run(make_store: Callable[..., Store], words: Sequence[str]) -> dict[str, Any]:
    """Do what the words say: stage, address, length, seconds and the store's options."""
    stage, url, length, seconds, *options = words
    store = make_store(url, *options)
    try:
        if stage == "fill":
            return fill(store, int(length))
        cells = measure(store, int(length), float(seconds))
        versions = {name: version(name) for name in store.packages}
        return {"cells": cells, "versions": versions}
    finally:
        store.close()


def main(make_store: Callable[..., Store]) -> None:
    """Run a store's program; its result is the last line."""
    result = run(make_store, sys.argv[1:])
    sys.stdout.write(f"{json.dumps(result)}\n")


def chat_messages(turn: Turn) -> list[dict[str, Any]]:
    """The two messages of a turn in the OpenAI chat form."""
    function = {"name": turn.tool, "arguments": turn.arguments}
    call = {"id": turn.call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": turn.call_id, "content": turn.result},
    ]
