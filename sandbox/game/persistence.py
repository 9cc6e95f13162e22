"""Keeps a world between runs: one JSON file, always whole.

Logins are not kept, as with the real server: after a restart every player logs in
again, with the password that was given at the registration.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sandbox.game.game import Game
from sandbox.game.happenings import HAPPENINGS
from sandbox.game.state import State
from sandbox.game.table import ACTIONS
from sandbox.game.world import catalogue, models
from sandbox.game.world.models import Player
from sandbox.game.world.npcs import Pirate

FORMAT = 1
# What the kinds of work were called that earlier games have saved.
_EARLIER_JOBS = {"recipe": "crafting_update", "ship": "ship_commission_complete"}
_log = logging.getLogger(__name__)


class StateFileError(Exception):
    """A state file that this game cannot go on with."""


@dataclass(slots=True)
class SavedDeposit:
    poi_id: str
    resource_id: str
    remaining: int


@dataclass(slots=True)
class SavedGame:
    """What differs from a fresh world; the world itself follows from the seed."""

    format: int
    seed: int
    systems: int
    tick: int
    players: list[Player]
    npcs: dict[str, str]
    pirates: list[Pirate]
    mined: list[SavedDeposit]
    markets: dict[str, dict[str, tuple[int, int]]]
    wrecks: list[models.Wreck] = field(default_factory=list)
    orders: list[models.Order] = field(default_factory=list)
    jobs: list[models.Job] = field(default_factory=list)
    factions: list[models.Faction] = field(default_factory=list)
    threads: list[models.Thread] = field(default_factory=list)
    bases: dict[str, models.BaseState] = field(default_factory=dict)


_SAVED = TypeAdapter(SavedGame)
_BY_ID = ("pirates", "wrecks", "orders", "jobs", "factions", "threads")


def dump_game(game: Game) -> bytes:
    state = game.state
    saved = SavedGame(
        format=FORMAT,
        seed=game.config.seed,
        systems=game.config.systems,
        tick=state.tick,
        players=list(state.players.values()),
        npcs={npc.id: npc.poi_id for npc in state.npcs.values()},
        **{name: list(getattr(state, name).values()) for name in _BY_ID},
        bases=state.bases,
        mined=[
            SavedDeposit(poi_id, resource_id, deposit.remaining)
            for (poi_id, resource_id), deposit in state.mined.items()
        ],
        markets={
            base_id: {
                item_id: (shelf.stock, shelf.wanted)
                for item_id, shelf in market.shelves.items()
            }
            for base_id, market in state.markets.touched().items()
        },
    )
    return _SAVED.dump_json(saved)


def restore_game(game: Game, data: bytes) -> None:
    """Put what was saved into a fresh game of the same world. Raises StateFileError."""
    try:
        saved = _SAVED.validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StateFileError(
            f"it is not a saved game ({where}: {first['msg']})"
        ) from None
    if saved.format != FORMAT:
        raise StateFileError(f"its format is {saved.format}, not {FORMAT}")
    if (saved.seed, saved.systems) != (game.config.seed, game.config.systems):
        raise StateFileError(
            f"it was made with --seed {saved.seed} --systems {saved.systems}; "
            "use the same, or another file"
        )
    try:
        _apply(game.state, saved)
    except (KeyError, StopIteration) as error:
        raise StateFileError(f"it names something unknown ({error})") from None


def _apply(state: State, saved: SavedGame) -> None:
    state.tick = state.markets.tick = saved.tick
    for job in saved.jobs:
        job.kind = _EARLIER_JOBS.get(job.kind, job.kind)
    # Earlier games mended their bases without a job.
    in_repair = {job.base_id for job in saved.jobs if job.kind == "station_repaired"}
    for name in set(saved.bases) - in_repair:
        saved.bases[name].damage = 0
    _look_up(state, saved)
    for player in saved.players:
        state.add_player(player)
    for npc_id, poi_id in saved.npcs.items():
        state.move_npc(state.npcs[npc_id], state.world.pois[poi_id].id)
    for name in _BY_ID:
        getattr(state, name).update({one.id: one for one in getattr(saved, name)})
    state.bases = saved.bases
    for entry in saved.mined:
        deposits = state.world.pois[entry.poi_id].deposits
        deposit = next(one for one in deposits if one.resource_id == entry.resource_id)
        deposit.remaining = min(max(0, entry.remaining), deposit.max_remaining)
        state.mined[entry.poi_id, entry.resource_id] = deposit
    for base_id, shelves in saved.markets.items():
        market = state.markets.at(state.world.bases[base_id])
        for item_id, (stock, wanted) in shelves.items():
            shelf = market.shelves[item_id]
            shelf.stock, shelf.wanted = stock, wanted
        state.markets.touch(base_id)


def _look_up(state: State, saved: SavedGame) -> None:
    """Look every id up once, so that no later tick can fail on it. Raises KeyError."""
    world, players = state.world, {one.id: one for one in saved.players}
    things: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("poi_id revealed", world.pois), ("system_id", world.systems),
        ("base_id home_base docked_at", world.bases), ("player_id", players),
        ("item_id resource_id", catalogue.ITEMS), ("type_id", catalogue.MODULES),
        ("class_id", catalogue.SHIP_CLASSES), ("template_id", catalogue.TEMPLATES),
        ("kind", HAPPENINGS), ("tool", ACTIONS),
    )  # fmt: skip
    named = {name: known for names, known in things for name in names.split()}
    keyed = dict.fromkeys(("bases", "stores", "saved_credits"), named["base_id"])
    keyed |= {"cargo": named["item_id"], "skills": catalogue.SKILLS}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                _ = name in keyed and keyed[name][key]
                walk("cargo" if name == "stores" else key, one)
        elif isinstance(value, list):
            for one in value:
                walk(name, one)
        elif value and name in named:
            _ = named[name][value]

    walk("", _SAVED.dump_python(saved))


class Keeper:
    def __init__(self, path: Path, game: Game) -> None:
        self._path = path
        self._game = game
        self._lock = asyncio.Lock()
        self._asked = 0
        self._saved = 0

    def load(self) -> None:
        """Take the game up where it was left; no file means a fresh world.

        Raises StateFileError naming the file.
        """
        try:
            if self._path.exists():
                restore_game(self._game, self._path.read_bytes())
        except (OSError, StateFileError) as error:
            raise StateFileError(
                f"Cannot use the state file {self._path}: {error}."
            ) from None

    async def save(self) -> None:
        """Write the present state; calls at the same time share one writing.

        A failure is logged, not raised: the game goes on and tries again later.
        """
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._saved >= mine:
                return
            newest, data = self._asked, dump_game(self._game)
            try:
                await asyncio.to_thread(write_file, self._path, data)
            except OSError as error:
                _log.error("The game could not be saved to %s: %s", self._path, error)
            else:
                self._saved = newest

    async def save_regularly(self, seconds: float) -> None:
        """Save every so many seconds, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await self.save()


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that a reader finds the old or the new text, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
