"""One run: a fleet that plays while everything goes wrong, and the reckoning."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos import ledger
from bench.chaos.desk import Desk
from bench.chaos.ground import Ground, standing
from bench.chaos.mind import Mind
from bench.chaos.trouble import GAME, Trouble
from bench.chaos.wires import Anthropic, OpenAI
from sandbox.game.sessions import Write
from sandbox.game.testing import SandboxServer
from tests.agents.llm.fake_anthropic import KEY as ANTHROPIC_KEY
from tests.agents.llm.fake_provider import KEY

LOOK = 0.5
STOPPING = 90.0
TOLD_WINDOW = 100_000


@dataclass(frozen=True)
class Options:
    """How large a run is; ``seconds`` bounds the play, 0 for no bound."""

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


Tell = Callable[[int], None]


def fly(options: Options, tell: Tell = lambda turns: None) -> Report:
    """Play a whole run; ``tell`` hears how many turns are over."""
    mind = Mind(options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="zoea-chaos-") as folder,
        OpenAI(mind) as openai,
        Anthropic(mind) as anthropic,
        _game(options, "A") as early,
        _game(options, "C") as late,
        standing(Path(folder), (early.url, late.url), options.tick) as ground,
    ):
        run = _Run(options, ground, World(mind, (openai, anthropic), (early, late)))
        run.prepare()
        run.play(tell)
        run.end()
        return run.report()


def _game(options: Options, era: str) -> SandboxServer:
    return SandboxServer(
        tick=options.tick,
        faults=GAME,
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

    def __init__(self, options: Options, ground: Ground, world: World) -> None:
        self.options, self.ground, self.world = options, ground, world
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
        kinds, keys = ("openai", "anthropic"), (KEY, ANTHROPIC_KEY)
        urls = [wire.url for wire in self.world.wires]
        for kind, key, url in zip(kinds, keys, urls, strict=True):
            endpoint = {"name": f"chaos-{kind}", "kind": kind, "base_url": url}
            given = endpoint | {"api_key": key, "window": TOLD_WINDOW}
            self.desk.must("POST", "/providers", given)
        for number in range(1, options.myses + 1):
            # By pairs, for the games take turns: all four combinations play.
            name, kind = f"cap-{number}", kinds[number // 2 % 2]
            made = {"name": name, "model": f"chaos-{kind}:{name}"}
            self.desk.must("POST", "/myses", made)

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
                WHERE queue_name LIKE 'turns%' AND status IN ('todo', 'doing'))"""
        )

    def report(self) -> Report:
        """The reckoning."""
        self.ground.stop()
        writes = self.world.writes()
        rows = self.ground.rows(
            "SELECT outcome, count(*) FROM agents_turn GROUP BY outcome ORDER BY 1"
        )
        faults = ledger.faults(self.ground, writes, self.desk.promised)
        faults += [f"a refused request: {text}" for text in self.world.refused()]
        return Report(
            turns={str(outcome): int(str(count)) for outcome, count in rows},
            seconds=self.seconds,
            struck=dict(self.trouble.done),
            model=dict(self.world.mind.done),
            game=self.world.struck(),
            actions=ledger.happened_by_tool(writes),
            deaths=sum(child.deaths for child in self.ground.children.values()),
            messages=len(self.desk.promised),
            faults=faults,
        )
