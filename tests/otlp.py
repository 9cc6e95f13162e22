"""A collector of traces: OTLP over HTTP, decoded by OpenTelemetry's own messages."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.trace import NoOpTracer

from agents.telemetry import ASKING, telemetry

SECONDS = 60


class Collector:
    """What was received: spans by name, attributes of resources, and the bytes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.raw = b""
        self.arrived: queue.Queue[tuple[str, bytes]] = queue.Queue()

    def wait_for(self, name: str, *, count: int = 1) -> list[Span]:
        """The spans of a name, once so many have arrived."""
        while len(self.named(name)) < count:
            self._take()
        return self.named(name)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def starting(self, text: str) -> list[Span]:
        return [span for span in self.spans if span.name.startswith(text)]

    def _take(self) -> None:
        path, body = self.arrived.get(timeout=SECONDS)
        self.paths.append(path)
        self.raw += body
        for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(read_attributes(batch.resource))
            for scope in batch.scope_spans:
                self.spans += scope.spans


def read_attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span or a resource as Python values."""
    return {pair.key: _read(pair.value) for pair in holder.attributes}


def _read(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read(item) for item in value.array_value.values]
    return getattr(value, kind or "string_value")


@contextmanager
def collect() -> Iterator[Collector]:
    """Run a receiver on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.arrived.put((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that this process exports to, for one test."""
    for name in ASKING:
        monkeypatch.delenv(name, raising=False)
    with collect() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "fleet-of-ann")
        telemetry.start("worker")
        yield running
        telemetry.tracer = NoOpTracer()
