"""Who has another key, or plays another game, takes no turns on a database."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from agents import fence
from agents.encryption import unseal
from agents.fence import FenceError, enter, name_game
from agents.management.commands.procrastinate import _enter_fence
from agents.models import Account, Fence
from memory.models import AuditEntry
from tests.agents.game.test_local import GAME, write_record
from tests.factories import make_account
from zoea.commandline import DatabaseError

pytestmark = pytest.mark.django_db
OLD, NEW = "the old key", "the new key"


@pytest.fixture(autouse=True)
def _here(settings: Settings, tmp_path: Path) -> None:
    settings.ZOEA_DATA, settings.ZOEA_GAME_NAMED = tmp_path, True
    settings.SPACEMOLT_MCP_URL = "https://game.example.org/mcp?preset=all"
    settings.ZOEA_KEYS = [OLD]


def call(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_who_has_the_key_and_plays_the_game_comes_in_again_and_again(
    settings: Settings,
) -> None:
    assert [enter(), enter()] == ["", ""]
    # One game under two of its addresses.
    settings.SPACEMOLT_MCP_URL = "https://GAME.example.org:443/v2/mcp"
    assert enter() == ""


def test_who_has_another_key_is_kept_out_also_before_anything_is_sealed(
    settings: Settings,
) -> None:
    enter()
    settings.ZOEA_KEYS = [NEW]
    with pytest.raises(FenceError, match=r"sealed under another key.*--forget"):
        enter()
    settings.ZOEA_KEYS = [NEW, OLD]
    assert enter() == ""


def test_a_database_of_an_older_release_belongs_to_the_key_that_opens_it(
    settings: Settings,
) -> None:
    make_account(username="Ada", password="of Ada")
    settings.ZOEA_KEYS = [NEW]
    with pytest.raises(FenceError, match="sealed under another key"):
        enter()
    assert not Fence.objects.exists()
    # Of one that was lost in parts nobody is kept out who has the rest.
    make_account(username="Bob", password="of Bob")
    assert enter() == ""


def test_a_key_is_changed_in_the_documented_way(settings: Settings) -> None:
    make_account(username="Ada", password="of Ada")
    enter()
    settings.ZOEA_KEYS = [NEW, OLD]
    enter()
    # All are to be sealed anew before the old key goes.
    settings.ZOEA_KEYS = [NEW]
    with pytest.raises(FenceError):
        enter()
    settings.ZOEA_KEYS = [NEW, OLD]
    call("rotate_key")
    settings.ZOEA_KEYS = [NEW]
    assert enter() == ""
    settings.ZOEA_KEYS = [OLD]
    with pytest.raises(FenceError):
        enter()


def test_what_a_lost_key_sealed_is_given_up_on_demand_only(settings: Settings) -> None:
    lost = make_account(username="Ada", password="of Ada")
    enter()
    settings.ZOEA_KEYS = [NEW]
    kept = make_account(username="Bob", password="of Bob")
    with pytest.raises(CommandError, match="--forget"):
        call("rotate_key")
    with pytest.raises(FenceError):
        enter()
    assert "Secrets given up: 1." in call("rotate_key", "--forget")
    assert enter() == ""
    assert Account.objects.get(pk=lost.pk).sealed_password == ""
    assert unseal(Account.objects.get(pk=kept.pk).sealed_password) == "of Bob"


def test_who_plays_another_game_is_kept_out_until_the_fleet_is_moved(
    settings: Settings,
) -> None:
    enter()
    settings.SPACEMOLT_MCP_URL = "https://other.example.org/mcp"
    with pytest.raises(FenceError) as refused:
        enter()
    for word in ("game.example.org:443", "other.example.org:443", "adopt_game"):
        assert word in str(refused.value)
    assert "the game at other.example.org:443" in call("adopt_game")
    assert enter() == ""
    entry = AuditEntry.objects.get(action="game.adopt")
    assert entry.before == {"game": "the game at game.example.org:443"}
    assert entry.after == {"game": "the game at other.example.org:443"}


def test_a_local_game_is_known_by_its_folder_and_not_by_its_address(
    settings: Settings, tmp_path: Path
) -> None:
    settings.ZOEA_EMBEDDED_POSTGRES = False
    names = []
    for folder in ("one", "other"):
        settings.ZOEA_DATA = data = tmp_path / folder
        data.mkdir(exist_ok=True)
        (data / "game.id").write_text(folder)
        write_record(data, os.getpid())
        # As `up` tells its children, and as a worker by hand finds it.
        for named in (True, False):
            settings.ZOEA_GAME_NAMED = named
            settings.SPACEMOLT_MCP_URL = GAME
            names.append(name_game())
    assert names == ["the local game one"] * 2 + ["the local game other"] * 2


def test_an_embedded_database_has_one_local_game_wherever_it_is_restored(
    settings: Settings,
) -> None:
    settings.ZOEA_GAME_NAMED, settings.ZOEA_EMBEDDED_POSTGRES = False, True
    assert name_game() == "the local game"


def test_another_length_of_a_tick_is_said_while_others_are_at_work(
    settings: Settings,
) -> None:
    settings.ZOEA_SECONDS_PER_TICK = 2.0
    enter()
    settings.ZOEA_SECONDS_PER_TICK = 10.0
    assert enter() == ""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO procrastinate_workers DEFAULT VALUES")
    settings.ZOEA_SECONDS_PER_TICK = 2.0
    for _ in range(2):
        assert "lasts 2 s here, and 10 s in the processes at work" in enter()


def test_a_worker_and_up_refuse_with_status_2(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter()
    settings.ZOEA_KEYS = [NEW]
    with pytest.raises(DatabaseError, match="sealed under another key"):
        call("prepare")

    async def run_here(work: object) -> str:
        return fence.enter()

    monkeypatch.setattr("agents.management.commands.procrastinate.run_in_db", run_here)
    with pytest.raises(CommandError, match="sealed under another key") as refused:
        _enter_fence()
    assert refused.value.returncode == 2


def test_a_game_is_adopted_only_where_there_is_a_fleet_and_a_game(
    settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match="Nothing has taken turns"):
        call("adopt_game")
    enter()
    settings.ZOEA_EMBEDDED_POSTGRES = settings.ZOEA_GAME_NAMED = False
    settings.ZOEA_DATA = tmp_path
    before = Fence.objects.get().game
    with pytest.raises(CommandError, match="No local game has run"):
        call("adopt_game")
    assert Fence.objects.get().game == before
    assert not AuditEntry.objects.filter(action="game.adopt").exists()
