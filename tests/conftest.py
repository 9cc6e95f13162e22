"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher

from agents import hints
from tests import flushing, postgres

# Rows are made in async tests as plainly as in others.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> None:
    """Hash passwords in a moment; every process can still check them."""
    PBKDF2PasswordHasher.iterations = 1


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Have a server before pytest-django makes its database."""
    postgres.start()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Empty it in our way; let go of it before it is dropped."""
    flushing.replace_flush()
    yield
    hints.close()
