"""Fixtures for all tests."""

from __future__ import annotations

import os
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
from agents.dashboard import lane_seconds
from agents.dashboard.shared_results import shared
from bench.processes import Server, run_server
from memory.models import ContextPolicy
from memory.redaction import sealed
from tests import flushing, postgres
from tests.commands import Commands
from tests.programs import Program
from zoea.middleware import readiness

# Rows are made in async tests as plainly as in others, and by the connection of their
# thread. Django would give each of them one of its own, which nobody gives back.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
connections._connections = threading.local()  # type: ignore[attr-defined]

# Files of a quarter of a minute and more come first, the longest at the front: of two
# processes that share the files, none then waits long for the other at the end.
LONGEST = (
    "zoea/test_up.py",
    "bench/faults/test_scenes.py",
    "browser/test_fleet.py",
    "upgrade/test_every_release.py",
    "bench/soak/test_load.py",
    "zoea/test_doc_examples.py",
    "zoea/test_api_sweep.py",
    "zoea/test_api_odd_input.py",
    "zoea/test_postgres.py",
    "upgrade/test_side_by_side.py",
    "context/test_growing_log.py",
    "agents/runtime/test_killed_workers.py",
    "browser/test_selection.py",
    "memory/transfer/test_killed_import.py",
    "bench/chaos/test_run.py",
    "agents/runtime/test_offered_tools.py",
    "zoea/test_large_bodies.py",
    "agents/tools/test_true_beliefs.py",
    "bench/chaos/test_in_step.py",
    "context/test_invariants.py",
    "context/test_kept_facts.py",
    "agents/runtime/test_coalesced.py",
    "bench/loop/test_main.py",
    "agents/consumers/test_event_stream_resumed.py",
    "zoea/test_pgbouncer.py",
    "context/test_tiered.py",
    "browser/test_accessibility.py",
    "browser/test_mysis.py",
    "browser/test_journeys.py",
    "browser/test_sign_in.py",
    "agents/consumers/test_event_stream.py",
    "sandbox/test_command.py",
    "sandbox/pilot/test_closed_loop.py",
    "agents/runtime/test_summary_job.py",
    "zoea/test_backup.py",
    "zoea/test_proxies.py",
    "zoea/test_floods.py",
    "browser/test_search.py",
    "browser/test_viewers.py",
    "memory/test_query_plans.py",
)
PLACES = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}


# A busy machine must not fail a test. Half of the usual examples take half of the time.
hypothesis_settings.register_profile(
    "patient",
    hypothesis_settings(),
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("patient")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first."""
    items.sort(key=lambda item: PLACES.get(item.path, len(PLACES)))


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
def _nothing_shared() -> None:
    """Forget what other tests had drawn in these ten seconds."""
    shared._results.clear()
    readiness.forget()
    lane_seconds._past_blocks._results.clear()


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


@pytest.fixture(scope="session")
def server(django_db_setup: None) -> Iterator[Server]:
    """One Daphne on the database of the tests, for all of them."""
    with run_server() as started:
        yield started


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
