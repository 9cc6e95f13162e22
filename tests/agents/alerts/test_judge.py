"""Alerts of a whole fleet: raised once, cleared once, each with its event."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError, connection
from django.utils import timezone

from agents import actions
from agents.actions.alerts import save_alert_settings
from agents.alerts import judge
from agents.alerts.distances import load_jump_fuel
from agents.alerts.facts import read_attack, read_fleet_facts
from agents.alerts.judge import PAUSE, judge_fleet
from agents.dashboard import troubles
from agents.models import AlarmEvidence, Alert, AlertSettings, Event, KnownBase, Mysis
from memory.models import AccountClock, GameEvent, GameSnapshot
from tests.factories import make_account, make_mysis
from tests.statements import record_statements

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def look(seconds: float = 0) -> None:
    """A look at the fleet some seconds later, whoever looked before."""
    AlertSettings.objects.update(judged_at=None)
    assert judge_fleet(NOW + timedelta(seconds=seconds))


def fly(name: str = "Ada", **ship: Any) -> Mysis:
    account = make_account()
    mysis = make_mysis(name=name, state="running", account=account)
    tell(mysis, **ship)
    AccountClock.objects.create(username=account.username, tick=1_000, seen_at=NOW)
    return mysis


def tell(mysis: Mysis, **ship: Any) -> None:
    """Let get_status have answered so just now."""
    told = {"hull": 100, "max_hull": 100, "fuel": 50, "max_fuel": 100}
    told |= {"cargo_used": 0, "cargo_capacity": 50, **ship}
    player = {"credits": 100, "current_system": "sol", "current_poi": "belt"}
    assert mysis.account
    GameSnapshot.objects.update_or_create(
        username=mysis.account.username,
        tool_name="get_status",
        args_key="",
        defaults={
            "content": json.dumps({"player": player, "ship": told}),
            "captured_at": NOW,
            "game_tick": 1_000,
        },
    )


def list_told() -> list[tuple[str, str, str]]:
    rows = Event.objects.filter(kind__startswith="alert.").order_by("pk")
    return [(one.kind, one.data["mysis"], one.data["rule"]) for one in rows]


def test_a_damaged_ship_is_told_of_once_and_stands_among_the_troubles():
    ada = fly(hull=20)
    look()
    look(5)
    assert list_told() == [("alert.raised", "Ada", "hull")]
    [event] = Event.objects.filter(kind="alert.raised")
    assert event.mysis_id == ada.pk
    assert event.data["text"] == "Hull 20 of 100."
    assert event.data["link"] == "/myses/Ada/"
    [trouble] = troubles.find_troubles(NOW)
    assert (trouble.mysis, trouble.text) == (ada, "Hull 20 of 100.")
    tell(ada, hull=35)
    look(10)
    assert Alert.objects.get().cleared_at is None
    tell(ada, hull=25)
    look(15)
    assert Alert.objects.get().text == "Hull 25 of 100."
    tell(ada, hull=40)
    look(20)
    assert list_told()[1:] == [("alert.cleared", "Ada", "hull")]
    assert troubles.find_troubles(NOW) == []


@pytest.mark.parametrize("damage", [10**400, float("inf"), float("nan")])
def test_a_hit_of_absurd_damage_is_a_hit_of_unknown_damage(damage: float):
    event = GameEvent(
        username="Ada", kind="pirate_combat", data={"damage": damage}, received_at=NOW
    )
    attack = read_attack(event, "")
    assert attack is not None
    assert attack.damage is None


@pytest.mark.parametrize("error", [DataError, ValueError])
def test_what_waits_is_handed_on_where_the_look_fails(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
):
    done = []

    def fail() -> None:
        raise error

    monkeypatch.setattr(judge, "judge_fleet", fail)
    monkeypatch.setattr(judge, "fill_outbox", lambda: done.append(1))
    with contextlib.suppress(DataError):
        judge.watch_fleet()
    assert done == [1]


def test_of_two_who_look_at_the_same_time_one_judges():
    fly(hull=20)
    assert judge_fleet(NOW)
    assert not judge_fleet(NOW + PAUSE / 2)
    assert judge_fleet(NOW + PAUSE)
    assert len(list_told()) == 1


def test_fuel_is_judged_by_the_map_and_the_bases_that_were_seen():
    ada = fly(fuel=10)
    assert ada.account
    systems = [
        {"system_id": "sol", "name": "Sol", "connections": ["a"]},
        {"system_id": "a", "name": "A", "connections": ["b"]},
    ]
    map = {"tool_name": "get_map", "content": json.dumps({"systems": systems})}
    GameSnapshot.objects.create(username=ada.account.username, captured_at=NOW, **map)
    look()
    assert list_told() == []
    other = fly("Bea")
    assert other.account
    poi = {"id": "dock", "has_base": True}
    content = {"system": {"id": "b", "name": "B", "pois": [poi]}}
    GameSnapshot.objects.create(
        username=other.account.username,
        tool_name="get_system",
        content=json.dumps(content),
        captured_at=NOW,
    )
    look(5)
    assert [one.system for one in KnownBase.objects.all()] == ["b"]
    [alert] = Alert.objects.all()
    assert alert.text == "Fuel 10: a base 2 jumps away needs 11."
    # It is docked there in the end, and the base stays known.
    GameSnapshot.objects.filter(tool_name="get_system").delete()
    tell(ada, fuel=60)
    look(10)
    assert list_told()[-1] == ("alert.cleared", "Ada", "fuel")


def hit(mysis: Mysis, kind: str, at: Any = NOW, **data: Any) -> None:
    assert mysis.account
    GameEvent.objects.create(
        username=mysis.account.username,
        event_id=f"{kind} {len(data)}",
        kind=kind,
        data=data,
        at=at,
        received_at=NOW,
    )


def test_an_attack_is_one_on_the_account_itself_and_a_recent_one():
    ada, bea, cid = fly("Ada"), fly("Bea"), fly("Cid")
    assert ada.account and bea.account
    name = bea.account.username
    hit(ada, "combat_update", attacker=ada.account.username, target=name, damage=3)
    hit(bea, "combat_update", attacker="Rogue", target=name, damage=3)
    hit(cid, "pirate_combat", at=NOW - timedelta(hours=1), pirate_name="Old")
    look()
    [alert] = Alert.objects.all()
    assert (alert.name, alert.text) == ("Bea", "Attacked by Rogue, 3 damage.")
    look(301)
    assert list_told()[-1] == ("alert.cleared", "Bea", "attacked")


def test_a_doubted_fact_raises_nothing():
    ada = fly(hull=20)
    GameSnapshot.objects.update(stale_reason="repair", stale_fields=["ship.hull"])
    look()
    assert list_told() == []
    GameSnapshot.objects.update(stale_reason="", stale_fields=[], logged_out_at=NOW)
    look(5)
    assert list_told() == []
    assert Mysis.objects.get() == ada


def test_chosen_troubles_are_alerts_and_equal_ones_name_each_other():
    words = "No provider named x: add it."
    for name in ("Ada", "Bea", "Cid", "Dan", "Eve"):
        make_mysis(name=name, state="errored", last_error=words)
    look()
    told = Event.objects.filter(kind="alert.raised").order_by("pk")
    assert told[0].data["text"] == words
    assert told[0].data["also"] == "Also Bea, Cid, Dan and 1 more."
    assert len({one.data["cause"] for one in told}) == 1
    # In the list of troubles they stand already.
    assert [one.text for one in troubles.find_troubles(NOW)] == [words] * 5
    actions.start_mysis(mysis=Mysis.objects.get(name="Ada"), by="test")
    look(5)
    assert list_told()[-1] == ("alert.cleared", "Ada", "errored")


def test_errors_of_one_code_have_one_cause_whatever_their_words():
    for name, model, code in (
        ("Ada", "openai:a", "key"),
        ("Bea", "openai:b", "key"),
        ("Cid", "groq:a", "key"),
        ("Dan", "openai:a", "model"),
        ("Eve", "openai:b", "model"),
    ):
        words = f"{name}: it failed."
        given = {"model": model, "last_error_code": code, "last_error": words}
        make_mysis(name=name, state="errored", **given)
    look()
    told = Event.objects.filter(kind="alert.raised").order_by("pk")
    ada, bea, *others = [one.data["cause"] for one in told]
    assert ada == bea
    assert len({ada, *others}) == 4


def test_it_reads_and_judges_before_the_transaction_that_stores_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """Somebody who stores another threshold meanwhile is not judged over."""
    fly(hull=20)
    depths = []

    def read_meanwhile(*args: Any) -> Any:
        depths.append(len(connection.savepoint_ids))
        save_alert_settings(values={"hull_percent": 10}, by="test")
        return read_fleet_facts(*args)

    monkeypatch.setattr(judge, "read_fleet_facts", read_meanwhile)
    assert not judge_fleet(NOW)
    assert list_told() == []
    monkeypatch.undo()
    assert judge_fleet(NOW)
    assert list_told() == []
    # Within the transaction of the test and no other.
    assert depths == [0]


def test_fuel_of_a_jump_is_that_of_the_newest_route_with_this_ship():
    ada = fly()
    assert ada.account
    username = ada.account.username
    for place, (fuel, reason) in enumerate(((2, ""), (7, "jump"), (99, "switch_ship"))):
        GameSnapshot.objects.create(
            username=username,
            tool_name="find_route",
            args_key=f"to={place}",
            args={"target_system": str(place)},
            content=json.dumps({"found": True, "fuel_per_jump": fuel}),
            captured_at=NOW + timedelta(seconds=place),
            marks=[{"reason": reason}] if reason else [],
        )
    # Since the newest another ship is flown: nobody knows.
    assert load_jump_fuel([username]) == {}
    GameSnapshot.objects.filter(args_key="to=2").delete()
    assert load_jump_fuel([username]) == {username: 7.0}


def test_a_rule_that_is_switched_off_clears_what_it_raised():
    fly(hull=20)
    look()
    save_alert_settings(values={"rules": ["fuel"]}, by="test")
    look(5)
    save_alert_settings(values={"rules": []}, by="test")
    look(10)
    assert [kind for kind, *_ in list_told()] == ["alert.raised", "alert.cleared"]


def test_the_alert_of_a_deleted_mysis_is_over():
    ada = fly(hull=20)
    look()
    ada.delete()
    look(5)
    assert list_told()[-1] == ("alert.cleared", "Ada", "hull")
    assert not AlarmEvidence.objects.exists()


def test_as_many_statements_for_any_number_of_myses():
    fly("Ada", hull=20)
    look()
    counts = []
    for names in (["Bea"], ["Cid", "Dan", "Eve", "Fay"]):
        for name in names:
            fly(name, hull=20)
        with record_statements() as found:
            look(5)
        counts.append(len(found))
    assert counts[0] == counts[1]
    assert counts[1] <= 21


def test_absurd_values_of_one_stop_no_alert_of_another():
    odd = fly("Odd", hull=10**400, fuel=-(10**30))
    assert odd.account
    player = {"credits": 10**23, "current_system": "s" * 500, "current_poi": "p" * 500}
    snapshot = GameSnapshot.objects.get(username=odd.account.username)
    content = json.loads(snapshot.content) | {"player": player | {"location": {}}}
    snapshot.content = json.dumps(content)
    snapshot.save()
    fly(hull=20)
    look()
    assert list_told() == [("alert.raised", "Ada", "hull")]
    evidence = AlarmEvidence.objects.get(mysis=odd)
    assert evidence.credits is None
    assert len(evidence.place) <= 300
