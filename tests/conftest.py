"""Fixtures for all tests."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest
from asgiref.sync import SyncToAsync
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connections
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware

from agents import db, events
from bench.processes import Server, run_server
from memory.models import ContextPolicy
from memory.redaction import sealed
from tests import flushing, postgres
from tests.commands import Commands
from tests.long_run import few_or_many
from tests.programs import Program

# Rows are made in async tests as plainly as in others, and by the connection of their
# thread. Django would give each of them one of its own, which nobody gives back.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
connections._connections = threading.local()  # type: ignore[attr-defined]

# Files of ten seconds and more come first, the longest at the front: of two
# processes that share the files, none then waits long for the other at the end.
LONGEST = (
    "bench/faults/test_scenes.py",
    "zoea/test_up.py",
    "browser/test_accessibility.py",
    "bench/soak/test_load.py",
    "browser/test_fleet.py",
    "agents/runtime/test_offered_tools.py",
    "upgrade/test_every_release.py",
    "bench/chaos/test_run.py",
    "sandbox/pilot/test_closed_loop.py",
    "browser/test_mysis.py",
    "zoea/test_doc_examples.py",
    "agents/runtime/test_orders.py",
    "agents/runtime/test_killed_workers.py",
    "agents/runtime/test_coalesced.py",
    "sandbox/test_command.py",
    "browser/test_journeys.py",
    "agents/alerts/test_killed_workers.py",
    "agents/tools/test_true_beliefs.py",
    "zoea/test_api_sweep.py",
    "zoea/test_large_bodies.py",
    "browser/test_selection.py",
    "bench/chaos/test_in_step.py",
    "browser/test_lab.py",
    "zoea/test_openapi.py",
    "bench/loop/test_main.py",
    "zoea/test_floods.py",
    "zoea/test_pgbouncer.py",
    "memory/transfer/test_hostile_files.py",
    "agents/consumers/test_event_stream.py",
    "browser/test_three_clicks.py",
    "zoea/test_proxies.py",
    "agents/runtime/test_pilot_on_demand.py",
    "browser/test_viewers.py",
    "browser/test_search.py",
    "bench/soak/test_clients.py",
    "agents/test_tasks.py",
    "agents/runtime/test_turn_yields.py",
    "zoea/test_postgres.py",
    "context/test_invariants.py",
    "agents/consumers/test_event_stream_resumed.py",
    "memory/test_query_plans.py",
    "browser/test_branches.py",
    "agents/runtime/test_turn.py",
    "agents/runtime/test_catch_up.py",
    "agents/lab/test_kept_replays.py",
    "sandbox/test_rows.py",
    "agents/test_mcp_server.py",
    "zoea/test_api_odd_input.py",
    "zoea/test_bodies.py",
    "zoea/test_json_logs.py",
    "zoea/test_masking.py",
    "agents/lab/test_replay.py",
    "upgrade/test_side_by_side.py",
    "agents/test_record_search.py",
    "agents/runtime/test_summary_job.py",
    "agents/alerts/test_outbox.py",
    "browser/test_prices_and_analytics.py",
    "memory/test_snapshots.py",
    "zoea/test_backup.py",
    "memory/test_assemble_command.py",
    "agents/views/test_html.py",
    "zoea/test_commandline.py",
    "zoea/test_telemetry.py",
    "zoea/test_exhausted_pool.py",
    "context/test_growing_log.py",
    "zoea/test_docs.py",
    "browser/test_map_and_lanes.py",
    "agents/admin/test_lists.py",
    "agents/views/test_lab.py",
    "agents/views/test_forms.py",
)
PLACES = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}

# Tests that meet what goes on by itself: PostgreSQL, programs at work, browsers, a game.
# They ask for one of these fixtures, or are marked ``real_time`` or ``django_db``. On a
# machine that is busy with other things one may fail by a race of its own: it is tried
# once again, and the summary names it. All others fail at once.
REAL_TIME_FIXTURES = {
    "collector",
    "commands",
    "db",
    "grouped",
    "hasty",
    "pooled",
    "provider",
    "sandbox",
    "server",
    "site",
    "transactional_db",
    "up",
    "workers",
}


# A busy machine must not fail a test. What half of hypothesis' own 100 examples do not
# find is found over many runs: each draws others. With CI set all draw the same.
hypothesis_settings.register_profile(
    "patient",
    hypothesis_settings(),
    deadline=None,
    max_examples=few_or_many(50, 100),
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("patient")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; mark what may be tried once again."""
    items.sort(key=lambda item: PLACES.get(item.path, len(PLACES)))
    for item in items:
        if meets_real_time(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


def meets_real_time(item: pytest.Item) -> bool:
    """Whether how it ends may hang on how fast others are."""
    asked = getattr(item, "fixturenames", ())
    marks = {mark.name for mark in item.iter_markers()}
    is_marked = not marks.isdisjoint({"real_time", "django_db"})
    return is_marked or not REAL_TIME_FIXTURES.isdisjoint(asked)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have a second try share nothing of its file, and no program that has ended."""
    if getattr(item, "execution_count", 1) == 1:
        return
    for fixtures in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
        for fixture in fixtures:
            shared = fixture.cached_result and fixture.cached_result[0]
            if fixture.scope != "session" or find_end(shared):
                fixture.finish(item._request)  # type: ignore[attr-defined]


def find_end(shared: object) -> object:
    """How a program that all tests share has ended; None for all else."""
    if isinstance(shared, Server | Commands):
        # Its end is only looked at: the fixture waits for it.
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, shared.pid, look)
    return None


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> None:
    """Hash passwords in a moment; every process can still check them."""
    PBKDF2PasswordHasher.iterations = 1


@pytest.fixture(scope="session", autouse=True)
def _static_files() -> None:
    """Look for the static files once, not for every test client."""
    found = WhiteNoiseMiddleware()

    def add_files_from_finders(self: WhiteNoiseMiddleware) -> None:
        self.files = found.files

    WhiteNoiseMiddleware.add_files_from_finders = add_files_from_finders


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Have a server before pytest-django makes its database."""
    postgres.start()


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Empty it in our way; let go of it before it is dropped."""
    flushing.replace_flush()
    with django_db_blocker.unblock():
        # Tests begin with the built-in policy, whether the database was emptied or not.
        ContextPolicy.objects.all().delete()
    yield
    events.hinter.close()
    close_step_connections()
    # The thread in which async code calls plain code lives as long as the process.
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


def close_step_connections() -> None:
    """Let each thread of steps give its connection back; none may be under way."""
    for threads in (db._threads, db._socket_threads):
        count = threads._max_workers
        together = threading.Barrier(count)

        def close(all_here: threading.Barrier = together) -> None:
            all_here.wait(20)
            connections.close_all()

        wait([threads.submit(close) for _ in range(count)])


@pytest.fixture(autouse=True)
def _nothing_shared(request: pytest.FixtureRequest) -> None:
    """Forget what other tests had drawn in these ten seconds, as does the server."""
    flushing.forget_shared()
    for one in servers:
        ended = find_end(one)
        if ended is None:
            os.kill(one.pid, signal.SIGUSR1)
        elif "server" in request.fixturenames:
            pytest.fail(f"the web server of the tests has ended: {ended}")


@pytest.fixture(autouse=True)
def _nothing_sealed(request: pytest.FixtureRequest) -> None:
    """Know no secret of other tests; only those with a database look for others."""
    sealed.forget()
    asked = ("db", "transactional_db", "django_db_reset_sequences")
    if request.node.get_closest_marker("django_db") or any(
        name in request.fixturenames for name in asked
    ):
        sealed.expire()


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """``manage.py``, loaded once."""
    with Commands() as loaded:
        yield loaded


# What the fixture has started, for those that must not start it.
servers: list[Server] = []


@pytest.fixture(scope="session")
def server(django_db_setup: None) -> Iterator[Server]:
    """One Daphne on the database of the tests, for all of them."""
    with run_server(application="tests.application:application") as started:
        servers.append(started)
        yield started
        servers.clear()


@pytest.fixture
def viewer_program(db: None) -> Program:
    """A program that may read."""
    return Program("viewer")


@pytest.fixture
def operator_program(db: None) -> Program:
    """A program that may steer the fleet."""
    return Program("operator")


@pytest.fixture
def admin_program(db: None) -> Program:
    """A program that may do everything."""
    return Program()
