"""Gives the test run a PostgreSQL of its own, started when a test first needs it.

Loaded early (``-p tests.postgres``), because pytest-django reads the settings
before any conftest: the data folder must be in the environment by then.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psycopg

from zoea.postgres import EmbeddedPostgres, acquire

OUTSIDE = bool(os.environ.get("DATABASE_URL"))
DATA = Path(tempfile.mkdtemp(prefix="zoea-test-"))
os.environ["ZOEA_DATA"] = str(DATA)
os.environ.setdefault("SPACEMOLT_MCP_URL", "http://127.0.0.1:9/mcp")
for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
    os.environ.pop(name, None)


# What is only for the day when the machine itself fails; and what changes plans, and what
# transactions see, at moments of its own.
OFF = ("fsync", "full_page_writes", "synchronous_commit", "autovacuum")

_servers: list[EmbeddedPostgres] = []


def start() -> None:
    """Start the embedded server, unless DATABASE_URL names another one."""
    if OUTSIDE or _servers:
        return
    server = acquire(DATA)
    _servers.append(server)
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        for name in OFF:
            connection.execute(f"ALTER SYSTEM SET {name} = off".encode())
        connection.execute("SELECT pg_reload_conf()")


def pytest_unconfigure() -> None:
    """Leave nothing behind; by now the test database has been dropped."""
    for server in _servers:
        server.release()
    shutil.rmtree(DATA, ignore_errors=True)
