"""The whole state of a game, and the few moves that keep its indexes right."""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from sandbox.game.config import Config, Json, format_plain_time, format_time
from sandbox.game.sessions import Event, Sessions, Tally
from sandbox.game.world import models
from sandbox.game.world.galaxy import Chart, Deposit, make_world
from sandbox.game.world.markets import Markets
from sandbox.game.world.models import Player
from sandbox.game.world.npcs import Npc, Pirate, make_npcs, make_pirates


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a game takes the time and its secrets from; tests put in their own."""

    now_ns: Callable[[], int] = time.time_ns
    token: Callable[[int], str] = secrets.token_hex


class State:
    """The world and everybody in it at one tick."""

    def __init__(self, config: Config, sources: Sources) -> None:
        self.config = config
        self.sources = sources
        self.tick = 1
        self.world = make_world(config.seed, config.systems)
        self.chart = Chart(self.world)
        self.players: dict[str, Player] = {}
        self.usernames: dict[str, str] = {}
        self.sessions = Sessions(
            config.session_idle_seconds, config.exclusive, sources.now_ns, sources.token
        )
        self.markets = Markets(config.seed)
        self.npcs = make_npcs(self.world, config.seed)
        self.pirates = make_pirates(self.world, config.seed)
        self.wrecks: dict[str, models.Wreck] = {}
        self.trades: dict[str, models.Trade] = {}
        self.chat: list[Json] = []
        self.orders: dict[str, models.Order] = {}
        self.jobs: dict[str, models.Job] = {}
        self.factions: dict[str, models.Faction] = {}
        self.threads: dict[str, models.Thread] = {}
        self.bases: dict[str, models.BaseState] = {}
        self.mined: dict[tuple[str, str], Deposit] = {}
        # By the name of the account; "" is who is not logged in.
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self._here: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._npcs_here: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for npc in self.npcs.values():
            self._npcs_here[npc.poi_id][npc.id] = None

    @property
    def now(self) -> str:
        """The time as the game stamps it."""
        return format_time(self.sources.now_ns())

    @property
    def plain_now(self) -> str:
        """The time as in the captain's log and the map."""
        return format_plain_time(self.sources.now_ns())

    def add_player(self, player: Player) -> None:
        self.players[player.id] = player
        self.usernames[player.username.casefold()] = player.id
        if not player.in_transit:
            self._here[player.poi_id][player.id] = None

    def find_player(self, username: str) -> Player | None:
        """Look an account up by its name, in whatever case."""
        return self.players.get(self.usernames.get(username.casefold(), ""))

    def leave(self, player: Player) -> None:
        """Take a ship from its place and tell those who stay."""
        self._here[player.poi_id].pop(player.id, None)
        self._tell_passage("poi_departure", player.username, player.poi_id)

    def arrive(self, player: Player, poi_id: str) -> None:
        """Put a ship to a place, tell those who are there, and note the visit."""
        self._tell_passage("poi_arrival", player.username, poi_id)
        player.poi_id = poi_id
        player.system_id = self.world.pois[poi_id].system_id
        self._here[poi_id][player.id] = None

    def move_npc(self, npc: Npc, poi_id: str) -> None:
        del self._npcs_here[npc.poi_id][npc.id]
        self._tell_passage("poi_departure", npc.username, npc.poi_id, npc.clan_tag)
        self._tell_passage("poi_arrival", npc.username, poi_id, npc.clan_tag)
        npc.poi_id = poi_id
        self._npcs_here[poi_id][npc.id] = None

    def players_at(self, poi_id: str) -> list[Player]:
        """List the players at a place who are logged in."""
        here = self._here.get(poi_id, ())
        return [self.players[name] for name in here if self.sessions.is_online(name)]

    def npcs_at(self, poi_id: str) -> list[Npc]:
        return [self.npcs[name] for name in self._npcs_here.get(poi_id, ())]

    def pirates_at(self, poi_id: str) -> list[Pirate]:
        return [
            pirate
            for pirate in self.pirates.values()
            if pirate.poi_id == poi_id and pirate.alive
        ]

    def crowd(self) -> dict[str, int]:
        """Count who is about, by system."""
        npcs = (self.world.pois[npc.poi_id].system_id for npc in self.npcs.values())
        players = (self.players[name].system_id for name in self.sessions.online())
        return Counter(chain(npcs, players))

    def faction_of(self, player: Player) -> models.Faction | None:
        return self.factions.get(player.faction_id)

    def schedule(self, job: models.Job, ticks: int) -> None:
        job.id, job.due_tick = self.sources.token(16), self.tick + ticks
        self.jobs[job.id] = job

    def tell(self, event: Event, *players: Player) -> None:
        """Put a notification into every session of these; nobody there, no trace."""
        notification = {
            "id": self.sources.token(16),
            "type": event.category,
            "timestamp": self.now,
            "msg_type": event.msg_type,
            "data": event.data,
        }
        for player in players:
            for session in self.sessions.of(player.id):
                session.waiting.append(notification)

    def tell_here(self, poi_id: str, event: Event, but: str = "") -> None:
        """Put a notification into the sessions of all at a place, one left out."""
        witnesses = [each for each in self.players_at(poi_id) if each.id != but]
        if witnesses:
            self.tell(event, *witnesses)

    def _tell_passage(
        self, msg_type: str, username: str, poi_id: str, clan_tag: str = ""
    ) -> None:
        name = self.world.pois[poi_id].name
        data = {"clan_tag": clan_tag, "poi_id": poi_id, "poi_name": name}
        self.tell_here(poi_id, Event({**data, "username": username}, msg_type))
