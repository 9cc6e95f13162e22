"""Somebody else in the game, who does harm and good to Ada behind her back."""

from __future__ import annotations

import random
from contextlib import suppress

from sandbox.game import truth
from sandbox.game.config import GameError
from sandbox.game.happenings import HAPPENINGS
from sandbox.game.testing import SandboxServer
from sandbox.game.tools.combat import ambush
from sandbox.game.world.models import Player

NAME = "Rival"


class Rival:
    """A captain who is always where Ada is."""

    def __init__(self, sandbox: SandboxServer, chance: random.Random) -> None:
        self._sandbox, self._chance = sandbox, chance
        given = {"username": NAME, "empire": "solarian"}
        registered = sandbox.run(lambda: sandbox.game.call("register", given))
        self._session = registered["session_id"]
        self.player = sandbox.player(NAME)
        self.player.ship.cargo = {"ore_gold": 20}
        self.player.earn(1000)

    def act(self) -> str:
        """Do something, and say what; the game may have refused it."""
        doing = self._chance.choice(
            (self._ambush, self._attack, self._attack, self._trade, self._event)
        )
        ada = self._sandbox.player("Ada Nova")
        self._sandbox.run(lambda: doing(ada))
        return f"({doing.__name__})"

    def _ambush(self, ada: Player) -> None:
        if not ada.in_transit and not ada.docked_at:
            tier = self._chance.choice(("small", "small", "boss"))
            ambush(self._sandbox.game.state, ada, tier)

    def _attack(self, ada: Player) -> None:
        self._follow(ada)
        self._call("attack", target_id=ada.id)

    def _trade(self, ada: Player) -> None:
        self._follow(ada)
        goods = [{"item_id": "ore_gold", "quantity": 1}]
        self._call(
            "trade_offer", target_id=ada.id, offer_items=goods, request_credits=5
        )

    def _event(self, ada: Player) -> None:
        """Let anything at all happen to her that can."""
        kind = self._chance.choice(sorted(set(HAPPENINGS) - {"pirate_spawn"}))
        with suppress(ValueError):
            truth.let_happen(self._sandbox.game, ada.username, kind, {})

    def _follow(self, ada: Player) -> None:
        me, state = self.player, self._sandbox.game.state
        if me.pending is None and not ada.in_transit:
            me.docked_at = None
            state.leave(me)
            state.arrive(me, ada.poi_id)
            me.docked_at = ada.docked_at

    def _call(self, tool: str, **given: object) -> None:
        with suppress(GameError):
            self._sandbox.game.call(tool, {"session_id": self._session, **given})
