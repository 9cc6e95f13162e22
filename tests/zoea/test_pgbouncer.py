"""A turn by a worker that reaches the database through PgBouncer, by transactions."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from agents import actions, events
from agents.hub import Hub
from agents.models import Turn, WorkerLock
from agents.runtime.recovery import hold_lock
from bench.processes import ROOT, clean_environment, database_url
from memory.models import Memory
from sandbox.game.testing import SandboxServer
from tests.postgres import OUTSIDE
from tests.required import require

POOLER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURED = """
[databases]
* = host={host} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 100
log_connections = 0
log_disconnections = 0
"""
CONNECTIONS = 3
UP = "process up"
PATIENCE = 120.0
ONCE = ("--one-shot", f"--shutdown-graceful-timeout={PATIENCE}")

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(OUTSIDE, reason="for the server of the tests only"),
]


@pytest.fixture
def pooled() -> Iterator[str]:
    """The address of the test's database behind a pooler with three connections."""
    require(POOLER, "pgbouncer is not installed: apt-get install pgbouncer")
    known = connection.settings_dict
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # It refuses to be root; the socket is in the folder of the server's own user.
    as_whom = ["-u", Path(known["HOST"]).owner()] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="zoea-pooler-") as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / "pgbouncer.ini"
        told = CONFIGURED.format(
            host=known["HOST"], user=known["USER"], port=port, size=CONNECTIONS
        )
        file.write_text(told)
        with subprocess.Popen(
            [str(POOLER), *as_whom, str(file)], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            said = list(itertools.takewhile(lambda x: UP not in x, process.stderr))
            assert process.poll() is None, said
            try:
                yield f"postgresql://{known['USER']}@127.0.0.1:{port}/{known['NAME']}"
            finally:
                process.terminate()


def test_a_turn_is_taken_through_a_pooler(pooled: str) -> None:
    """Nothing of it needs a connection for longer than a transaction."""
    ada = actions.create_mysis(name="Ada", by="test")
    with SandboxServer(tick=0.2) as game:
        told = {
            "DATABASE_URL": pooled,
            "ZOEA_PGBOUNCER": "1",
            "SPACEMOLT_MCP_URL": game.url,
        }
        for _ in range(2):
            actions.start_mysis(mysis=ada, by="test")
            subprocess.run(
                [sys.executable, "manage.py", "procrastinate", "worker", *ONCE],
                cwd=ROOT,
                env=clean_environment(Path(os.environ["ZOEA_DATA"])) | told,
                check=True,
                timeout=PATIENCE,
                stdout=subprocess.DEVNULL,
            )
            actions.stop_mysis(mysis=ada, by="test")
    turns = Turn.objects.order_by("number").values_list("outcome", "error")
    assert set(turns) == {("done", "")}
    assert Memory.objects.filter(mysis=ada, role="tool", is_error=False).exists()
    assert list_channels(pooled) == set()


def list_channels(pooled: str) -> set[str]:
    """The channels to which any connection of the pooler with the server listens."""
    found: set[str] = set()
    with ExitStack() as stack:
        # Each has one to itself, as long as its transaction lasts.
        for _ in range(CONNECTIONS):
            database = stack.enter_context(psycopg.connect(pooled))
            rows = database.execute("SELECT pg_listening_channels()")
            found |= {channel for (channel,) in rows}
    return found


async def test_live_pages_look_where_there_is_only_the_pooler(
    pooled: str, settings: Any
) -> None:
    settings.ZOEA_DIRECT_DATABASE_URL, settings.ZOEA_POLLING = pooled, True
    hub = Hub()
    try:
        viewer = await hub.subscribe()
        await sync_to_async(events.append)(events.Kind.ERROR, mysis_id=None, data={})
        _, item = await viewer.next()
        assert item["kind"] == "error"
        assert await sync_to_async(list_channels)(pooled) == set()
    finally:
        await hub.close()


@pytest.fixture
def direct() -> str:
    """The address of the same database past the pooler, and by it who uses it."""
    return f"{database_url()}?application_name=direct"


def await_sessions(*wanted: str) -> None:
    """Wait for sessions that went past the pooler, by the statement of each."""
    until = time.monotonic() + PATIENCE
    seen = "SELECT query FROM pg_stat_activity WHERE application_name = 'direct'"
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute(seen)
            told = " ".join(query for (query,) in cursor.fetchall())
            if all(one in told for one in wanted):
                return
            time.sleep(0.05)
    raise AssertionError(told)


def test_a_worker_behind_a_pooler_listens_and_holds_its_lock_past_it(
    pooled: str, direct: str
) -> None:
    told = {
        "DATABASE_URL": pooled,
        "ZOEA_PGBOUNCER": "1",
        "ZOEA_DIRECT_DATABASE_URL": direct,
        "SPACEMOLT_MCP_URL": "http://127.0.0.1:9/mcp",
    }
    with subprocess.Popen(
        [sys.executable, "manage.py", "procrastinate", "worker"],
        cwd=ROOT,
        env=clean_environment(Path(os.environ["ZOEA_DATA"])) | told,
        stdout=subprocess.DEVNULL,
    ) as worker:
        try:
            await_sessions('LISTEN "procrastinate', "agents_workerlock")
            assert WorkerLock.objects.count() == 1
        finally:
            worker.terminate()
    assert not WorkerLock.objects.exists()


async def test_live_pages_listen_and_are_told_past_the_pooler(
    direct: str, settings: Any
) -> None:
    settings.ZOEA_DIRECT_DATABASE_URL = direct
    hub, hinter = Hub(), events.Hinter()
    try:
        await hub.subscribe()
        hinter.send()
        await sync_to_async(await_sessions)("agents_event", "NOTIFY zoea_events")
    finally:
        await hub.close()
        await sync_to_async(hinter.close)()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://zoea:secret@127.0.0.1:1/zoea", "Connection refused"),
        ("nonsense:secret", "must begin with postgresql://"),
    ],
)
def test_a_direct_address_that_cannot_be_used_is_refused(
    pooled: str, address: str, said: str
) -> None:
    told = {"DATABASE_URL": pooled, "ZOEA_DIRECT_DATABASE_URL": address}
    ended = subprocess.run(
        [sys.executable, "manage.py", "prune", "--keep-days=30"],
        cwd=ROOT,
        env=clean_environment(Path(os.environ["ZOEA_DATA"])) | told,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "ZOEA_DIRECT_DATABASE_URL" in ended.stderr
    assert said in ended.stderr
    assert "secret" not in ended.stderr


async def test_a_worker_holds_no_lock_through_a_pooler(pooled: str) -> None:
    """Nobody would own it: the others go by the worker's heartbeat alone."""
    async with await psycopg.AsyncConnection.connect(
        pooled, autocommit=True, prepare_threshold=None
    ) as database:
        assert not await hold_lock(database, 1)
    assert not await WorkerLock.objects.aexists()
