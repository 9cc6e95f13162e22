"""What a demo fleet costs: its start, its memory, its page and its model calls.

It is run by ``manage.py up`` in a folder of its own. The baseline is the same machine,
database and framework without a fleet; that of the calls is the whole stored history.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.figures import Figure, Step
from bench.processes import (
    PYTHON,
    ROOT,
    Process,
    clean_environment,
    measure_memory,
    process_tree,
)
from bench.visitor import Visitor, Weight, weigh_page
from zoea.postgres import DATABASE, USER, acquire, socket_directory

START_TARGET = 20.0
PAGE_TARGET = 300_000
STEPS = 7
LINK = "Dashboard: "
LINK_SECONDS = 60.0
TURN_SECONDS = 60.0
STOP_SECONDS = 20.0
FIRST_TURN = "SELECT min(finished_at) FROM agents_turn WHERE outcome = 'done'"
LOADED = "import sys, zoea.asgi; print('loaded', flush=True); sys.stdin.read()"
API = "/api/v1"

Message = Mapping[str, Any]


class FleetError(Exception):
    """The fleet did not do what was to be measured."""


def measure(play: int, step: Step) -> tuple[list[Figure], list[Process]]:
    """Run a fleet for ``play`` seconds; its figures and its processes.

    Every second of play is a step of its own.
    """
    step("Measuring the baseline")
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        before = measure_bare(Path(folder) / "before")
        step("Starting a demo fleet")
        with run_fleet(Path(folder) / "fleet") as fleet:
            answered = fleet.wait_for_link()
            finished = fleet.wait_for_turn()
            for second in range(play):
                step(f"Letting it play, {play - second} s to go")
                time.sleep(1)
            step("Weighing the memory")
            processes = measure_memory([fleet.pid])
            step("Weighing the fleet page")
            visitor = Visitor(fleet.link)
            visitor.get(fleet.link)
            weight = weigh_page(visitor, "/")
            step("Reading what the models were sent")
            sizes = measure_contexts(visitor)
            step("Stopping the fleet")
            fleet.stop()
        step("Measuring the baseline again")
        after = measure_bare(Path(folder) / "after")
    # Whatever else the machine did, the quicker of the two was hindered less.
    plain = min(before, after, key=lambda each: each.seconds)
    figures = [_answer_figure(answered, plain), _turn_figure(finished, plain)]
    figures += [
        _memory_figure(processes, plain),
        _page_figure(weight),
        *_context_figures(sizes),
    ]
    return figures, processes


def _answer_figure(seconds: float, plain: Bare) -> Figure:
    return Figure(
        "dashboard answers",
        seconds,
        "s",
        baseline=plain.seconds,
        baseline_is="initdb, migrate and loading Django, by themselves",
    )


def _turn_figure(seconds: float, plain: Bare) -> Figure:
    return Figure(
        "first finished turn",
        seconds,
        "s",
        baseline=plain.seconds,
        baseline_is="initdb, migrate and loading Django, by themselves",
        target=START_TARGET,
        note="manage.py up, warm .venv, empty data folder",
    )


def _memory_figure(processes: list[Process], plain: Bare) -> Figure:
    return Figure(
        "memory of the fleet (PSS)",
        sum(process.pss for process in processes),
        "bytes",
        baseline=plain.pss,
        baseline_is="one loaded Django and an idle PostgreSQL",
        note=f"{len(processes)} processes",
    )


def _page_figure(weight: Weight) -> Figure:
    return Figure(
        "page /",
        weight.sent,
        "bytes",
        baseline=weight.plain,
        baseline_is="the same without compression",
        target=PAGE_TARGET,
        note=f"HTML and all it loads, {weight.requests} requests",
    )


def _context_figures(sizes: Sizes) -> list[Figure]:
    of_history = "the whole stored history in place of each view"
    return [
        Figure(
            "last model call (mean)",
            sizes.last_sent / max(sizes.myses, 1),
            "bytes",
            baseline=sizes.last_full / max(sizes.myses, 1),
            baseline_is=of_history,
        ),
        Figure(
            "all model calls",
            sizes.sent,
            "bytes",
            baseline=sizes.full,
            baseline_is=of_history,
            note=f"{sizes.calls} calls in {sizes.turns} turns",
        ),
        Figure(
            "model calls in a turn",
            sizes.calls / max(sizes.turns, 1),
            "",
            baseline=1,
            baseline_is="one call that answers at once",
        ),
    ]


# --- The baseline


@dataclass(frozen=True)
class Bare:
    """``seconds`` until all was loaded, ``pss`` bytes of one Django and PostgreSQL."""

    seconds: float
    pss: int


def measure_bare(data: Path) -> Bare:
    """Make an empty database, migrate it and load Django, one after the other."""
    started = time.monotonic()
    with acquire(data) as server:
        manage = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity=0"]
        subprocess.run(
            manage, cwd=ROOT, env=clean_environment(data), check=True, timeout=60
        )
        django = subprocess.Popen(
            [*PYTHON, "-c", LOADED],
            cwd=ROOT,
            env=clean_environment(data),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert django.stdout is not None
            if not django.stdout.readline():
                raise RuntimeError("Django could not be loaded for the baseline.")
            seconds = time.monotonic() - started
            processes = measure_memory([django.pid, server.pid or django.pid])
        finally:
            django.communicate(timeout=20)
    return Bare(seconds, sum(process.pss for process in processes))


# --- The running fleet


class Fleet:
    """A running ``manage.py up``; ``link`` signs in once."""

    def __init__(self, process: subprocess.Popen[str], data: Path) -> None:
        self.process = process
        self.data = data
        self.started = time.time()
        self.link = ""
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the command itself; all others are its children."""
        return self.process.pid

    def wait_for_link(self, seconds: float = LINK_SECONDS) -> float:
        """Wait until the dashboard answers; the seconds since the start."""
        said = ""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                said = self._lines.get(timeout=0.1)
            except queue.Empty:
                if self.process.poll() is not None:
                    break
                continue
            if said.startswith(LINK):
                self.link = said.removeprefix(LINK).strip()
                return time.time() - self.started
        raise FleetError(f"manage.py up printed no link; it said last: {said.strip()}")

    def wait_for_turn(self, seconds: float = TURN_SECONDS) -> float:
        """Wait for the first finished turn; the seconds from the start to its end."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            finished = self._first_turn()
            if finished is not None:
                return finished.timestamp() - self.started
            time.sleep(0.2)
        raise FleetError(f"No turn was finished within {seconds:.0f} s.")

    def _first_turn(self) -> datetime | None:
        with psycopg.connect(
            host=str(socket_directory(self.data)), user=USER, dbname=DATABASE
        ) as connection:
            row = connection.execute(FIRST_TURN).fetchone()
        return row[0] if row else None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def stop(self) -> float:
        """End it; the seconds until its last process was gone.

        Raises FleetError if any had to be killed.
        """
        begun = time.monotonic()
        processes = process_tree(self.pid) if self.process.poll() is None else []
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        _, left = psutil.wait_procs(processes, timeout=2)
        for process in left:
            process.kill()
        if left:
            names = ", ".join(str(process.pid) for process in left)
            raise FleetError(f"These processes outlived manage.py up: {names}.")
        return time.monotonic() - begun


@contextmanager
def run_fleet(data: Path, *options: str) -> Iterator[Fleet]:
    """A fleet on a free port of the loopback address, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up", "--port=0", *options],
        cwd=ROOT,
        env=clean_environment(data),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    fleet = Fleet(process, data)
    try:
        yield fleet
    finally:
        if process.poll() is None:
            fleet.stop()


# --- What models were sent, against the full history


@dataclass(frozen=True)
class Sizes:
    """Bytes of messages as JSON, and the numbers that they belong to.

    ``sent`` and ``full`` are sums over all calls, ``last_sent`` and
    ``last_full`` over the last call of each Mysis.
    """

    calls: int
    turns: int
    sent: int
    full: int
    myses: int
    last_sent: int
    last_full: int


def count_bytes(message: Message) -> int:
    """The size of one message as compact JSON in UTF-8."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode())


def wire_message(memory: Mapping[str, Any]) -> Message:
    """A stored message as an OpenAI chat message, with nothing left out."""
    message = {"role": memory["role"], "content": memory["content"]}
    if memory["tool_calls"]:
        message["tool_calls"] = memory["tool_calls"]
    if memory["tool_call_id"]:
        message["tool_call_id"] = memory["tool_call_id"]
    return message


def newest_source(sources: Iterable[Any]) -> int:
    """The newest stored id that a view shows, 0 for none."""
    ids = [
        number
        for source in sources
        for number in (source if isinstance(source, list) else [source])
        if number is not None
    ]
    return max(ids, default=0)


def compare_call(
    call: Mapping[str, Any], history: list[tuple[int, int]]
) -> tuple[int, int]:
    """The bytes of one call, and those of all that was stored when it was made.

    ``history`` holds the id of each stored message and the bytes up to it.
    """
    sent = sum(count_bytes(message) for message in call["messages"])
    newest = newest_source(call["sources"])
    stored = max((total for number, total in history if number <= newest), default=0)
    prompts = [m for m in call["messages"] if m["role"] == "system"]
    return sent, stored + sum(count_bytes(message) for message in prompts)


def measure_contexts(visitor: Visitor) -> Sizes:
    """Read every call of every Mysis through the API."""
    pairs: list[list[tuple[int, int]]] = []
    turns = 0
    for mysis in visitor.items(f"{API}/myses"):
        place = f"{API}/myses/{mysis['id']}"
        finished = [t for t in visitor.items(f"{place}/turns") if t["outcome"]]
        rows = visitor.items(f"{place}/memories")
        totals = accumulate(count_bytes(wire_message(row)) for row in rows)
        history = list(zip((row["id"] for row in rows), totals, strict=True))
        turns += len(finished)
        pairs.append(
            [
                compare_call(_get_call(visitor, turn["id"], number), history)
                for turn in finished
                for number in range(1, turn["iterations"] + 1)
            ]
        )
    every = [pair for of_mysis in pairs for pair in of_mysis]
    last = [of_mysis[-1] for of_mysis in pairs if of_mysis]
    return Sizes(
        calls=len(every),
        turns=turns,
        sent=sum(sent for sent, _ in every),
        full=sum(full for _, full in every),
        myses=len(last),
        last_sent=sum(sent for sent, _ in last),
        last_full=sum(full for _, full in last),
    )


def _get_call(visitor: Visitor, turn: int, number: int) -> dict[str, Any]:
    found: dict[str, Any] = visitor.json(f"{API}/turns/{turn}/calls/{number}/context")
    return found
