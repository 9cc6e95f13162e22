"""A fleet that plays while everything goes wrong, and the audit of what is left."""

from __future__ import annotations

import math
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.faults import audit
from bench.faults.flight import Flight, fly
from bench.figures import Step
from bench.fleet import crash_postgres

PAUSE = 0.5
FEWEST = 3
#: A bounded run may take so many times what it needs, and always the least, in seconds.
MOST_TIMES, LEAST_CEILING = 5, 300.0

CRASHES = {"postgres": signal.SIGQUIT, "postmaster": signal.SIGKILL}
"""How the database server ends: with all its backends, or it alone."""

EVERY = {"worker": 15.0, "web": 20.0, "postgres": 90.0, "postmaster": 140.0}
"""After how many seconds each of them is killed again.

A killed worker's turns are taken up within seconds, so kills must leave time for the
others to play.
"""


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
    era: str = "A"
    every: Mapping[str, float] = field(default_factory=lambda: EVERY)

    @property
    def ceiling(self) -> float:
        """After how many seconds the play ends at the latest; without a bound never."""
        if not self.seconds:
            return math.inf
        needed = max([self.seconds, *self.every.values()])
        return max(MOST_TIMES * needed, LEAST_CEILING)


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


def play(options: Options, step: Step) -> Report:
    with (
        tempfile.TemporaryDirectory(prefix="zoea-chaos-") as folder,
        fly(
            Path(folder),
            options.myses,
            workers=options.workers,
            webs=options.webs,
            seed=options.seed,
            era=options.era,
            wild=True,
        ) as flight,
    ):
        run = _Run(options, flight)
        run.play(step)
        return run.report()


class _Run:
    def __init__(self, options: Options, flight: Flight) -> None:
        self.options, self.flight = options, flight
        self.fleet, self.operator = flight.fleet, flight.operator
        self.chance = random.Random(options.seed)  # noqa: S311
        self.seconds = 0.0
        self.struck: Counter[str] = Counter()
        self.faults: list[str] = []
        self._last: dict[str, float] = {}

    def play(self, step: Step) -> None:
        """Keep everybody at it until all have had their turns, or time is up."""
        begun = time.monotonic()
        wanted = self.options.myses * self.options.turns
        while True:
            self.seconds = time.monotonic() - begun
            self._strike_due()
            self.fleet.revive()
            fleet = self.operator.list_myses()
            turns = self._count_turns()
            step(f"{sum(turns.values())} turns of {wanted}")
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
        spared = set(self.options.every) - set(self.struck)
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
        return dict(self.fleet.query(query))

    def _strike_due(self) -> None:
        for what, seconds in self.options.every.items():
            if self.seconds - self._last.setdefault(what, 0.0) >= seconds:
                self._last[what] = self.seconds
                self.struck[what] += 1
                self._strike(what)

    def _strike(self, what: str) -> None:
        if what in CRASHES:
            crash_postgres(self.flight.postgres, CRASHES[what])
            self.flight.postgres.ensure_running()
            return
        names = [name for name in self.fleet.children if name.startswith(what)]
        self.fleet.kill(self.chance.choice(names))

    def report(self) -> Report:
        """Let nobody fly any more, and account for everything."""
        self.faults += self.flight.land()
        rows = self.fleet.query(
            "SELECT outcome, count(*) FROM agents_turn GROUP BY outcome ORDER BY 1"
        )
        return Report(
            turns=dict(rows),
            seconds=self.seconds,
            struck=dict(self.struck),
            model=dict(self.flight.mind.done),
            game=dict(self.flight.game.struck),
            actions=audit.count_actions(self.flight.game.writes()),
            deaths=sum(child.deaths for child in self.fleet.children.values()),
            messages=len(self.operator.promised),
            faults=self.faults,
        )
