"""Broadcasts that reached nobody are found, page by page, like all others."""

from __future__ import annotations

import pytest
from django.test import Client

from agents import actions
from tests.factories import make_mysis
from zoea.auth import create_token

pytestmark = pytest.mark.django_db


def test_every_page_leads_to_the_next():
    _, secret = create_token(name="t", role="viewer")
    headers = {"Authorization": f"Bearer {secret}"}
    for number in range(6):
        if number == 3:
            make_mysis()
        actions.send_broadcast(text=f"dock {number}", by="x")
    found, before = [], ""
    for _ in range(10):
        url = f"/api/v1/search/broadcasts?q=dock&limit=2{before}"
        body = Client().get(url, headers=headers).json()
        found += [item["content"] for item in body["items"]]
        if body["next"] is None:
            break
        before = f"&before={body['next']}"
    assert found == [f"dock {number}" for number in reversed(range(6))]
