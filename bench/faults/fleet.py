"""A flying fleet of which anything can fail, and the one who looks at it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from bench.chaos import audit
from bench.chaos.installation import Installation, run_installation
from bench.chaos.models import Decision, Mind, OpenAI, RequestFacts
from bench.chaos.run import TOLD_WINDOW, Operator
from bench.faults.proxy import Proxy
from sandbox.game.testing import SandboxServer
from tests.fakes.openai import KEY

TICK = 0.5
PATIENCE = 120.0
LOOK = 0.05
WORKERS = ("worker-1", "worker-2")

T = TypeVar("T")

SINCE = """
SELECT count(*) FROM agents_mysis AS mysis WHERE state = 'running' AND NOT EXISTS (
  SELECT FROM agents_turn WHERE mysis_id = mysis.id AND id > {newest}
    AND outcome IN ('done', 'iteration_limit'))
"""
LOCKED = """
SELECT coalesce(max(objid::int), 0) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
  AND application_name = '{name}'
"""
IN_HANDS = """
SELECT turn.id::int FROM agents_turn AS turn JOIN procrastinate_jobs AS job ON job.id = job_id
WHERE outcome IS NULL AND status = 'doing' AND worker_id = {number}
"""
OPEN = """
SELECT (SELECT count(*) FROM agents_turn WHERE outcome IS NULL)
  + (SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'agents.tasks.take_turn'
     AND status IN ('todo', 'doing'))
"""


class CalmMind(Mind):
    """Models that never fail by themselves."""

    def _choose_failure(self, chance: Any, seen: RequestFacts) -> Decision | None:
        return None


def wait_until(holds: Callable[[], object], what: str) -> float:
    """Wait for what others do on their own time; how many seconds that took."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > PATIENCE:
            raise RuntimeError(f"{what}: not within {PATIENCE:g} s.")
        time.sleep(LOOK)
    return time.monotonic() - begun


def await_some(find: Callable[[], list[T]], what: str) -> list[T]:
    """Wait until something is found; all that was found then."""
    found: list[T] = []

    def search() -> list[T]:
        found[:] = find()
        return found

    wait_until(search, what)
    return found


@dataclass
class Fleet:
    """Its programs, what it meets, and the ways to them that can be cut."""

    installation: Installation
    game: SandboxServer
    mind: CalmMind
    model: Proxy
    play: Proxy
    network: Proxy
    operator: Operator = field(default_factory=lambda: Operator([], ""))

    def prepare(self, myses: int) -> None:
        """Make everybody, and start the programs."""
        words = ("create_token", "faults", "--role", "admin")
        token = self.installation.run_command(*words).strip()
        self.installation.start(workers=len(WORKERS), webs=1)
        self.operator = Operator(list(self.installation.ports.values()), token)
        given = {
            "name": "faults",
            "kind": "openai",
            "base_url": f"http://127.0.0.1:{self.model.port}/v1",
            "api_key": KEY,
            "window": TOLD_WINDOW,
        }
        self.operator.request("POST", "/providers", given)
        for number in range(1, myses + 1):
            made = {"name": f"cap-{number}", "model": f"faults:cap-{number}"}
            self.operator.request("POST", "/myses", made)

    # --- The fleet

    def take_off(self) -> None:
        """Start everybody who rests, and wait until all have flown a turn."""
        newest = self.find_newest_turn()
        for one in self.operator.list_myses():
            if one["state"] != "running":
                self.operator.request("POST", f"/myses/{one['name']}/start")
        self.await_turns(newest)

    def await_turns(self, newest: int) -> float:
        """The seconds until everybody has ended a turn well that began after this one."""
        query = SINCE.format(newest=newest)
        return wait_until(lambda: self._is_zero(query), "a turn of everybody")

    def land(self) -> list[str]:
        """Stop everybody, and account for all that was said and done."""
        for one in self.operator.list_myses():
            if one["state"] == "running":
                self.operator.request("POST", f"/myses/{one['name']}/stop")
        wait_until(lambda: self._is_zero(OPEN), "the end of all turns")
        return audit.find_faults(
            self.installation, self.game.writes(), self.operator.promised
        )

    def _is_zero(self, query: str) -> bool:
        return self.installation.query_number(query) == 0

    def find_newest_turn(self) -> int:
        """The number of the newest turn of all."""
        return self.installation.query_number(
            "SELECT coalesce(max(id), 0) FROM agents_turn"
        )

    def find_worker(self, name: str) -> int:
        """The queue's number of a worker, once it works."""
        query = LOCKED.format(name=name)
        wait_until(lambda: self.installation.query_number(query), f"the lock of {name}")
        return self.installation.query_number(query)

    def list_open_turns(self, worker: int) -> list[int]:
        """The turns that a worker has in its hands, by the queue's number for it."""
        rows = self.installation.query_rows(IN_HANDS.format(number=worker))
        return [int(str(number)) for (number,) in rows]

    # --- What the user sees

    def read_ready(self) -> str:
        """What the web server says of itself."""
        port = next(iter(self.installation.ports.values()))
        try:
            answer = httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=20)
        except httpx2.HTTPError as error:
            return type(error).__name__
        told: dict[str, str] = answer.json()
        return f"{answer.status_code} {told.get('detail', told.get('status', ''))}"

    def read_activity(self) -> str:
        """What the first Mysis is said to do, or why it rests."""
        one = self.operator.list_myses()[0]
        return str(one["activity"] or one["last_error"])

    def read_outcomes(self, turns: list[int]) -> str:
        """How these turns are said to have ended."""
        told = {
            self.operator.request("GET", f"/turns/{turn}")["outcome"] for turn in turns
        }
        return f"its turns: {', '.join(sorted(map(str, told)))}"

    def send_once(self) -> str:
        """What somebody is answered who writes to a Mysis now."""
        text = f"Are you there? {time.monotonic_ns()}"
        headers = {"Authorization": f"Bearer {self.operator.token}"}
        url = f"http://127.0.0.1:{self.operator.ports[0]}/api/v1/myses/cap-1/message"
        answer = httpx2.post(url, json={"text": text}, headers=headers, timeout=20)
        if answer.is_success:
            self.operator.promised.add(text)
        return f"{answer.status_code} {answer.json().get('detail', 'accepted')}"

    def list_events(self) -> list[int]:
        """All events in the order in which everybody is told of them."""
        rows = self.installation.query_rows(
            "SELECT id FROM agents_event ORDER BY xid, id"
        )
        return [int(str(number)) for (number,) in rows]

    def watch_events(self) -> Viewer:
        """Somebody who reads all events from now on, and comes back when cut off."""
        return Viewer(self.operator, self.list_events()[-1])


class Viewer:
    """A context manager: a program at the event socket, that resumes by its cursor.

    ``seen`` are the events that it was told; ``ends`` why its connections ended.
    """

    def __init__(self, operator: Operator, after: int) -> None:
        self.first = self.newest = after
        self.seen: list[int] = []
        self.ends: list[str] = []
        self._operator = operator
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        headers = {"Authorization": f"Bearer {self._operator.token}"}
        while not self._over.is_set():
            url = f"ws://127.0.0.1:{self._operator.ports[0]}/ws/v1/events"
            address = f"{url}?after={self.newest}"
            try:
                with connect(address, additional_headers=headers) as found:
                    self._read(found)
            except (OSError, WebSocketException) as error:
                self.ends.append(f"{type(error).__name__}: {error}")
            self._over.wait(LOOK)

    def _read(self, found: Any) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                self.newest = json.loads(found.recv(LOOK))["id"]
                self.seen.append(self.newest)

    def await_event(self, number: int) -> float:
        """The seconds until it has been told of an event."""
        return wait_until(lambda: number in self.seen, "an event at the socket")

    def find_missed(self, events: list[int]) -> list[int]:
        """The events up to its newest that it was not told, or not in their order."""
        wanted = events[events.index(self.first) + 1 :]
        # It may be told of more while others look, and of the newest in a moment.
        told = self.seen[: len(wanted)]
        wanted = wanted[: len(told)]
        return [] if wanted == told else sorted(set(wanted) ^ set(told))


@contextmanager
def fly_fleet(folder: Path, myses: int) -> Iterator[Fleet]:
    """A fleet in this folder, at rest; every program has ended after the block."""
    mind = CalmMind(seed=1)
    with (
        OpenAI(mind) as provider,
        SandboxServer(tick=TICK, max_players=1000) as game,
        Proxy(read_port(provider.url)) as model,
        Proxy(read_port(game.url)) as play,
    ):
        way = httpx2.URL(game.url).copy_with(port=play.port)
        with run_installation(folder, (str(way),), TICK) as installation:
            cluster = installation.postgres
            with Proxy(cluster.sockets / ".s.PGSQL.5432") as network:
                fleet = Fleet(installation, game, mind, model, play, network)
                fleet.prepare(myses)
                yield fleet


def read_port(url: str) -> int:
    """The port of an address."""
    port = httpx2.URL(url).port
    assert port is not None
    return port
