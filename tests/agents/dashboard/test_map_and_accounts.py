"""Map, accounts, health and the line of the credits."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from agents import actions
from agents.budgets import Amount
from agents.consumers import dashboard
from agents.dashboard import budget_bars, conversation, fleet, game_state, health, map
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.events import START
from agents.models import Budget, BudgetSpend, CreditChange, Mysis, Provider
from agents.usage import today
from memory.models import GameSnapshot, Lexicon
from tests.browser import scenes
from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.statements import record_statements


def system(number: int, **values: Any) -> dict[str, Any]:
    """One system of a map, linked with the next."""
    return {
        "system_id": f"s{number}",
        "name": f"Star {number}",
        "position": {"x": number * 10, "y": number % 7},
        "connections": [f"s{number + 1}", "s0"],
        **values,
    }


def chart(systems: list[dict[str, Any]]) -> None:
    """A map that some account was told."""
    GameSnapshot.objects.create(
        username="Pilot",
        tool_name="get_map",
        content=json.dumps({"systems": systems}),
        captured_at=timezone.now(),
    )


def ship_in(mysis: Mysis, place: str) -> None:
    """A Mysis whose ship is in a system."""
    mysis.account = make_account()
    mysis.save()
    GameSnapshot.objects.create(
        username=mysis.account.username,
        tool_name="get_status",
        content=json.dumps({"player": {"current_system": place}}),
        captured_at=timezone.now(),
    )


def test_a_map_has_every_lane_once_and_the_ships_where_they_are(db: None):
    chart([system(n) for n in range(5)])
    ship_in(make_mysis(name="Ada", state="running"), "s2")
    ship_in(make_mysis(name="Brahe", state="errored"), "s2")
    ship_in(make_mysis(name="Cassini"), "elsewhere")
    drawn = map.load_chart()
    assert drawn is not None
    assert len(drawn.stars) == 5
    # A row of five, and each but its neighbour with the first.
    assert drawn.lanes.count("M") == 7
    assert all(0 <= star.x <= drawn.width for star in drawn.stars.values())
    found = map.place_ships(drawn)
    [group] = found.groups
    assert (group.star.id, group.label, group.state) == ("s2", "2 ships", "errored")
    assert [ship.name for ship in found.lost] == ["Cassini"]


@pytest.mark.parametrize(
    "content",
    ["no JSON", "[]", '{"systems": 3}', '{"systems": [{"name": "x"}, 7]}'],
)
def test_an_odd_map_is_no_map(content: str):
    systems = map.read_systems(content)
    assert map.draw_chart(systems, "Pilot", timezone.now()) is None


def jump(mysis: Mysis, *targets: str, **values: Any) -> None:
    """Jumps of a Mysis as they stand in its log."""
    for target in targets:
        call = {"tool_name": "jump", "args": {"target_system": target}}
        make_memory(mysis, role="tool", **{**call, **values})


def test_a_trail_leads_to_where_a_ship_is(db: None):
    chart([system(n) for n in range(20)])
    ada, brahe, cori, dee = (
        make_mysis(name=n) for n in ("Ada", "Brahe", "Cori", "Dee")
    )
    ship_in(ada, "s12")
    jump(ada, *(f"s{n}" for n in range(13)))
    # Refused, of unknown end, or to nowhere: it was not there.
    jump(ada, "s19", is_error=True)
    jump(ada, "s18", pending=True)
    # The last is queued still; a place may be called by its name.
    ship_in(brahe, "s2")
    jump(brahe, "s1", "star 2", "s7")
    # Moved on by other means than a jump.
    ship_in(cori, "s9")
    jump(cori, "s3", "nowhere")
    ship_in(dee, "s5")
    drawn = map.load_chart()
    assert drawn is not None
    found = {one.ship.name: one for one in map.place_ships(drawn).trails}
    assert [star.id for star in found["Ada"].stars] == [f"s{n}" for n in range(5, 13)]
    assert found["Brahe"].words == "Star 1, Star 2"
    assert found["Cori"].words == "Star 3, Star 9"
    assert "Dee" not in found
    steps = [(ago, one.id, two.id) for ago, one, two in found["Ada"].steps]
    assert (steps[0], steps[-1]) == ((7, "s5", "s6"), (1, "s11", "s12"))


def test_the_map_hands_over_to_its_socket(
    admin: Client, monkeypatch: pytest.MonkeyPatch
):
    day = timezone.now() + timedelta(days=2)
    monkeypatch.setattr(timezone, "now", lambda: day)
    assert "page=map-arrived" in admin.get("/map/").content.decode()
    waiting = dashboard.make_page(b"page=map-arrived")
    assert waiting is not None
    assert "Show it" not in str(waiting.draw_all(START))
    chart([system(n) for n in range(5)])
    day += timedelta(seconds=11)
    assert "Show it" in str(waiting.draw_changes(Dirty()))
    mysis = make_mysis(name="Ada", state="running")
    ship_in(mysis, "s2")
    jump(mysis, "s1", "s2")
    html = admin.get("/map/").content.decode()
    query = re.search(r'ws-connect="/ws/dashboard/\?([^"]+)"', html)
    assert query is not None
    page = dashboard.make_page(query[1].encode())
    assert page is not None
    swaps = page.draw_all(START)
    # What the page has is what the socket brings: the browser leaves it alone.
    for name, swap in zip(("map-ships", "map-trails"), swaps, strict=True):
        shown = re.search(rf'id="{name}" data-v="\w+"', html)
        assert shown is not None
        assert shown[0] in swap
        assert "Star 1, Star 2" in swap
    GameSnapshot.objects.filter(tool_name="get_status").update(
        content=json.dumps({"player": {"current_system": "s4"}})
    )
    assert page.draw_changes(Dirty()) == []
    day += timedelta(seconds=11)
    swaps = page.draw_changes(Dirty())
    assert all("Star 4" in swap for swap in swaps)
    assert len(swaps) == 2
    assert page.draw_changes(Dirty(everything=True)) == []


def test_a_map_of_one_system_is_not_the_map(db: None):
    chart([system(n) for n in range(5)])
    GameSnapshot.objects.create(
        username="Pilot",
        tool_name="get_map",
        args_key="system_id=s1",
        content=json.dumps({"systems": [system(1)]}),
        captured_at=timezone.now(),
    )
    drawn = map.load_chart()
    assert drawn is not None
    assert len(drawn.stars) == 5


def test_without_a_map_somebody_can_ask_for_it(admin: Client, settings: Settings):
    settings.ZOEA_FETCH_MAP = True
    assert "by itself" in admin.get("/map/").content.decode()
    settings.ZOEA_FETCH_MAP = False
    assert "by itself" not in admin.get("/map/").content.decode()
    assert "Start one" in admin.get("/map/").content.decode()
    ship_in(make_mysis(name="Ada"), "s1")
    assert "Ask for the map" in admin.get("/map/").content.decode()
    answer = admin.post("/map/ask/", {"mysis": "999"}, headers={"hx-request": "true"})
    assert answer.status_code == 422


def test_accounts_tell_who_flies_them_and_never_a_password(admin: Client):
    mysis = make_mysis(name="Ada", state="running")
    scenes.add_account(mysis, credits=4_321, stale=True)
    free = make_account(username="Spare <b>")
    free.password = "sesame-opens"
    free.save()
    page = admin.get("/accounts/").content.decode()
    for part in ("4,321", "Asteroid Belt Alpha", "1 invalidated", "free"):
        assert part in page
    assert "Spare &lt;b&gt;" in page
    assert "sesame" not in page
    page = admin.get("/accounts/?q=spare").content.decode()
    assert "4,321" not in page
    assert "No account has" in admin.get("/accounts/?q=zzz").content.decode()


def test_health_names_what_is_wrong_and_the_remedy(admin: Client):
    page = admin.get("/health/").content.decode()
    assert "No worker runs" in page
    assert 'start a Mysis in the <a href="/">fleet</a>' in page
    assert 'among the <a href="/events/">events</a>' in page
    broken = make_mysis(name="Ada", state="errored", last_error="Key refused.")
    make_turn(broken, outcome="errored", error="502 from <the> game")
    Provider.objects.create(name="main", kind="openai")
    with record_statements() as asked:
        page = admin.get("/health/").content.decode()
    said = " ".join(asked)
    for once in ("procrastinate_jobs", "pg_database_size", "pg_total_relation_size"):
        assert said.count(once) == 1
    for part in ("Key refused.", "502 from &lt;the&gt; game", "no key", "memory_"):
        assert part in page


def test_credits_are_a_line_through_what_the_game_told(db: None):
    mysis, now = make_mysis(name="Ada"), timezone.now()
    assert dashboard_mysis.load_credits_trend("Ada") is None
    # Of a life before this one nothing counts.
    for level in (7_000, None, 100, 90, 400):
        CreditChange.objects.create(username="Ada", mysis=mysis, credits=level, at=now)
    CreditChange.objects.create(username="Bea", mysis=mysis, credits=9, at=now)
    found = dashboard_mysis.load_credits_trend("Ada")
    assert found is not None
    assert (found.first, found.last, found.low, found.high) == (100, 400, 90, 400)
    assert found.change == 300


# -- the pane beside the conversation ------------------------------------------------


@pytest.mark.parametrize(
    ("body", "gist"),
    [
        ('{"queued": true, "message": "Mining\\nIron"}', "Mining Iron"),
        ('{"docked": "Sol", "fuel": 7, "list": [1]}', "docked Sol, fuel 7"),
        ('{"systems": []}', "systems"),
        ("plain  text\nhere", "plain text here"),
        ("{broken", "{broken"),
    ],
)
def test_the_gist_of_an_answer(body: str, gist: str):
    assert conversation.excerpt_answer(body) == gist


def test_a_message_is_inspected_with_what_becomes_of_it(admin: Client):
    mysis = make_mysis(name="Ada")
    rows = scenes.add_conversation(mysis)
    address = f"/myses/Ada/messages/{rows[1].pk}/inspect/"
    page = admin.get(address).content.decode()
    for part in ("get_status", "The belt is rich", "kept", "done"):
        assert part in page
    assert admin.get("/myses/Ada/messages/999999/inspect/").status_code == 404


def test_what_the_last_call_was_shown_stands_beside_what_is_known(db: None):
    mysis = make_mysis(name="Ada")
    scenes.add_account(mysis)
    assert mysis.account is not None
    username = mysis.account.username
    beliefs = {"get_status/Credits": "7", "get_status/Fuel": "45/130"}
    found, _ = game_state.load_sections(username, timezone.now(), beliefs)
    facts = {f.label: f for s in found if s.tool == "get_status" for f in s.facts}
    assert facts["Credits"].believed == "7"
    assert facts["Fuel"].believed == ""


def test_a_fact_that_an_event_told_has_an_age_of_its_own(db: None):
    mysis = make_mysis(name="Ada")
    scenes.add_account(mysis)
    assert mysis.account is not None
    row = GameSnapshot.objects.get(
        username=mysis.account.username, tool_name="get_status"
    )
    row.field_ticks = {"player.credits": scenes.TICK - 1}
    row.merged = row.content
    row.save()
    found, _ = game_state.load_sections(mysis.account.username, timezone.now(), {})
    facts = {f.label: f for s in found if s.tool == "get_status" for f in s.facts}
    assert facts["Credits"].age_ticks == 1
    assert facts["Fuel"].age_ticks is None


def test_a_held_mysis_says_why(admin: Client):
    make_mysis(name="Ada", state="running", hold="Budget <day> is spent: raise it.")
    for address in ("/", "/myses/Ada/"):
        page = admin.get(address).content.decode()
        assert "Budget &lt;day&gt; is spent: raise it." in page


# -- what places are called ----------------------------------------------------------


def test_a_place_is_named_by_what_was_told_before_or_by_anybodys_map(
    db: None, monkeypatch: pytest.MonkeyPatch
):
    day = timezone.now() + timedelta(days=1)
    monkeypatch.setattr(timezone, "now", lambda: day)
    mysis = make_mysis(name="Ada", state="running")
    scenes.add_account(mysis)
    account = mysis.account
    assert account is not None
    player = {"current_system": "s3", "current_poi": "s3_belt", "credits": 5}
    GameSnapshot.objects.filter(tool_name="get_status").update(
        content=json.dumps({"player": player})
    )
    Lexicon.objects.create(username=account.username, names={"s3_belt": "Old Belt"})
    Lexicon.objects.create(username="Other", names={"s3": "Not yours"})
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.location == "s3 > Old Belt"
    # What nobody can name is not asked for at every look, but now and then.
    with CaptureQueriesContext(connection) as asked:
        fleet.load_rows([mysis.pk], timezone.now())
    assert "memory_lexicon" not in str(asked.captured_queries)
    monkeypatch.setattr(timezone, "now", lambda: day + timedelta(seconds=11))
    chart([system(n, name=f"Star {n}") for n in range(5)])
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.location == "Star 3 > Old Belt"
    assert row.standing.place == "s3 > s3_belt"
    # And another name is heard of.
    Lexicon.objects.filter(username=account.username).update(names={"s3_belt": "Rim"})
    monkeypatch.setattr(timezone, "now", lambda: day + timedelta(seconds=22))
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.location == "Star 3 > Rim"
    facts = dashboard_mysis.load_panel(mysis, timezone.now()).sections[0].facts
    # As the state block has it, which goes by what this account was told.
    assert "s3 > Rim" in [fact.value for fact in facts]


# -- money ---------------------------------------------------------------------------


def test_the_fleets_credits_say_how_many_are_known(db: None):
    assert health.read_fleet_money() == health.FleetMoney()
    for name, held in (("Ada", 100), ("Brahe", 250)):
        scenes.add_account(make_mysis(name=name), credits=held)
    silent = make_mysis(name="Cassini")
    silent.account = make_account()
    silent.save()
    # Nobody flies it: not the fleet's.
    spare = make_mysis(name="Draper")
    scenes.add_account(spare, credits=9_000)
    spare.delete()
    now = timezone.now()
    oldest = now - timedelta(hours=1)
    first = GameSnapshot.objects.filter(tool_name="get_status").order_by("pk")[:1]
    GameSnapshot.objects.filter(pk__in=first.values("pk")).update(captured_at=oldest)
    found = health.read_fleet_money()
    assert (found.credits, found.known, found.oldest) == (350, 2, oldest)
    assert "2 of 3 known" in str(
        fragments.draw_fleet_head(health.read_health(now))[0].html
    )


def test_budgets_are_told_with_what_is_left(admin: Client):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    cap = Budget.objects.create(name="Cap", scope="fleet", cost=Decimal(5))
    each = Budget.objects.create(name="Each", scope="each", tokens=1_000)
    Budget.objects.create(name="Roomy", scope="group", label="x", tokens=50_000)
    BudgetSpend.objects.create(budget=cap, day=today(), cost=Decimal("4.20"))
    for mysis, tokens in ((ada, 100), (brahe, 1_000)):
        BudgetSpend.objects.create(
            budget=each, subject=mysis.pk, day=today(), tokens=tokens
        )
    found = [
        (one.budget.name, one.percent, one.level)
        for one in budget_bars.load_fleet_limits()
    ]
    assert found == [("Each", 100, "spent"), ("Cap", 84, "near"), ("Roomy", 0, "fine")]
    page = admin.get("/").content.decode()
    assert "$0.80 left" in page
    assert f"/admin/agents/budget/{cap.pk}/change/" in page
    BudgetSpend.objects.update(day=today() - timedelta(days=1))
    assert {one.level for one in budget_bars.load_fleet_limits()} == {"fine"}
    page = admin.get(f"/myses/{ada.pk}/").content.decode()
    assert "0 of 1.0k tokens today" in page


@pytest.mark.parametrize(
    ("tokens", "cost", "said"),
    [(900, "1.00", "100 tokens left"), (100, "4.50", "$0.50 left")],
)
def test_what_is_left_is_told_of_the_limit_that_ends_first(
    db: None, tokens: int, cost: str, said: str
):
    both = Budget.objects.create(name="B", scope="fleet", tokens=1_000, cost=Decimal(5))
    BudgetSpend.objects.create(
        budget=both, day=today(), tokens=tokens, cost=Decimal(cost)
    )
    [found] = budget_bars.load_fleet_limits()
    assert (found.percent, found.level) == (90, "near")
    assert said in fragments.draw_template("shared/limit", one=found)


def test_a_budget_of_each_tells_of_one_mysis_that_lives(db: None):
    each = Budget.objects.create(name="E", scope="each", tokens=1_000, cost=Decimal(5))
    spent = {"Ada": (900, 1), "Brahe": (100, 4), "Cori": (2_000, 9)}
    myses = {name: make_mysis(name=name) for name in spent}
    fleet_wide = Budget.objects.create(name="F", scope="fleet", tokens=10_000)
    BudgetSpend.objects.create(budget=fleet_wide, day=today(), tokens=3_000)
    for name, (tokens, cost) in spent.items():
        BudgetSpend.objects.create(
            budget=each,
            subject=myses[name].pk,
            day=today(),
            tokens=tokens,
            cost=Decimal(cost),
        )
    # However it went: a call under way may be counted when its Mysis is gone.
    Mysis.objects.filter(name="Cori").delete()
    nearest, total = budget_bars.load_fleet_limits()
    assert (nearest.who, nearest.percent, nearest.spent) == (
        "Ada",
        90,
        Amount(900, Decimal(1)),
    )
    assert total.spent.tokens == 3_000
    drawn = fragments.draw_template("fleet/limits", limits=[nearest])
    assert "nearest its end: <bdi>Ada</bdi>" in drawn
    actions.delete_mysis(mysis=myses["Ada"], by="system")
    nearest, total = budget_bars.load_fleet_limits()
    assert (nearest.who, nearest.percent, nearest.spent) == (
        "Brahe",
        80,
        Amount(100, Decimal(4)),
    )
    assert total.spent.tokens == 3_000
    assert not BudgetSpend.objects.filter(subject=myses["Ada"].pk).exists()


def test_a_strip_costs_the_same_queries_at_any_size(
    db: None, django_assert_num_queries: Any
):
    def look(count: int) -> None:
        with django_assert_num_queries(count):
            health.read_fleet_money()
            budget_bars.load_fleet_limits()

    def add(name: str) -> None:
        scenes.add_account(make_mysis(name=name))
        Budget.objects.create(name=name, scope="each", tokens=5)

    add("Ada")
    health.read_fleet_money()
    look(6)
    for number in range(5):
        add(f"M{number}")
    health.read_fleet_money()
    look(6)
