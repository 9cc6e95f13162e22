"""What a visit of the Fleet page makes anew: never all that shows at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agents.dashboard.live import fleet_page
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
# Statements of a visit to which only the smallest part is due, and of the largest part
# that may be, with a row: which one comes due with it hangs on the number of the Mysis.
QUIET, LARGEST = 8, 11


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
