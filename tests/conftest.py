"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from agents import hints
from tests import postgres

# Rows are made in async tests as plainly as in others.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Have a server before pytest-django makes its database."""
    postgres.start()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Let go of the test database before it is dropped."""
    yield
    hints.close()
