"""A flying fleet of which anything can fail, and the one who looks at it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bench.faults import audit
from bench.faults.minds import Anthropic, Mind, OpenAI
from bench.faults.operator import Operator, Viewer, wait_until
from bench.faults.proxy import Proxy
from bench.fleet import Fleet, run_fleet
from sandbox.game.testing import SandboxServer
from tests.fakes.anthropic import KEY as ANTHROPIC_KEY
from tests.fakes.openai import KEY
from zoea.postgres import EmbeddedPostgres, acquire

TICK = 0.5
POOL = "8"
LANDING = 240.0
GAME_FAULTS = (
    "502=0.01,429=0.01,lost-answer=0.01,lost-transport=0.005,lost-session=0.005,"
    "rate-limit=0.005,null-lists=0.02,sse=0.02"
)
"""What goes wrong in a wild game all the time."""
WORKERS = ("worker-1", "worker-2")

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


#: What the providers say that a model takes.
TOLD_WINDOW = 100_000


@dataclass
class Flight:
    """A fleet of which anything can fail, what it meets, and the ways that can be cut."""

    fleet: Fleet
    postgres: EmbeddedPostgres
    game: SandboxServer
    mind: Mind
    model: Proxy
    play: Proxy
    network: Proxy
    wires: tuple[OpenAI, Anthropic]
    operator: Operator

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
        wait_until(self._is_at_rest, "the end of all turns", LANDING)
        found = audit.find_faults(
            self.fleet.query, self.game.writes(), self.operator.promised
        )
        refused = {text for wire in self.wires for text in wire.refused}
        return found + [f"a refused request: {text}" for text in refused]

    def _is_at_rest(self) -> bool:
        self.fleet.revive()
        return self._is_zero(OPEN)

    def _is_zero(self, query: str) -> bool:
        return not self.fleet.query_value(query)

    def find_newest_turn(self) -> int:
        """The number of the newest turn of all."""
        found: int = self.fleet.query_value(
            "SELECT coalesce(max(id), 0) FROM agents_turn"
        )
        return found

    def find_worker(self, name: str) -> int:
        """The queue's number of a worker, once it works."""
        query = LOCKED.format(name=name)
        wait_until(lambda: self.fleet.query_value(query), f"the lock of {name}")
        found: int = self.fleet.query_value(query)
        return found

    def list_open_turns(self, worker: int) -> list[int]:
        """The turns that a worker has in its hands, by the queue's number for it."""
        rows = self.fleet.query(IN_HANDS.format(number=worker))
        return [number for (number,) in rows]

    # --- What the user sees

    def read_ready(self) -> str:
        """What the web server says of itself."""
        port = next(iter(self.fleet.ports.values()))
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
        rows = self.fleet.query("SELECT id FROM agents_event ORDER BY xid, id")
        return [number for (number,) in rows]

    def watch_events(self) -> Viewer:
        """Somebody who reads all events from now on, and comes back when cut off."""
        return Viewer(self.operator, self.list_events()[-1])


@contextmanager
def fly(
    folder: Path,
    myses: int,
    *,
    workers: int = len(WORKERS),
    webs: int = 1,
    seed: int = 1,
    era: str = "A",
    wild: bool = False,
) -> Iterator[Flight]:
    """A fleet in this folder, at rest; every program has ended after the block.

    In a wild one models and game fail by themselves, and half of the models are another
    provider's.
    """
    mind = Mind(seed, calm=not wild)
    faults = GAME_FAULTS if wild else ""
    with (
        OpenAI(mind) as openai,
        Anthropic(mind) as anthropic,
        SandboxServer(
            tick=TICK, faults=faults, era=era, seed=seed, max_players=20_000
        ) as game,
        Proxy(read_port(openai.url)) as model,
        Proxy(read_port(game.url)) as play,
        acquire(folder) as postgres,
        Proxy(postgres.sockets / ".s.PGSQL.5432") as network,
    ):
        way = str(httpx2.URL(game.url).copy_with(port=play.port))
        pool = {"ZOEA_DB_POOL": POOL}
        # Nobody looks at pages: turns leave the processor to nothing.
        with run_fleet(
            folder, game=way, tick=TICK, environment=pool, nice=False
        ) as fleet:
            fleet.run_command("migrate", "--verbosity=0")
            wires = {"openai": (f"http://127.0.0.1:{model.port}/v1", KEY)}
            if wild:
                wires["anthropic"] = (anthropic.url, ANTHROPIC_KEY)
            fleet.start(workers=0, webs=webs)
            operator = prepare(fleet, wires, myses)
            fleet.start(workers=workers, webs=0)
            yield Flight(
                fleet,
                postgres,
                game,
                mind,
                model,
                play,
                network,
                (openai, anthropic),
                operator,
            )


def prepare(fleet: Fleet, wires: Mapping[str, tuple[str, str]], myses: int) -> Operator:
    """A provider for each wire (its kind: address and key), Myses, and an operator."""
    token = fleet.run_command("create_token", "faults", "--role", "admin")
    operator = Operator(list(fleet.ports.values()), token)
    for kind, (url, key) in wires.items():
        endpoint = {"name": f"faults-{kind}", "kind": kind, "base_url": url}
        given = endpoint | {"api_key": key, "window": TOLD_WINDOW}
        operator.request("POST", "/providers", given)
    kinds = list(wires)
    for number in range(1, myses + 1):
        name, kind = f"cap-{number}", kinds[number % len(kinds)]
        made = {"name": name, "model": f"faults-{kind}:{name}"}
        operator.request("POST", "/myses", made)
    return operator


def read_port(url: str) -> int:
    port = httpx2.URL(url).port
    assert port is not None
    return port
