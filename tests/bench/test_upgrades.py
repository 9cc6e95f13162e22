"""The database of a release, measured as it is brought up to date."""

from __future__ import annotations

from collections import Counter

import pytest

from bench import upgrades
from bench.upgrades import Upgrade, build_table, count_lost, measure_upgrade
from tests import postgres
from zoea.postgres.cluster import Cluster


@pytest.mark.skipif(postgres.OUTSIDE, reason="its database is made in the embedded one")
def test_the_newest_is_brought_up_to_date_and_loses_no_row() -> None:
    postgres.start()
    newest = upgrades.list_releases()[-1]
    found = measure_upgrade(newest, Cluster(postgres.DATA))
    assert (found.release, found.lost) == (newest, {})
    assert found.rows > 100
    assert found.seconds > 0


def test_a_row_that_is_another_is_lost_and_of_equal_ones_each_counts() -> None:
    before = {"mysis": Counter("aab"), "turn": Counter("c")}
    after = {"mysis": Counter("abd"), "turn": Counter("cc")}
    assert count_lost(before, after) == {"mysis": 1}


def test_the_table_says_of_which_tables_rows_are_lost() -> None:
    whole = Upgrade("2026-01-01", 1234, {}, 2.34, 1.0)
    torn = Upgrade("2026-01-02", 9, {"turn": 2, "mysis": 1}, 1.0, 1.0)
    assert build_table([whole, torn]).rows == [
        ["2026-01-01", "1,234", "none", "2.3 s", "1.0 s"],
        ["2026-01-02", "9", "2 of turn, 1 of mysis", "1.0 s", "1.0 s"],
    ]


def test_a_release_that_there_is_not_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        upgrades.parse_options(["2026"])
    assert "no release is called 2026: use 2026-11-20 or" in capsys.readouterr().err
