"""One run: a fleet that plays while everything goes wrong, and the audit."""

from __future__ import annotations

import itertools
import math
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bench.chaos import audit
from bench.chaos.installation import Installation, run_installation
from bench.chaos.models import Anthropic, Mind, OpenAI
from bench.figures import Aim, Figure, Step
from sandbox.game.sessions import Write
from sandbox.game.testing import SandboxServer
from tests.fakes.anthropic import KEY as ANTHROPIC_KEY
from tests.fakes.openai import KEY

STEPS = 20
PAUSE = 0.5
STOPPING = 240.0
FEWEST = 3
#: A bounded run may take so many times what it needs, and always the least, in seconds.
MOST_TIMES, LEAST_CEILING = 5, 300.0
TOLD_WINDOW = 100_000
#: How long a request is repeated, and the pause between two tries, in seconds.
REQUEST_PATIENCE, REQUEST_PAUSE = 120.0, 0.3
IN_PROGRESS = "idempotency_in_progress"
GAME_FAULTS = (
    "502=0.01,429=0.01,lost-answer=0.01,lost-transport=0.005,lost-session=0.005,"
    "rate-limit=0.005,null-lists=0.02,sse=0.02"
)
"""What goes wrong in the game all the time."""

CRASHES = {"postgres": signal.SIGQUIT, "postmaster": signal.SIGKILL}
"""How the database server ends: with all its backends, or it alone."""


@dataclass(frozen=True)
class Options:
    """How large a run is; ``seconds`` bounds the play, 0 for no bound.

    A slow one goes on until everybody has had `FEWEST` turns on an average, but not
    beyond its ``ceiling``, which is a fault.
    """

    myses: int = 50
    turns: int = 200
    seconds: float = 0.0
    workers: int = 4
    webs: int = 2
    seed: int = 1
    tick: float = 0.5
    worker: float = 15.0
    web: float = 20.0
    postgres: float = 90.0
    postmaster: float = 140.0

    @property
    def ceiling(self) -> float:
        """After how many seconds the play ends at the latest; without a bound never."""
        if not self.seconds:
            return math.inf
        needed = max([self.seconds, *self.every.values()])
        return max(MOST_TIMES * needed, LEAST_CEILING)

    @property
    def every(self) -> dict[str, float]:
        """After how many seconds each of them is killed again; 0 for never."""
        named = ("worker", "web", "postgres", "postmaster")
        given = {name: getattr(self, name) for name in named}
        return {name: seconds for name, seconds in given.items() if seconds > 0}


@dataclass
class Report:
    """What came of a run."""

    turns: dict[str, int]
    seconds: float
    struck: dict[str, int]
    model: dict[str, int]
    game: dict[str, int]
    actions: dict[str, int]
    deaths: int
    messages: int
    faults: list[str] = field(default_factory=list)


def measure(step: Step) -> list[Figure]:
    """Fly the whole run. Raises RuntimeError where a row is not accounted for."""
    options = Options()
    wanted, steps = options.myses * options.turns, 0

    def report(turns: int) -> None:
        nonlocal steps
        while steps < STEPS and turns * STEPS >= steps * wanted:
            steps += 1
            step(f"Chaos: {turns} of {wanted} turns")

    found = fly(options, report)
    if found.faults:
        raise RuntimeError("; ".join(found.faults))
    return run_figures(found, options)


def run_figures(report: Report, options: Options) -> list[Figure]:
    """The figures of a run in which all was accounted for."""
    turns = sum(report.turns.values())
    actions = sum(report.actions.values())
    struck = ", ".join(f"{name} {count}" for name, count in report.struck.items())
    wanted = options.myses * options.turns
    return [
        Figure(
            "turns, each accounted for",
            turns,
            "",
            target=wanted,
            aim=Aim.AT_LEAST,
            note=", ".join(f"{name} {count}" for name, count in report.turns.items()),
        ),
        Figure("turns a second, all workers", turns / report.seconds, "/s"),
        Figure("actions in the game, none twice", actions, ""),
        Figure("kills and crashes", sum(report.struck.values()), "", note=struck),
        Figure("messages, none lost", report.messages, ""),
    ]


def fly(options: Options, report: Callable[[int], None] = lambda turns: None) -> Report:
    """Play a whole run; ``report`` is called with the number of finished turns."""
    mind = Mind(options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="zoea-chaos-") as folder,
        OpenAI(mind) as openai,
        Anthropic(mind) as anthropic,
        _game(options, "A") as early,
        _game(options, "C") as late,
        run_installation(
            Path(folder), (early.url, late.url), options.tick
        ) as installation,
    ):
        run = _Run(
            options, installation, World(mind, (openai, anthropic), (early, late))
        )
        run.prepare()
        run.play(report)
        run.end()
        return run.report()


def _game(options: Options, era: str) -> SandboxServer:
    return SandboxServer(
        tick=options.tick,
        faults=GAME_FAULTS,
        seed=options.seed,
        max_players=20_000,
        era=era,
    )


@dataclass(frozen=True)
class World:
    """What the fleet meets: a mind on two wires, and two games."""

    mind: Mind
    wires: tuple[OpenAI, Anthropic]
    games: tuple[SandboxServer, ...]

    def writes(self) -> dict[str, list[Write]]:
        """What every captain did in the games."""
        found: dict[str, list[Write]] = {}
        for game in self.games:
            for name, each in game.writes().items():
                found.setdefault(name, []).extend(each)
        return found

    def struck(self) -> dict[str, int]:
        """The faults of the games."""
        return dict(sum((Counter(game.struck) for game in self.games), Counter[str]()))

    def refused(self) -> set[str]:
        """The requests that no real provider would have taken."""
        return {text for wire in self.wires for text in wire.refused}


class _Run:
    """The steps of a run."""

    def __init__(
        self, options: Options, installation: Installation, world: World
    ) -> None:
        self.options, self.installation, self.world = options, installation, world
        self.chance = random.Random(options.seed)  # noqa: S311
        self.trouble = Trouble(installation, self.chance, options.every)
        self.operator = Operator([], "")
        self.seconds = 0.0
        self.faults: list[str] = []

    def prepare(self) -> None:
        """Servers, a provider, and Myses that wait for their start."""
        installation, options = self.installation, self.options
        token = installation.run_command(
            "create_token", "chaos", "--role", "admin"
        ).strip()
        installation.start(options.workers, options.webs)
        self.operator = Operator(list(installation.ports.values()), token)
        kinds, keys = ("openai", "anthropic"), (KEY, ANTHROPIC_KEY)
        urls = [wire.url for wire in self.world.wires]
        for kind, key, url in zip(kinds, keys, urls, strict=True):
            endpoint = {"name": f"chaos-{kind}", "kind": kind, "base_url": url}
            given = endpoint | {"api_key": key, "window": TOLD_WINDOW}
            self.operator.request("POST", "/providers", given)
        for number in range(1, options.myses + 1):
            # By pairs, for the games take turns: all four combinations play.
            name, kind = f"cap-{number}", kinds[number // 2 % 2]
            made = {"name": name, "model": f"chaos-{kind}:{name}"}
            self.operator.request("POST", "/myses", made)

    def play(self, report: Callable[[int], None]) -> None:
        """Keep everybody at it until all have had their turns, or time is up."""
        begun = time.monotonic()
        while True:
            self.seconds = time.monotonic() - begun
            self.trouble.strike_due(self.seconds)
            self.installation.revive()
            fleet = self.operator.list_myses()
            turns = self._count_turns()
            report(sum(turns.values()))
            behind = [one for one in fleet if turns[one["name"]] < self.options.turns]
            if not behind or self._is_over(sum(turns.values())):
                return
            for one in fleet:
                if one not in behind and one["state"] == "running":
                    self.operator.try_request("POST", f"/myses/{one['name']}/stop")
                if one in behind and one["state"] != "running":
                    self.operator.try_request("POST", f"/myses/{one['name']}/start")
            self._send_order(behind)
            time.sleep(PAUSE)

    def _is_over(self, turns: int) -> bool:
        """Whether time is up, all has befallen the fleet, and it has played a little."""
        spared = set(self.options.every) - set(self.trouble.done)
        if not spared and turns >= FEWEST * self.options.myses:
            return 0 < self.options.seconds <= self.seconds
        if self.seconds < self.options.ceiling:
            return False
        self.faults.append(
            f"the play was ended after {self.seconds:.0f} s: {turns} turns of "
            f"{self.options.myses} Myses, not struck yet: {sorted(spared)}"
        )
        return True

    def _send_order(self, behind: list[dict[str, object]]) -> None:
        name = str(self.chance.choice(behind)["name"])
        self.operator.send_message(name, f"Order {self.seconds:.3f} for {name}")

    def _count_turns(self) -> dict[str, int]:
        """The finished turns of each Mysis."""
        query = """SELECT m.name, count(t.finished_at) FROM agents_mysis m
            LEFT JOIN agents_turn t ON t.mysis_id = m.id GROUP BY m.id"""
        return {
            str(name): int(str(count))
            for name, count in self.installation.query_rows(query)
        }

    def end(self) -> None:
        """Stop everybody, and wait until nobody does anything any more."""
        self.trouble.every.clear()
        for one in self.operator.list_myses():
            self.operator.request("POST", f"/myses/{one['name']}/stop")
        until = time.monotonic() + STOPPING
        while self._count_open_work() and time.monotonic() < until:
            self.installation.revive()
            time.sleep(PAUSE)

    def _count_open_work(self) -> int:
        return self.installation.query_number(
            """SELECT (SELECT count(*) FROM agents_turn WHERE outcome IS NULL)
            + (SELECT count(*) FROM procrastinate_jobs
                WHERE queue_name LIKE 'turns%' AND status IN ('todo', 'doing'))"""
        )

    def report(self) -> Report:
        """Stop all and audit what is left."""
        self.installation.stop()
        writes = self.world.writes()
        rows = self.installation.query_rows(
            "SELECT outcome, count(*) FROM agents_turn GROUP BY outcome ORDER BY 1"
        )
        faults = self.faults + audit.find_faults(
            self.installation, writes, self.operator.promised
        )
        faults += [f"a refused request: {text}" for text in self.world.refused()]
        return Report(
            turns={str(outcome): int(str(count)) for outcome, count in rows},
            seconds=self.seconds,
            struck=dict(self.trouble.done),
            model=dict(self.world.mind.done),
            game=self.world.struck(),
            actions=audit.count_actions(writes),
            deaths=sum(child.deaths for child in self.installation.children.values()),
            messages=len(self.operator.promised),
            faults=faults,
        )


# --- What befalls the fleet


@dataclass
class Trouble:
    """Kills and crashes, each after its own number of seconds.

    A killed worker's turns are taken up within seconds, so kills must leave time for
    the others to play.
    """

    installation: Installation
    chance: random.Random
    every: dict[str, float]
    done: Counter[str] = field(default_factory=Counter)
    _last: dict[str, float] = field(default_factory=dict)

    def strike_due(self, now: float) -> None:
        """Kill what is due; ``now`` is in seconds since the beginning."""
        for what, seconds in self.every.items():
            if now - self._last.setdefault(what, 0.0) >= seconds:
                self._last[what] = now
                self.done[what] += 1
                self._strike(what)

    def _strike(self, what: str) -> None:
        if what in CRASHES:
            self.installation.crash_postgres(CRASHES[what])
            return
        names = [name for name in self.installation.children if name.startswith(what)]
        self.installation.kill(self.chance.choice(names))


# --- The operator


def is_in_progress(answer: httpx2.Response) -> bool:
    """Whether the first request under this key still runs."""
    return answer.status_code == 409 and answer.json().get("code") == IN_PROGRESS


@dataclass
class Operator:
    """A REST client that does not give up: it calls whichever web server answers.

    ``promised`` are the texts of messages whose delivery was confirmed, ``unsure``
    those that were sent without anybody answering for them.
    """

    ports: list[int]
    token: str
    promised: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    _keys: Any = field(default_factory=itertools.count)

    def try_request(
        self, method: str, path: str, body: Any = None, *, wait_for_first: bool = False
    ) -> httpx2.Response:
        """One request, repeated under its key until a server answers for it.

        With ``wait_for_first`` also while the first still runs: a machine may be slow.
        """
        headers = {"Authorization": f"Bearer {self.token}"}
        if method != "GET":
            headers["Idempotency-Key"] = f"chaos-{next(self._keys)}"
        until = time.monotonic() + REQUEST_PATIENCE
        for port in itertools.cycle(self.ports):
            url = f"http://127.0.0.1:{port}/api/v1{path}"
            try:
                with httpx2.Client(timeout=20) as client:
                    answer = client.request(method, url, json=body, headers=headers)
                is_refused = answer.status_code in (*range(500, 600), 429)
                is_begun = wait_for_first and is_in_progress(answer)
                if not (is_refused or is_begun):
                    return answer
            except httpx2.HTTPError:
                pass
            if time.monotonic() > until:
                raise TimeoutError(f"nobody answered {method} {path}")
            time.sleep(REQUEST_PAUSE)
        raise AssertionError("an endless cycle ended")

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The same; the body of the answer. Raises AssertionError where it is refused."""
        answer = self.try_request(method, path, body, wait_for_first=True)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def send_message(self, name: str, text: str) -> None:
        """Send a message, and keep whether it was confirmed."""
        answer = self.try_request("POST", f"/myses/{name}/message", {"text": text})
        if answer.is_success:
            self.promised.add(text)
        elif is_in_progress(answer):
            # The server that had begun it was killed.
            self.unsure.add(text)

    def list_myses(self) -> list[dict[str, Any]]:
        """All Myses."""
        found: list[dict[str, Any]] = self.request("GET", "/myses?limit=200")["items"]
        return found
