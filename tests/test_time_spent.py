"""What kind a test is, for the sums at the end of a run."""

from __future__ import annotations

import pytest

from tests.time_spent import find_kind


def test_one_that_asks_for_nothing_is_pure(request: pytest.FixtureRequest) -> None:
    assert find_kind(request.node) == "pure"


def test_a_database_that_is_rolled_back(
    db: None, request: pytest.FixtureRequest
) -> None:
    assert find_kind(request.node) == "rolled-back database"


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_not(request: pytest.FixtureRequest) -> None:
    assert find_kind(request.node) == "committed database"
