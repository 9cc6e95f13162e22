"""One run: a fleet that plays while everything goes wrong, and the reckoning."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agents.game.sandbox.testing import SandboxServer
from tests.agents.llm.fake_provider import KEY

from . import ledger
from .desk import Desk
from .ground import Ground, standing
from .mind import Mind
from .trouble import GAME, Trouble

LOOK = 0.5
STOPPING = 90.0
TOLD_WINDOW = 100_000


@dataclass(frozen=True)
class Options:
    """How large a run is; ``seconds`` bounds the play, 0 for no bound."""

    myses: int = 50
    turns: int = 200
    seconds: float = 0.0
    workers: int = 3
    webs: int = 2
    seed: int = 1
    tick: float = 0.5
    worker: float = 15.0
    web: float = 20.0
    postgres: float = 45.0

    @property
    def every(self) -> dict[str, float]:
        """After how many seconds each of them is killed again; 0 for never."""
        given = {"worker": self.worker, "web": self.web, "postgres": self.postgres}
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


Tell = Callable[[int], None]


def fly(options: Options, tell: Tell = lambda turns: None) -> Report:
    """Play a whole run; ``tell`` hears how many turns are over."""
    with (
        tempfile.TemporaryDirectory(prefix="zoea-chaos-") as folder,
        Mind(options.seed) as mind,
        SandboxServer(
            tick=options.tick, faults=GAME, seed=options.seed, max_players=20_000
        ) as sandbox,
        standing(Path(folder), sandbox.url, options.tick) as ground,
    ):
        run = _Run(options, ground, mind, sandbox)
        run.prepare()
        run.play(tell)
        run.end()
        return run.report()


class _Run:
    """The steps of a run."""

    def __init__(
        self, options: Options, ground: Ground, mind: Mind, sandbox: SandboxServer
    ) -> None:
        self.options, self.ground = options, ground
        self.mind, self.sandbox = mind, sandbox
        self.chance = random.Random(options.seed)  # noqa: S311
        self.trouble = Trouble(ground, self.chance, options.every)
        self.desk = Desk([], "")
        self.seconds = 0.0

    def prepare(self) -> None:
        """Servers, a provider, and Myses that wait for their start."""
        ground, options = self.ground, self.options
        token = ground.manage("create_token", "chaos", "--role", "admin").strip()
        ground.start(options.workers, options.webs)
        self.desk = Desk(list(ground.ports.values()), token)
        endpoint = {"name": "chaos", "kind": "openai", "base_url": self.mind.url}
        given = endpoint | {"api_key": KEY, "window": TOLD_WINDOW}
        self.desk.must("POST", "/providers", given)
        for number in range(1, options.myses + 1):
            name = f"cap-{number}"
            self.desk.must("POST", "/myses", {"name": name, "model": f"chaos:{name}"})

    def play(self, tell: Tell) -> None:
        """Keep everybody at it until all have had their turns, or time is up."""
        begun = time.monotonic()
        while True:
            self.seconds = time.monotonic() - begun
            self.trouble.strike(self.seconds)
            self.ground.tend()
            fleet = self.desk.fleet()
            turns = self._turns()
            tell(sum(turns.values()))
            behind = [one for one in fleet if turns[one["name"]] < self.options.turns]
            spared = set(self.options.every) - set(self.trouble.done)
            over = 0 < self.options.seconds <= self.seconds and not spared
            if not behind or over:
                return
            for one in fleet:
                if one not in behind and one["state"] == "running":
                    self.desk.call("POST", f"/myses/{one['name']}/stop")
                if one in behind and one["state"] != "running":
                    self.desk.call("POST", f"/myses/{one['name']}/start")
            self._speak(behind)
            time.sleep(LOOK)

    def _speak(self, behind: list[dict[str, object]]) -> None:
        name = str(self.chance.choice(behind)["name"])
        self.desk.write_to(name, f"Order {self.seconds:.3f} for {name}")

    def _turns(self) -> dict[str, int]:
        """The finished turns of each Mysis."""
        query = """SELECT m.name, count(t.finished_at) FROM agents_mysis m
            LEFT JOIN agents_turn t ON t.mysis_id = m.id GROUP BY m.id"""
        return {str(name): int(str(count)) for name, count in self.ground.rows(query)}

    def end(self) -> None:
        """Stop everybody, and wait until nobody does anything any more."""
        self.trouble.every.clear()
        for one in self.desk.fleet():
            self.desk.must("POST", f"/myses/{one['name']}/stop")
        until = time.monotonic() + STOPPING
        while self._busy() and time.monotonic() < until:
            self.ground.tend()
            time.sleep(LOOK)

    def _busy(self) -> int:
        return self.ground.number(
            """SELECT (SELECT count(*) FROM agents_turn WHERE outcome IS NULL)
            + (SELECT count(*) FROM procrastinate_jobs
                WHERE queue_name = 'turns' AND status IN ('todo', 'doing'))"""
        )

    def report(self) -> Report:
        """The reckoning."""
        self.ground.stop()
        writes = self.sandbox.writes()
        rows = self.ground.rows(
            "SELECT outcome, count(*) FROM agents_turn GROUP BY outcome ORDER BY 1"
        )
        faults = ledger.faults(self.ground, writes, self.desk.promised)
        faults += [f"a refused request: {text}" for text in set(self.mind.refused)]
        return Report(
            turns={str(outcome): int(str(count)) for outcome, count in rows},
            seconds=self.seconds,
            struck=dict(self.trouble.done),
            model=dict(self.mind.done),
            game=dict(self.sandbox.struck),
            actions=ledger.happened_by_tool(writes),
            deaths=sum(child.deaths for child in self.ground.children.values()),
            messages=len(self.desk.promised),
            faults=faults,
        )
