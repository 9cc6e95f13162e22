"""Who is logged in: the game sessions behind the `session_id` argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sandbox.game.errors import session_invalid, session_required
from sandbox.game.notifications import Mailbox

_NS = 1_000_000_000


@dataclass(slots=True)
class Session:
    """One login of a player, with its own queue of notifications."""

    id: str
    player_id: str
    used_ns: int
    mailbox: Mailbox = field(default_factory=Mailbox)


class Sessions:
    """All sessions, by id and by player."""

    def __init__(
        self,
        idle_seconds: float,
        exclusive: bool,
        now_ns: Callable[[], int],
        token: Callable[[int], str],
    ) -> None:
        self._idle_ns = int(idle_seconds * _NS)
        self._exclusive = exclusive
        self._now_ns = now_ns
        self._token = token
        self._by_id: dict[str, Session] = {}
        self._by_player: dict[str, list[Session]] = {}

    def open(self, player_id: str) -> Session:
        """Start a session; an exclusive game ends the player's older ones."""
        if self._exclusive:
            for old in self.of(player_id):
                self.close(old.id)
        session = Session(self._token(16), player_id, self._now_ns())
        self._by_id[session.id] = session
        self._by_player.setdefault(player_id, []).append(session)
        return session

    def use(self, session_id: object) -> Session:
        """Find a session and mark it used.

        Raises GameError `session_required` or `session_invalid`.
        """
        if not isinstance(session_id, str) or not session_id:
            raise session_required()
        session = self._by_id.get(session_id)
        now = self._now_ns()
        if session is None or now - session.used_ns > self._idle_ns:
            self.close(session_id)
            raise session_invalid()
        session.used_ns = now
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
        oldest = self._now_ns() - self._idle_ns
        for session in list(self._by_id.values()):
            if session.used_ns < oldest:
                self.close(session.id)

    def of(self, player_id: str) -> list[Session]:
        return list(self._by_player.get(player_id, ()))

    def is_online(self, player_id: str) -> bool:
        return player_id in self._by_player

    def online(self) -> list[str]:
        """List the ids of the players who are logged in."""
        return list(self._by_player)
