"""Writes from pages have a pace, as those of programs have."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import make_mysis
from tests.programs import ROOT
from zoea import rate_limits
from zoea.rate_limits import Limiter

pytestmark = pytest.mark.django_db


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(rate_limits, "writes", Limiter(rate=1e-6, burst=2))
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("ann"))
    return client


def test_too_many_writes_of_a_page_are_429(visitor: Client) -> None:
    make_mysis(name="Ada")
    url = "/myses/Ada/stop/"
    assert [visitor.post(url).status_code for _ in range(2)] == [302, 302]
    refused = visitor.post(url)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert b"Too many changes" in refused.content
    part = visitor.post(url, headers={"HX-Request": "true"})
    assert (part.status_code, part["HX-Retarget"]) == (429, "#notices")
    assert part.content.startswith(b"<p")
    assert visitor.get("/myses/Ada/").status_code == 200
    assert visitor.post("/admin/zoea/apitoken/add/").status_code == 429


def test_the_api_in_a_browser_shares_the_account_and_counts_once(
    visitor: Client,
) -> None:
    make_mysis(name="Ada")
    found = [visitor.post(f"{ROOT}/myses/Ada/stop").status_code for _ in range(2)]
    assert 429 not in found
    assert visitor.post("/myses/Ada/stop/").status_code == 429


def test_everybody_has_a_pace_of_their_own(visitor: Client) -> None:
    make_mysis(name="Ada")
    for _ in range(3):
        visitor.post("/myses/Ada/stop/")
    other = Client()
    other.force_login(User.objects.create_superuser("bob"))
    assert other.post("/myses/Ada/stop/").status_code == 302
