"""Where nobody asks for an account's events, its ship's facts are fresh for less long."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from agents.dashboard import fleet, game_state
from agents.models import Account, Mysis
from memory.gamestate.confidence import judge_age
from memory.gamestate.rows import build_rows
from memory.models import AccountClock, ContextPolicy, GameSnapshot
from memory.snapshots.reads import (
    claim_crossings,
    read_account_state,
    read_moments,
)
from tests.factories import make_mysis
from tests.programs import Program

pytestmark = pytest.mark.django_db
TICK = 500
CONTENT = {"player": {"username": "Ada", "credits": 5, "current_system": "sol"}}


@pytest.fixture
def row() -> GameSnapshot:
    """What get_status told six ticks ago: one tick after the short limit."""
    now = timezone.now()
    AccountClock.objects.create(username="Ada", tick=TICK, seen_at=now)
    return GameSnapshot.objects.create(
        username="Ada",
        tool_name="get_status",
        content=json.dumps(CONTENT),
        game_tick=TICK - 6,
        captured_at=now - timedelta(seconds=60),
    )


def fly(*, own: bool = True, **options: object) -> Mysis:
    """A Mysis that flies the account, under its own policy or under the fleet's."""
    policy = ContextPolicy.objects.create(name="hers", options=options)
    mysis = make_mysis(name="Ada")
    mysis.account = Account(username="Ada")
    mysis.account.password = "0" * 64
    mysis.account.save()
    if own:
        mysis.policy = policy
    else:
        policy.is_default = True
        policy.save()
    mysis.save()
    return Mysis.objects.get(pk=mysis.pk)


def judge(row: GameSnapshot) -> str:
    present = read_moments(["Ada"], timezone.now())["Ada"]
    return str(judge_age(row.to_outline(), present))


@pytest.mark.parametrize("own", [True, False])
def test_without_a_state_block_the_short_limits_hold(
    row: GameSnapshot, own: bool
) -> None:
    assert judge(row) == "fresh"
    mysis = fly(own=own, state_block=False)
    assert judge(row) == "ageing"
    mysis.effective_policy.options = {"state_block": True}
    mysis.effective_policy.save()
    assert judge(row) == "fresh"


def test_another_mysis_without_a_state_block_changes_nothing(row: GameSnapshot) -> None:
    fly(state_block=True)
    deaf = ContextPolicy.objects.create(name="deaf", options={"state_block": False})
    make_mysis(name="Brahe", policy=deaf)
    assert judge(row) == "fresh"


@pytest.mark.parametrize("heard", [True, False])
def test_every_door_says_the_same(
    row: GameSnapshot, admin_client: Client, heard: bool, admin_program: Program
) -> None:
    mysis = fly(state_block=heard)
    wanted = "fresh" if heard else "ageing"
    answer = admin_program.get(f"/myses/{mysis.pk}/state").json()
    assert [one["confidence"] for one in answer["items"]] == [wanted]
    [section], _ = game_state.load_sections("Ada", timezone.now(), {})
    assert section.confidence == wanted
    listed = admin_client.get("/admin/memory/gamesnapshot/").content.decode()
    assert f'<td class="field-confidence">{wanted}</td>' in listed
    [viewed] = build_rows(read_account_state("Ada", fetched=heard))
    assert viewed.confidence == wanted
    assert len(claim_crossings("Ada")) == (not heard)


def test_a_row_that_was_judged_is_judged_again_when_the_policy_changes(
    row: GameSnapshot,
) -> None:
    """The fleet page keeps what it made of the same snapshots at the same tick."""
    GameSnapshot.objects.update(game_tick=TICK - 30)
    mysis, now = fly(state_block=True), timezone.now()
    shown = []
    for told in (True, False):
        ContextPolicy.objects.update(options={"state_block": told})
        [one] = fleet.load_rows([mysis.pk], now)
        shown.append(bool(one.standing.badges))
    assert shown == [False, True]
