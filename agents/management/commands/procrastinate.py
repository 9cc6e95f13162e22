"""``manage.py procrastinate``: the queue's own command, with a worker that knows the time.

PostgreSQL tells a worker of a job when it is made, and of nothing when it is due: so the
queue would have to be asked all the time for turns that wait for a tick.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandError
from procrastinate import PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.contrib.django import app
from procrastinate.contrib.django.management.commands import procrastinate
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from psycopg import AsyncConnection

from agents import db
from agents.events import get_connection_parameters
from agents.runtime.recovery import WorkerJobManager

logger = logging.getLogger(__name__)

# Seconds. No other process tells that a lock has become free, for which a due job may
# wait.
BLOCKED = 0.5
# How long the queue is left alone while nothing is told: a notification may be lost.
REST = 5.0
# So many seconds after the moment, by another clock than ours, a job is surely due.
MARGIN = 0.002

# By the partial index on jobs that are to be done.
NEXT_DUE = """
SELECT bool_or(scheduled_at IS NULL OR scheduled_at <= now()) AS due,
  extract(epoch FROM min(scheduled_at) FILTER (WHERE scheduled_at > now()) - now())::float
    AS seconds
FROM procrastinate_jobs
WHERE status = 'todo' AND (%(queues)s::text[] IS NULL OR queue_name = ANY(%(queues)s))
"""
DUE = json.dumps({"type": "job_inserted", "job_id": 0})


class PunctualConnector(PsycopgConnector):
    """Tells the worker of each job when it is due, not when it is made."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._made = asyncio.Event()

    async def listen_notify(
        self, on_notification: Notify, channels: Iterable[str]
    ) -> None:
        """Listen until cancelled; all else that the queue tells is passed on."""
        names = list(channels)

        async def hear(*, channel: str, payload: str) -> None:
            if json.loads(payload)["type"] == "job_inserted":
                self._made.set()
            else:
                await on_notification(channel=channel, payload=payload)

        async with asyncio.TaskGroup() as group:
            group.create_task(super().listen_notify(hear, names))
            group.create_task(self._tell_when_due(on_notification, names))

    @asynccontextmanager
    async def _get_standalone_connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        # For LISTEN, which no pooler passes on.
        async with await AsyncConnection.connect(
            **get_connection_parameters(), autocommit=True
        ) as connection:
            yield connection

    def look_again(self) -> None:
        """Tell the worker of what is due now, though nothing was queued."""
        self._made.set()

    async def _loop_notify(self, *args: Any, **options: Any) -> None:
        # Of what was queued before it listened, at first and after a lost connection,
        # nothing was told.
        self.look_again()
        await super()._loop_notify(*args, **options)

    async def _tell_when_due(self, tell: Notify, channels: Sequence[str]) -> None:
        # The channel of all queues names none.
        queues = [name.partition("#")[2] for name in channels if "#" in name] or None
        while True:
            self._made.clear()
            try:
                row = await self.execute_query_one_async(NEXT_DUE, queues=queues)
            except ConnectorException as error:
                logger.warning("What is due next is not known: %s", error.__cause__)
                row = {"due": False, "seconds": BLOCKED}
            rest = BLOCKED if row["due"] else REST
            if row["due"]:
                await tell(channel=channels[0], payload=DUE)
            if row["seconds"] is not None:
                rest = min(rest, row["seconds"] + MARGIN)
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._made.wait()


def _require_game() -> None:
    """Refuse where no game is named and none answers; raises CommandError."""
    if settings.ZOEA_GAME_NAMED:
        return
    address = urlsplit(settings.SPACEMOLT_MCP_URL)
    port = address.port or {"https": 443}.get(address.scheme, 80)
    try:
        socket.create_connection((address.hostname or "", port), 2).close()
    except OSError:
        raise CommandError(
            f"No local game runs at {settings.SPACEMOLT_MCP_URL}: start one with "
            "`manage.py up` on this data folder, or set SPACEMOLT_MCP_URL.",
            returncode=2,
        ) from None


class Command(procrastinate.Command):
    """Runs workers with it; no check of pages, which a worker does not load."""

    requires_system_checks = ["zoea"]

    def handle(self, *args: Any, **options: Any) -> None:
        if options["command"] == "worker":
            _require_game()
        db.keeps_connections.set()
        # Of its four connections one is kept while nothing is to be done.
        connector = PunctualConnector(
            kwargs=connector_params(), min_size=1, max_size=4, max_idle=30
        )
        with app.replace_connector(connector) as queue:
            queue.job_manager = WorkerJobManager(connector, connector.look_again)
            super().handle(*args, app=app, **options)
