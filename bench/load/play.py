"""A whole fleet for a while, with dashboards, JSON streams and a search all the time.

It is what ``manage.py up`` runs, with the local game and the pilot. What looks at it runs
in this process and, the open sockets, in one other; both compute on the same cores.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from bench.figures import Step, describe_counts, describe_times
from bench.fleet import Fleet, connect_database, run_fleet
from bench.load import watch
from bench.sockets import open_clients
from bench.visitor import Site, sign_in

#: Two cores are the machine's: the game, the web and the database need theirs too.
WORKERS = 2
TICK = 10.0
SAMPLE_SECONDS, PROGRESS_SECONDS = 10.0, 1.0
SEARCHES_A_SECOND, PAGES_A_SECOND = 3.0, 0.5
#: Of the play, so much and at most so many seconds are not measured: the fleet comes in.
WARM_SHARE, WARM_SECONDS = 0.2, 120.0
#: What the dashboards show, in turn, for another Mysis each time: its own page, the whole
#: fleet, in the order that most change, and those with such a name.
SHOWN = ("/myses/{name}/", "/", "/?sort=newest", "/", "/?q={name:.2}")
#: One that nobody says, one of a Mysis in some, and one of nearly all results.
WORDS = {"absent": "kaqqqnever", "medium": "iron", "common": "status"}
SETTLED_SINCE = """
SELECT id FROM agents_event
WHERE (xid, id) > (SELECT xid, id FROM agents_event WHERE id = %s)
  AND xid < txid_snapshot_xmin(txid_current_snapshot())
"""
TURNS = """
SELECT coalesce(outcome, 'open'), count(*) FROM agents_turn
WHERE started_at >= %s GROUP BY 1 ORDER BY 1
"""
MYSES = "SELECT array_agg(name ORDER BY id) FROM agents_mysis"
NEWEST_EVENT = "SELECT id FROM agents_event ORDER BY xid DESC, id DESC LIMIT 1"


def measure(options: argparse.Namespace, step: Step) -> dict[str, Any]:
    """Everything that was seen of the load, as JSON; see ``run``."""
    with (
        tempfile.TemporaryDirectory(prefix="zoea-load-") as folder,
        run_fleet(Path(folder), tick=TICK) as fleet,
    ):
        step(f"Starting {options.myses} Myses")
        words = (f"--myses={options.myses}", f"--workers={WORKERS}", f"--tick={TICK:g}")
        site = sign_in(fleet.start_up(*words))
        fleet.wait_for_turn()
        with closing(connect_database(fleet.data)) as database:
            database.execute(watch.KEEP_DUE)
            logs = watch.measure_logs(fleet.data)
            found = _Load(options, fleet, database, site, step).run()
            return found | {"logs": watch.read_logs(fleet.data, logs)}


# --- Who looks


@dataclass
class Looker:
    """Asks again and again, in a thread, and notes how long answers took."""

    ask: Callable[[str], object]
    what: dict[str, str]
    rate: float
    times: dict[str, list[float]] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Ask, each in its turn, until the block ends."""
        thread = threading.Thread(target=self._run, name="looker", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        for name, path in cycle(self.what.items()):
            begun = time.perf_counter()
            try:
                self.ask(path)
            except (OSError, RuntimeError, HTTPException) as error:
                self.failed[f"{name}: {error}"] += 1
            else:
                took = time.perf_counter() - begun
                self.times.setdefault(name, []).append(took * 1000)
            rest = 1 / self.rate - (time.perf_counter() - begun)
            if self._over.wait(max(0.0, rest)):
                return

    def describe(self) -> list[tuple[str, dict[str, float]]]:
        """What was asked for, with the percentiles of its answers."""
        return [(name, describe_times(each)) for name, each in self.times.items()]


class Searcher:
    """Searches over REST on one connection, as a program does."""

    def __init__(self, port: int, token: str) -> None:
        self._web = HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"}

    def search(self, word: str) -> None:
        """Search a word; raises RuntimeError for any answer but 200."""
        path = f"/api/v1/search/messages?q={quote(word)}"
        try:
            self._web.request("GET", path, headers=self._headers)
            answer = self._web.getresponse()
            answer.read()
        except (OSError, HTTPException):
            # The next search opens another connection.
            self._web.close()
            raise
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {answer.reason}")


# --- The run


class _Load:
    def __init__(
        self,
        options: argparse.Namespace,
        fleet: Fleet,
        database: psycopg.Connection[Any],
        site: Site,
        step: Step,
    ) -> None:
        self.options, self.fleet, self.site, self.step = options, fleet, site, step
        self.database = database
        self.up = fleet.children["up"].process
        self.memory = watch.Memory(self.up.pid)
        self.connections = watch.Connections()
        self.token = fleet.run_command("create_token", "load", "--role=viewer")
        self.myses: list[str] = self._read(MYSES)
        self.seconds = 60 * options.minutes
        self.warm = min(WARM_SECONDS, WARM_SHARE * self.seconds)

    def run(self) -> dict[str, Any]:
        """Open everything, let it play, and count."""
        with ExitStack() as stack:
            self.step("Opening dashboards and streams")
            after = self._read(NEWEST_EVENT)
            clients = stack.enter_context(open_clients(self._plan_sockets(after)))
            self._play(self.warm, "Coming in")
            begun = self._read("SELECT now()")
            clients.begin()
            lookers = self._make_lookers()
            for looker in lookers:
                stack.enter_context(looker.looking())
            self._play(self.seconds - self.warm, "Playing")
            seconds = (self._read("SELECT now()") - begun).total_seconds()
            turns = dict(self.database.execute(TURNS, [begun]).fetchall())
            late = [
                each for (each,) in self.database.execute(watch.LATE_TURNS, [begun])
            ]
            self.step("Waiting for the last events")
            ids = [each for (each,) in self.database.execute(SETTLED_SINCE, [after])]
            sockets = clients.end(ids)
        return {
            "seconds": seconds,
            "turns": turns,
            "late": describe_times(max(0.0, each) for each in late),
            "events": describe_counts(sockets.pop("late")),
            "sockets": sockets,
            "times": {name: each for one in lookers for name, each in one.describe()},
            "failed": dict(sum((one.failed for one in lookers), Counter[str]())),
            "memory": self.memory.samples,
            "shared_buffers": self._read(watch.SHARED_BUFFERS),
            "connections": asdict(self.connections),
        }

    def _play(self, seconds: float, what: str) -> None:
        """Let time pass, and look at memory and connections."""
        begun = time.monotonic()
        every = min(SAMPLE_SECONDS, self.seconds / 12)
        sampled = begun - every
        while (now := time.monotonic()) < begun + seconds:
            if self.up.poll() is not None:
                raise RuntimeError("manage.py up ended while it was measured.")
            if now - sampled >= every:
                sampled = now
                self.memory.take_sample(now)
                self.connections.take_sample(self.database)
                minutes = (begun + seconds - now) / 60
                self.step(f"{what}, {minutes:.1f} min to go")
            time.sleep(min(PROGRESS_SECONDS, every))

    def _plan_sockets(self, after: int) -> dict[str, Any]:
        options, site = self.options, self.site
        stream = f"{site.server.socket}/ws/v1/events?token={self.token}&after={after}"
        pages = [self._choose_page(number) for number in range(options.dashboards)]
        return site.plan_dashboards(*map(site.find_socket, pages)) | {
            "after": after,
            "streams": [stream] * options.sockets,
        }

    def _choose_page(self, number: int) -> str:
        name = quote(self.myses[number // len(SHOWN) % len(self.myses)])
        return SHOWN[number % len(SHOWN)].format(name=name)

    def _make_lookers(self) -> list[Looker]:
        searcher = Searcher(self.site.server.port, self.token)
        named = {f"search, {name} word": word for name, word in WORDS.items()}
        pages = {"Fleet page": "/", "Mysis page": f"/myses/{quote(self.myses[0])}/"}
        return [
            Looker(searcher.search, named, SEARCHES_A_SECOND),
            Looker(self.site.get, pages, PAGES_A_SECOND),
        ]

    def _read(self, query: str) -> Any:
        row = self.database.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]
