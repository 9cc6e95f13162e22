"""The way from the event loop to the database, in a few threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Event
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import connection

from memory.models import fetch_rows

P = ParamSpec("P")
T = TypeVar("T")

# Enough for the steps of all turns of a process: each takes milliseconds. One connection
# of the pool is left for what is no step.
_POOL: int = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
MOST_THREADS = max(1, min(8, _POOL - 1))
_threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="database")
_long_threads = ThreadPoolExecutor(4, thread_name_prefix="database-long")
_socket_threads = ThreadPoolExecutor(
    max(1, min(4, _POOL - 2)), thread_name_prefix="database-sockets"
)
# Set in a worker, where nobody else wants the connections of these threads. In a web
# process the pages share a pool with them.
keeps_connections = Event()


async def run_in_db(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run database work in one of a few threads; those of a worker keep connections.

    A thread for each turn, or a connection taken anew for each step, costs more than
    most of the work. Whoever is cancelled waits for the end of a step that has begun,
    so that what follows finds what it wrote.
    """
    step = partial(work, *args, **kwargs)
    return await wait_for_step(_threads.submit(copy_context().run, _run_step, step))


async def run_long_in_db(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`run_in_db` for what may take seconds, such as a search: no step waits for it."""
    step = partial(work, *args, **kwargs)
    return await wait_for_step(
        _long_threads.submit(copy_context().run, _run_step, step)
    )


async def run_for_socket(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`run_in_db` for the WebSockets of a process, which share a few threads of their own.

    Channels would run the work of all of them in one thread, one after the other.
    """
    step = partial(work, *args, **kwargs)
    return await wait_for_step(
        _socket_threads.submit(copy_context().run, _run_step, step)
    )


async def wait_for_step(step: Future[T]) -> T:
    """Wait for a step that has begun, also when cancelled; not when cancelled again."""
    ended = asyncio.wrap_future(step)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not step.cancel():
            # Whoever cancels asks for no answer, and for no error in its place.
            ended.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([ended])
        raise


def _run_step(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        if (
            not keeps_connections.is_set()
            or connection.errors_occurred
            or not connection.get_autocommit()
        ):
            # To the pool, which throws away what is broken.
            connection.close()


def fetch_row(
    sql: str, values: Sequence[Any] | Mapping[str, Any], *, prepare: bool = False
) -> Any:
    """Run a statement and return its first row; None where it gives none."""
    return next(iter(fetch_rows(sql, values, prepare=prepare)), None)
