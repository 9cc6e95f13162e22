"""Traces by OpenTelemetry's own variables: on, off, at the end, and of web requests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from django.test import Client

from agents.telemetry import is_wanted
from tests.otlp import Collector, collect, collector, read_attributes
from tests.zoea.running import ROOT

__all__ = ["collector"]
ONE_SPAN = """
import logging
logging.basicConfig()
from agents.telemetry import open_span, telemetry
telemetry.start("worker")
for _ in range({count}):
    with open_span("last words", {{}}):
        pass
print(telemetry.is_on)
"""
WHAT_IS_LOADED = """
import sys
import zoea.asgi, agents.tasks
from agents.management.commands import procrastinate
from agents.telemetry import telemetry
telemetry.start("worker")
print(telemetry.is_on, "opentelemetry.sdk" in sys.modules)
"""


def run(code: str, **environment: str) -> tuple[str, str]:
    """Run a program to its end: what it wrote to its output, and to its errors."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**clean, "DJANGO_SETTINGS_MODULE": "zoea.settings", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        (
            {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"},
            False,
        ),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_who_asks_for_traces(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted


def test_nobody_asks_and_the_sdk_is_not_even_loaded() -> None:
    assert run(WHAT_IS_LOADED)[0] == "False False"


def test_the_last_spans_are_sent_when_a_process_ends() -> None:
    with collect() as receiver:
        output, _ = run(
            ONE_SPAN.format(count=1),
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_BSP_SCHEDULE_DELAY="3600000",
        )
        receiver.wait_for("last words")
    assert output == "True"
    assert receiver.resources[0]["service.name"] == "zoea"


def test_an_endpoint_that_is_away_is_told_once() -> None:
    with socket.socket() as taken:
        # Bound and not listening: whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        _, errors = run(
            ONE_SPAN.format(count=3),
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{taken.getsockname()[1]}",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1",
            OTEL_EXPORTER_OTLP_TIMEOUT="1",
        )
    [line] = errors.splitlines()
    assert "Turns go on; this is told once." in line


def test_an_exporter_that_is_not_installed_is_one_line() -> None:
    output, errors = run(ONE_SPAN.format(count=1), OTEL_TRACES_EXPORTER="zipkin")
    assert output == "False"
    [line] = errors.splitlines()
    assert "'zipkin', which is not installed; installed are console, otlp_p" in line


@pytest.mark.django_db
def test_requests_are_traced_by_route_and_never_by_address(
    collector: Collector,
) -> None:
    browser = Client(raise_request_exception=False)
    browser.get("/sign-in/one-time-secret/?q=grey-words")
    browser.generic("PROPFIND", "/nowhere/")
    [span] = collector.wait_for("GET /sign-in/<str:secret>/")
    told = read_attributes(span)
    assert told == {
        "http.request.method": "GET",
        "http.route": "/sign-in/<str:secret>/",
        "http.response.status_code": told["http.response.status_code"],
    }
    collector.wait_for("_OTHER")
    for secret in (b"one-time-secret", b"grey-words", b"PROPFIND", b"nowhere"):
        assert secret not in collector.raw
