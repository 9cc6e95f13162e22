"""Who is logged in, what each has not read yet, and how often each account asked."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.game.config import NS, GameError, Json

QUEUE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Event:
    """What happened, in the words of a notification that has no recipient yet."""

    data: Json
    msg_type: str = "ok"
    category: str = "system"


@dataclass(slots=True)
class Session:
    """One login of a player, and the last hundred notifications that it has not read."""

    id: str
    player_id: str
    used_ns: int
    waiting: deque[Json] = field(default_factory=lambda: deque(maxlen=QUEUE_LENGTH))

    def read(
        self, limit: int, types: Collection[str], clear: bool
    ) -> tuple[list[Json], int]:
        """Give the oldest of the wanted types, and how many of them are left."""
        wanted = [item for item in self.waiting if not types or item["type"] in types]
        given = wanted[:limit]
        if clear:
            gone = {id(item) for item in given}
            kept = [item for item in self.waiting if id(item) not in gone]
            self.waiting = deque(kept, QUEUE_LENGTH)
        return given, len(wanted) - len(given)


@dataclass(slots=True)
class Sessions:
    idle_seconds: float
    exclusive: bool
    now_ns: Callable[[], int]
    token: Callable[[int], str]
    _by_id: dict[str, Session] = field(default_factory=dict)
    _by_player: dict[str, list[Session]] = field(default_factory=dict)

    def open(self, player_id: str) -> Session:
        if self.exclusive:
            for old in self.of(player_id):
                self.close(old.id)
        session = Session(self.token(16), player_id, self.now_ns())
        self._by_id[session.id] = session
        self._by_player.setdefault(player_id, []).append(session)
        return session

    def use(self, session_id: object) -> Session:
        """Mark a session used; GameError `session_required` or `session_invalid`."""
        if not isinstance(session_id, str) or not session_id:
            raise GameError(
                "session_required",
                "You must provide a session_id. "
                "Get one by calling login() or register() first.",
            )
        session = self._by_id.get(session_id)
        if session is None or session.used_ns < self._oldest_ns:
            self.close(session_id)
            raise GameError(
                "session_invalid",
                "Session not found or expired. "
                "Call login() again to get a new session_id.",
            )
        session.used_ns = self.now_ns()
        return session

    def find(self, session_id: object) -> Session | None:
        """Look a session up without using it."""
        return self._by_id.get(session_id) if isinstance(session_id, str) else None

    def close(self, session_id: str) -> None:
        """End a session; an unknown id is no error."""
        session = self._by_id.pop(session_id, None)
        if session is None:
            return
        left = self._by_player[session.player_id]
        left.remove(session)
        if not left:
            del self._by_player[session.player_id]

    def close_idle(self) -> None:
        """End what was not used for too long."""
        oldest = self._oldest_ns
        for session in list(self._by_id.values()):
            if session.used_ns < oldest:
                self.close(session.id)

    @property
    def _oldest_ns(self) -> int:
        return self.now_ns() - int(self.idle_seconds * NS)

    def of(self, player_id: str) -> list[Session]:
        return list(self._by_player.get(player_id, ()))

    def is_online(self, player_id: str) -> bool:
        return player_id in self._by_player

    def online(self) -> list[str]:
        """List the ids of the players who are logged in."""
        return list(self._by_player)


MOST_NOTED = 10_000


@dataclass(frozen=True, slots=True)
class Write:
    """A call that was taken in and changes something, as it was asked for."""

    tick: int
    tool: str
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class Tally:
    """Counts of one account, by tool; a refusal is counted by its error code.

    `accepted` actions were taken in, `executed` ones had their effect, `failed` ones
    became impossible before their tick. `writes` are the newest that change something.
    """

    queries: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    executed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    writes: deque[Write] = field(default_factory=lambda: deque(maxlen=MOST_NOTED))
    first_tick: int = 0
    last_tick: int = 0

    def seen_at(self, tick: int) -> None:
        self.first_tick = self.first_tick or tick
        self.last_tick = tick

    def view(self) -> Json:
        """The counts with their sums, as JSON."""
        by_tool = ("queries", "accepted", "executed", "failed")
        counts = {name: dict(sorted(getattr(self, name).items())) for name in by_tool}
        gets = (n for tool, n in self.queries.items() if tool.startswith("get_"))
        return {
            "mutations_executed": self.executed.total(),
            "mutations_accepted": self.accepted.total(),
            "mutations_failed": self.failed.total(),
            "get_calls": sum(gets),
            "queries": self.queries.total(),
            "refusals": self.refused.total(),
            "first_tick": self.first_tick,
            "last_tick": self.last_tick,
            "by_tool": counts,
            "refused": dict(sorted(self.refused.items())),
            "faults": dict(sorted(self.faults.items())),
        }
