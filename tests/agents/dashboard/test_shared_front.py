"""What a visit of the Fleet page makes anew: never all that shows at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.dashboard import flags, fleet
from agents.dashboard.accounts import read_statuses
from agents.dashboard.live import fleet_page
from agents.dashboard.shared_results import RECHECK_SHARED
from bench.pages.scenes import add_account, add_turns
from tests.factories import make_mysis
from tests.statements import record_statements

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
# Statements of a visit to which only the smallest part is due, and of the largest part
# that may be, with a row: which one comes due with it hangs on the number of the Mysis.
QUIET, LARGEST = 8, 11


def test_each_row_is_made_anew_at_a_moment_of_its_own():
    for number in range(30):
        make_mysis(name=f"M{number:02}")
    shown = fleet.load_view(fleet.FleetView(), NOON).shown
    fresh = []
    for second in range(1, RECHECK_SHARED + 1):
        now = NOON + timedelta(seconds=second)
        again = fleet.load_view(fleet.FleetView(), now).shown
        fresh.append(sum(a is not b for a, b in zip(shown, again, strict=True)))
        shown = again
    assert fresh == [3] * RECHECK_SHARED


def test_flags_are_counted_a_part_of_the_fleet_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
):
    for number in range(12):
        mysis = make_mysis(name=f"M{number:02}", hold="no credit" if number % 2 else "")
        add_account(mysis, stale=number % 3 == 0)
    judged: list[int] = []

    def note(cached: Any, present: Any) -> Any:
        judged.append(len(present))
        return read_statuses(cached, present)

    monkeypatch.setattr("agents.dashboard.flags.read_statuses", note)
    whole = flags.count_flags()
    assert whole == {"held": 6, "stuck": 0, "stale": 4}
    assert flags.share_flags(NOON) == whole
    assert judged == [12, 3, 3, 3, 3]
    judged.clear()
    for second in range(1, RECHECK_SHARED + 1):
        before = len(judged)
        assert flags.share_flags(NOON + timedelta(seconds=second)) == whole
        assert len(judged) - before <= 1
    assert judged == [3, 3, 3, 3]


def test_no_visit_waits_for_all_that_is_shared(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
):
    mysis = make_mysis(name="Ada")
    add_account(mysis)
    add_turns(mysis, turns=2)
    # At one moment of the ten seconds: which shares come due together hangs on it.
    now = timezone.now()
    began = now - timedelta(seconds=now.timestamp() % RECHECK_SHARED)
    counts = []
    for second in range(3 * RECHECK_SHARED):
        now = began + timedelta(seconds=second)
        monkeypatch.setattr(timezone, "now", lambda now=now: now)
        with record_statements() as asked:
            admin_client.get("/?sort=name")
        counts.append(len(asked))
    counts = counts[RECHECK_SHARED:]
    # Before a first order it may also be asked whether a script flies all.
    assert QUIET <= min(counts) <= QUIET + 1
    assert max(counts) <= QUIET + 1 + LARGEST


def test_turns_that_end_in_the_same_two_seconds_show_together():
    first = fleet_page.share_head(NOON, 1, 5, 0)
    with record_statements() as asked:
        assert fleet_page.share_head(NOON, 1, 6, 0) == first
    assert asked == []
    later = NOON + timedelta(seconds=fleet_page.TURNS_TOGETHER)
    for now, wide in ((later, 1), (NOON, 2)):
        # As soon as they are over, and at once where a state changed.
        with record_statements() as asked:
            fleet_page.share_head(now, wide, 6, 0)
        assert any("agents_mysis" in sql for sql in asked)


def test_a_failed_turn_shows_without_a_change_of_state_and_goes_as_it_is_mended():
    mysis = make_mysis(name="Ada", state="running")
    shown = []
    for number, error in enumerate(("", "No credit left.", "")):
        mysis.last_error = error
        mysis.save()
        now = NOON + timedelta(seconds=number * fleet_page.TURNS_TOGETHER)
        head = "".join(one.html for one in fleet_page.share_head(now, 1, number, 0))
        shown.append("No credit left." in head)
    assert shown == [False, True, False]
