"""Whoever looks at the pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def sign_in(db: None) -> Callable[..., Client]:
    """A client of somebody with a role."""

    def signed(role: str = "admin", **options: Any) -> Client:
        staff = role in ("admin", "operator")
        user = User.objects.create_user(
            role, is_staff=staff, is_superuser=role == "admin"
        )
        client = Client(**options)
        client.force_login(user)
        return client

    return signed


@pytest.fixture
def admin(sign_in: Callable[..., Client]) -> Client:
    """Somebody who may do everything."""
    return sign_in()
