"""The game without network and without clock."""

from __future__ import annotations

import json

from sandbox.game import accounts
from sandbox.game.config import (
    Config,
    GameError,
    Json,
    describe_release,
    make_dice,
    unknown_command,
)
from sandbox.game.eras import ERAS, Outcome
from sandbox.game.happenings import run_due_jobs
from sandbox.game.sessions import Write
from sandbox.game.state import Sources, State
from sandbox.game.table import ACTIONS, QUERIES, list_tools
from sandbox.game.tool import Tool
from sandbox.game.tools.combat import clear_wrecks, move_pirates
from sandbox.game.tools.rules import Call
from sandbox.game.world.npcs import choose_goal

_REGROWTH = 500
SECRET = frozenset({"session_id", "password", "registration_code"})


class Game:
    """One galaxy with its players; every call is answered at once.

    `answer` is a tool call as players make it, `step` is the passing of a tick.
    The object is not made for several threads at a time.
    """

    def __init__(
        self, config: Config | None = None, sources: Sources | None = None
    ) -> None:
        self.config = config or Config()
        self.state = State(self.config, sources or Sources())
        self.resolution = ERAS[self.config.era](self.state)
        self.tools = list_tools(self.config.era)

    @property
    def tick(self) -> int:
        return self.state.tick

    def call(self, name: str, arguments: Json | None = None) -> Json:
        """Call a tool and give its result; raises GameError for what is refused."""
        result: Json = json.loads(self.answer(name, arguments))
        return result

    def answer(self, name: str, arguments: Json | None = None) -> str:
        """As `call`, but give the text of the result: JSON indented by 2."""
        result = self._count_call(name, arguments or {})
        if isinstance(result, str):
            return result
        return json.dumps(result, indent=2, ensure_ascii=False)

    def is_mutation(self, name: str) -> bool:
        """Does this tool take the player's turn? An unknown one does not."""
        tool = self.tools.get(name)
        return tool is not None and tool.mutation

    def must_wait(self, name: str, arguments: Json | None = None) -> bool:
        """Is it too early only? Raises GameError for a call that waiting cannot help."""
        tool = self._tool(name)
        if not tool.mutation:
            return False
        given = arguments or {}
        player = self.state.players[self.player_of(given.get("session_id"))]
        tool.check_arguments(given)
        return self.resolution.must_wait(player)

    def player_of(self, session_id: object) -> str:
        """The id of the player behind a session; raises GameError."""
        return self.state.sessions.use(session_id).player_id

    def end_sessions(self, username: str) -> None:
        """Log an account out everywhere, as a restart of the real server does."""
        player = self.state.find_player(username)
        for session in self.state.sessions.of(player.id) if player else ():
            self.state.sessions.close(session.id)

    def outcome(self, player_id: str) -> Outcome | None:
        """Take what came of a waiting caller's action, None before its tick (era C)."""
        found = self.resolution.outcome(player_id)
        if found is None and self.state.players[player_id].pending is None:
            lost = "Your ship was destroyed before the action was carried out."
            return Outcome(error=GameError("action_cancelled", lost))
        return found

    def _tool(self, name: str) -> Tool:
        tool = self.tools.get(name)
        if tool is None:
            raise unknown_command(name)
        return tool

    def _count_call(self, name: str, arguments: Json) -> Json | str:
        who = self.account_of(arguments)
        try:
            result = self._call(name, arguments)
        except GameError as error:
            self.state.tallies[who].refused[error.code] += 1
            raise
        # A registration has its name only now.
        tally = self.state.tallies[who or self.account_of(arguments)]
        tally.seen_at(self.tick)
        if not self.tools[name].read_only:
            given = {k: v for k, v in arguments.items() if k not in SECRET}
            tally.writes.append(Write(self.tick, name, given))
        (tally.accepted if self.is_mutation(name) else tally.queries)[name] += 1
        return result

    def account_of(self, arguments: Json) -> str:
        """The name of the account that a call is made for, "" where there is none."""
        session = self.state.sessions.find(arguments.get("session_id"))
        if session is not None:
            return self.state.players[session.player_id].username
        player = self.state.find_player(str(arguments.get("username", "")).strip())
        return player.username if player else ""

    def _call(self, name: str, arguments: Json) -> Json | str:
        tool = self._tool(name)
        if tool.open:
            return self._open_call(tool, arguments)
        session = self.state.sessions.use(arguments.get("session_id"))
        player = self.state.players[session.player_id]
        checked = tool.check_arguments(arguments)
        player.last_active_at = self.state.now
        if name == "logout":
            return accounts.logout(self.state, player, session)
        if name in QUERIES:
            return QUERIES[name](Call(self.state, player, checked, session))
        if self.resolution.must_wait(player):
            wait = self.config.tick_seconds
            words = f"One action per tick. Try again in {wait:g} seconds."
            raise GameError("rate_limited", words, wait_seconds=wait)
        return self.resolution.submit(player, ACTIONS[name], checked)

    def _open_call(self, tool: Tool, arguments: Json) -> Json:
        checked = tool.check_arguments(arguments)
        if tool.name == "register":
            return accounts.register(self.state, checked)
        if tool.name == "login":
            return accounts.login(self.state, checked)
        if tool.name == "get_version":
            return describe_release(self.config.era)
        return {"commands": [one.command() for one in self.tools.values()]}

    def step(self) -> int:
        """Let one tick pass and give its number."""
        state = self.state
        state.tick += 1
        # Before the shots, so that what they tell of a shield holds when the tick ends.
        for player in state.players.values():
            if player.missions:
                left = [one for one in player.missions if one.expire_tick > state.tick]
                player.missions = left
            build = player.ship.build
            player.ship.shield = min(
                build.shield, player.ship.shield + build.shield_recharge
            )
        self.resolution.resolve()
        move_pirates(state)
        run_due_jobs(state)
        clear_wrecks(state)
        rng = make_dice(self.config.seed, state.tick, "npcs")
        for npc in state.npcs.values():
            if target := choose_goal(npc, state.world, rng):
                state.move_npc(npc, target)
        for deposit in state.mined.values():
            # The emptier the faster: a whole fleet finds its level.
            missing = deposit.max_remaining - deposit.remaining
            deposit.remaining += missing // _REGROWTH
        state.markets.drift(state.tick)
        state.sessions.close_idle()
        return state.tick
