"""Between tests that commit nothing is left, neither messages nor queued jobs."""

from __future__ import annotations

import httpx2
import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import actions
from agents.models import Event, Mysis
from bench.processes import Server
from memory.models import Memory
from tests.factories import make_memory, make_mysis
from tests.flushing import empty

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("length", [10, 3_000_000])
def test_rows_of_every_kind_go_and_permissions_stay(length: int) -> None:
    mysis = actions.create_mysis(name="Ada", by="test")
    actions.start_mysis(mysis=mysis, by="test")
    # Random enough not to be stored in a few bytes.
    make_memory(mysis, content="".join(map(str, range(length // 6))))
    assert ProcrastinateJob.objects.exists()
    permissions = Permission.objects.count()
    assert permissions > 0
    empty()
    for rows in (Mysis, Memory, Event, ProcrastinateJob):
        assert not rows.objects.exists()
    assert Permission.objects.count() == permissions


def test_whoever_may_not_do_without_keys_empties_all_at_once() -> None:
    actions.create_mysis(name="Ada", by="test")
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE plain")
        try:
            cursor.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO plain")
            cursor.execute("SET ROLE plain")
            empty()
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP OWNED BY plain")
            cursor.execute("DROP ROLE plain")
    assert not Mysis.objects.exists()


@pytest.mark.parametrize("name", ["Ada", "Brahe"])
def test_the_server_shows_no_row_of_the_test_before(server: Server, name: str) -> None:
    """Both of them within the seconds in which viewers share what was drawn."""
    make_mysis(name=name, state="errored", last_error="The model is unknown.")
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))
    cookies = {"sessionid": client.session.session_key or ""}
    page = httpx2.get(f"{server.origin}/", cookies=cookies, timeout=60).text
    assert {one for one in ("Ada", "Brahe") if f"/myses/{one}/" in page} == {name}
