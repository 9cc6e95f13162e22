"""A turn by a worker that reaches the database through PgBouncer, by transactions."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from agents import actions
from agents.models import Turn
from bench.processes import ROOT, clean_environment
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
