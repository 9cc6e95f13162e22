"""What a test needs of the machine, and what becomes of the test without it."""

from __future__ import annotations

import os

import pytest


def require(found: object, missing: str) -> None:
    """Skip the test where nothing is ``found``; with ``CI`` set, fail it.

    A newcomer may do without; an integration run that skips proves nothing. ``missing``
    says what is not there and how to get it.
    """
    if not found:
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
