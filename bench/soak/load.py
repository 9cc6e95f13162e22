"""A whole fleet for a while, with dashboards, JSON streams and a search all the time.

It is what ``manage.py up`` runs, with the local game and the pilot. What looks at it runs
in this process and, the open sockets, in one other; both compute on the same cores.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException
from http.cookiejar import CookieJar
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import psycopg

from bench.figures import Step
from bench.fleet import Fleet, FleetError, run_fleet
from bench.processes import PYTHON, ROOT, Server, clean_environment
from bench.soak import watch
from bench.visitor import Site, socket_address

#: Two cores are the machine's: the game, the web and the database need theirs too.
WORKERS = 2
TICK = 10.0
CLIENTS = [*PYTHON, "-m", "bench.soak.clients"]
SAMPLE_SECONDS, PROGRESS_SECONDS = 10.0, 1.0
SEARCHES_A_SECOND, PAGES_A_SECOND = 3.0, 0.5
#: Of the play, so much and at most so many seconds are not measured: the fleet comes in.
WARM_SHARE, WARM_SECONDS = 0.2, 120.0
#: What the dashboards show, in turn, for another Mysis each time: its own page, the whole
#: fleet, in the order that most change, and those with such a name.
SHOWN = ("/myses/{name}/", "/", "/?sort=newest", "/", "/?q={name:.2}")
ABSENT = "kaqqqnever"
LINK_SECONDS, FIRST_TURN_SECONDS, OPEN_SECONDS = 300.0, 120.0, 300.0
WORDS_READ, RARE_SHARE, MEDIUM_SHARE = 5_000, 0.001, 0.02
WORDS = """
SELECT word, ndoc FROM ts_stat(
  'SELECT content_vector FROM memory_memory ORDER BY id DESC LIMIT {limit}'
) WHERE word ~ '^[a-z]{{4,20}}$' ORDER BY ndoc, word
"""
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


@dataclass(frozen=True)
class Options:
    """How large the load is."""

    myses: int = 200
    minutes: float = 20.0
    dashboards: int = 50
    sockets: int = 200

    @property
    def warm(self) -> float:
        """Seconds of play before anything is measured."""
        return min(WARM_SECONDS, WARM_SHARE * self.seconds)

    @property
    def seconds(self) -> float:
        """Seconds of play."""
        return self.minutes * 60


def measure(options: Options, step: Step) -> dict[str, Any]:
    """Everything that was seen of the load, as JSON; see ``report``."""
    with tempfile.TemporaryDirectory(prefix="zoea-soak-") as folder:
        data = Path(folder)
        words = (f"--myses={options.myses}", f"--workers={WORKERS}", f"--tick={TICK:g}")
        step(f"Starting {options.myses} Myses")
        with run_fleet(data, *words) as fleet:
            fleet.wait_for_link(LINK_SECONDS)
            fleet.wait_for_turn(FIRST_TURN_SECONDS)
            with watch.connect_database(data) as database:
                database.execute(watch.KEEP_DUE)
                logs = watch.measure_logs(data)
                found = _Soak(options, fleet, database, step).run()
        return found | {
            "logs": watch.read_logs(data, logs),
            "options": asdict(options),
        }


# --- Who looks


def sign_in(link: str) -> Site:
    """Use the link of ``up`` as a browser does."""
    jar = CookieJar()
    with build_opener(HTTPCookieProcessor(jar)).open(link, timeout=60) as page:
        page.read()
    session = next(each for each in jar if "session" in each.name)
    server = Server(urlsplit(link).port or 80, 0)
    return Site(server, session.value or "", session.name)


def make_token(data: Path) -> str:
    """A token of a viewer."""
    done = subprocess.run(
        [*PYTHON, "manage.py", "create_token", "soak", "--role=viewer"],
        cwd=ROOT,
        env=clean_environment(data),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    return done.stdout.strip()


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
        return [(name, watch.describe_times(each)) for name, each in self.times.items()]


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


def choose_words(database: psycopg.Connection[Any]) -> dict[str, str]:
    """A rare, a medium and the commonest word of the newest messages, and none of them."""
    rows = database.execute(WORDS.format(limit=WORDS_READ).encode()).fetchall()
    found = {"absent": ABSENT}
    if rows:
        word, most = rows[-1]
        found |= {
            "rare": _find_word(rows, RARE_SHARE * most),
            "medium": _find_word(rows, MEDIUM_SHARE * most),
            "common": word,
        }
    return found


def _find_word(rows: list[Any], count: float) -> str:
    """The word that comes as often as this, or nearly so."""
    word: str = min(rows, key=lambda row: abs(row[1] - count))[0]
    return word


# --- The run


class _Soak:
    """One run, from the first turn to the last figure."""

    def __init__(
        self,
        options: Options,
        fleet: Fleet,
        database: psycopg.Connection[Any],
        step: Step,
    ) -> None:
        self.options, self.fleet, self.step = options, fleet, step
        self.database = database
        self.memory = watch.Memory(fleet.pid)
        self.connections = watch.Connections()
        self.site, self.token = sign_in(fleet.link), make_token(fleet.data)
        self.myses: list[str] = self._read(MYSES)

    def run(self) -> dict[str, Any]:
        """Open everything, let it play, and count."""
        with ExitStack() as stack:
            self.step("Opening dashboards and streams")
            after = self._read(NEWEST_EVENT)
            clients = stack.enter_context(closing(_Clients(self._plan_sockets(after))))
            self._play(self.options.warm, "Coming in")
            tables = watch.measure_tables(self.database)
            begun = self._read("SELECT now()")
            clients.begin()
            lookers = self._make_lookers()
            for looker in lookers:
                stack.enter_context(looker.looking())
            self._play(self.options.seconds - self.options.warm, "Playing")
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
            "late": watch.describe_times(max(0.0, each) for each in late),
            "events": watch.describe_counts(sockets.pop("late")),
            "sockets": sockets,
            "times": {name: each for one in lookers for name, each in one.describe()},
            "failed": dict(sum((one.failed for one in lookers), Counter[str]())),
            "memory": self.memory.samples,
            "shared_buffers": self._read(watch.SHARED_BUFFERS),
            "connections": asdict(self.connections),
            "tables": {"before": tables, "after": watch.measure_tables(self.database)},
        }

    def _play(self, seconds: float, what: str) -> None:
        """Let time pass, and look at memory and connections."""
        begun = time.monotonic()
        every = min(SAMPLE_SECONDS, self.options.seconds / 12)
        sampled = begun - every
        while (now := time.monotonic()) < begun + seconds:
            if self.fleet.process.poll() is not None:
                raise FleetError("manage.py up ended while it was measured.")
            if now - sampled >= every:
                sampled = now
                self.memory.take_sample(now)
                self.connections.take_sample(self.database)
                minutes = (begun + seconds - now) / 60
                self.step(f"{what}, {minutes:.1f} min to go")
            time.sleep(min(PROGRESS_SECONDS, every))

    def _plan_sockets(self, after: int) -> dict[str, Any]:
        options, server = self.options, self.site.server
        stream = f"{server.socket}/ws/v1/events?token={self.token}&after={after}"
        return {
            "after": after,
            "streams": [stream] * options.sockets,
            "dashboards": [self._find_socket(n) for n in range(options.dashboards)],
            "headers": {"Cookie": self.site.cookie, "Origin": server.origin},
        }

    def _find_socket(self, number: int) -> str:
        """Load a page as a browser does; the address of its socket."""
        name = quote(self.myses[number // len(SHOWN) % len(self.myses)])
        path = SHOWN[number % len(SHOWN)].format(name=name)
        page = gzip.decompress(self.site.get(path))
        return f"{self.site.server.socket}{socket_address(page.decode())}"

    def _make_lookers(self) -> list[Looker]:
        words = choose_words(self.database)
        searcher = Searcher(self.site.server.port, self.token)
        named = {f"search, {name} word": word for name, word in words.items()}
        pages = {"Fleet page": "/", "Mysis page": f"/myses/{quote(self.myses[0])}/"}
        return [
            Looker(searcher.search, named, SEARCHES_A_SECOND),
            Looker(self.site.get, pages, PAGES_A_SECOND),
        ]

    def _read(self, query: str) -> Any:
        row = self.database.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


class _Clients:
    """The process with the open sockets; see ``bench.soak.clients``."""

    def __init__(self, plan: dict[str, Any], seconds: float = OPEN_SECONDS) -> None:
        self._process = subprocess.Popen(
            CLIENTS,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        # What opens nothing in this time is ended, and the line then empty.
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        self._write(plan)
        opened = self._read()
        late.cancel()
        if opened != "open\n":
            self.close()
            raise RuntimeError("The sockets could not all be opened.")

    def begin(self) -> None:
        """Count from now on."""
        self._write_line("count")

    def end(self, ids: list[int]) -> dict[str, Any]:
        """What came, once these events have come, or are not waited for any more."""
        self._write(ids)
        found: dict[str, Any] = json.loads(self._read())
        return found

    def close(self) -> None:
        """End the process, and all sockets with it."""
        self._process.terminate()
        self._process.wait()

    def _write(self, what: Any) -> None:
        self._write_line(json.dumps(what))

    def _write_line(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()
