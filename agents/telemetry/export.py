"""The SDK behind the spans, set up by OpenTelemetry's own environment variables.

Imported only where they ask for traces. The provider is kept for our own spans: those of
libraries tell error messages, which may hold what the game or a model said.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from importlib.metadata import entry_points

from opentelemetry.propagate import set_global_textmap
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Tracer

GROUP = "opentelemetry_traces_exporter"
PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
# So long a process that ends waits for its last spans: `manage.py up` kills it soon after.
EXIT_SECONDS = 2.0
# Who tells of failures: the exporter, and the queue before it when that is full.
TALKATIVE = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.sdk._shared_internal",
)

logger = logging.getLogger(__name__)


class FirstLine(logging.Filter):
    """Lets one line pass: an endpoint that is away would be told every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._told = False

    def filter(self, record: logging.LogRecord) -> bool:
        told, self._told = self._told, True
        if not told:
            record.msg = f"{record.msg} Turns go on; this is told once."
        return not told


def make_tracer(process: str) -> Tracer | None:
    """A tracer that exports; None, with one line in the log, where none can be made."""
    try:
        exporters = [load_exporter(name) for name in list_exporters()]
    except Exception as error:
        logger.error("No traces are exported: %s", error)
        return None
    named = dict(OTELResourceDetector().detect().attributes)
    resource = Resource.create(
        {"service.name": "zoea", "zoea.process": process, **named}
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    # The MCP client would tell every game the ids of our spans.
    set_global_textmap(CompositePropagator([]))
    once = FirstLine()
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(once)
    _flush_at_exit(provider)
    return provider.get_tracer("zoea")


def list_exporters() -> list[str]:
    """The exporters that are asked for, under the names that packages register."""
    asked = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    protocol = (
        os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )
    otlp = PROTOCOLS.get(protocol.strip(), protocol.strip())
    names = [name.strip() for name in asked.split(",") if name.strip()]
    return [otlp if name == "otlp" else name for name in names]


def load_exporter(name: str) -> SpanExporter:
    """An exporter, which reads its own variables; raises LookupError for an unknown one."""
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        known = ", ".join(sorted(one.name for one in entry_points(group=GROUP)))
        raise LookupError(
            f"OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL ask for {name!r}, "
            f"which is not installed; installed are {known}."
        )
    exporter: SpanExporter = found.load()()
    return exporter


def _flush_at_exit(provider: TracerProvider) -> None:
    """Send the last spans when the process ends, without waiting long for anybody."""
    ending = threading.Event()

    def flush() -> None:
        ending.wait()
        provider.shutdown()

    # At the end of a process no thread can be started any more.
    thread = threading.Thread(target=flush, name="trace-flush", daemon=True)
    thread.start()

    def end() -> None:
        ending.set()
        thread.join(EXIT_SECONDS)

    atexit.register(end)
