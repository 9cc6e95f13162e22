"""A game and its first captain, in each era."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.game.game import Game
from sandbox.game.testing import SandboxServer
from tests.sandbox.captains import Captain, make_game


@pytest.fixture
def game() -> Game:
    return make_game()


@pytest.fixture
def captain(game: Game) -> Captain:
    return Captain(game)


@pytest.fixture
def modern() -> Captain:
    """The first captain of a game of era C."""
    return Captain(make_game(era="C"))


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server
