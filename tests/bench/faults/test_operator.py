"""The operator of a fleet at a real server: when a request is sent again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest
from django.db import connection, transaction

from bench.faults import operator
from bench.faults.operator import IN_PROGRESS, Operator
from bench.processes import Server
from zoea.auth import create_token
from zoea.models import IdempotencyRecord

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def token() -> str:
    return create_token(name="chaos", role="admin")[1]


def make(server: Server, token: str, name: str) -> object:
    """Make a Mysis, in the first request of an operator."""
    made = {"name": name, "model": "pilot"}
    return Operator([server.port], token).request("POST", "/myses", made)


def test_what_an_answer_only_mentions_is_no_reason_to_ask_again(
    server: Server, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "REQUEST_PATIENCE", 0.0)
    assert make(server, token, IN_PROGRESS)


def test_a_request_that_still_runs_is_waited_for(
    server: Server, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(1) as other, transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE agents_mysis IN EXCLUSIVE MODE")
        first = other.submit(make, server, token, "Ada")
        while not IdempotencyRecord.objects.exists() and not first.done():
            sleep(0.01)
        with monkeypatch.context() as patched:
            patched.setattr(operator, "REQUEST_PATIENCE", 0.0)
            with pytest.raises(TimeoutError, match="nobody answered POST /myses"):
                make(server, token, "Ada")
    assert make(server, token, "Ada") == first.result()
