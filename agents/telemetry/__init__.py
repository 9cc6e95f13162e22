"""Where work is seen from outside: spans of traces, and the place that log lines name.

A span tells names, numbers and states, never what was said, asked or answered. Without
a word in OpenTelemetry's environment variables nothing is recorded, and the SDK is not
even imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from opentelemetry.trace import (
    INVALID_SPAN,
    NoOpTracer,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
)

# Each of them asks for traces; OTEL_SDK_DISABLED and OTEL_TRACES_EXPORTER=none refuse.
ASKING = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)

Attributes = Mapping[str, str | int | float | bool | list[str]]

_place: ContextVar[Mapping[str, int]] = ContextVar("place", default={})  # noqa: B039


class Telemetry:
    """The tracer of this process: one that does nothing until `start` found an exporter."""

    def __init__(self) -> None:
        self.tracer: Tracer = NoOpTracer()

    @property
    def is_on(self) -> bool:
        """Whether spans are recorded."""
        return not isinstance(self.tracer, NoOpTracer)

    def start(self, process: str) -> None:
        """Record spans, if the environment asks for that; ``process`` says of what."""
        if not self.is_on and is_wanted(os.environ):
            export = import_module("agents.telemetry.export")
            self.tracer = export.make_tracer(process) or self.tracer


telemetry = Telemetry()


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environment.get(name, "").strip() for name in ASKING)


@contextmanager
def open_span(
    name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL
) -> Iterator[Span]:
    """A span around the block; of an exception it tells the kind, not the words."""
    if not telemetry.is_on:
        yield INVALID_SPAN
        return
    with telemetry.tracer.start_as_current_span(
        name,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            mark_failed(span, getattr(error, "status", None) or type(error).__name__)
            raise


def mark_failed(span: Span, kind: object) -> None:
    """Say that it failed, and of what kind that was: a status, a class, a code."""
    span.set_attribute("error.type", str(kind))
    span.set_status(Status(StatusCode.ERROR))


@contextmanager
def log_place(**place: int) -> Iterator[None]:
    """Name ``mysis`` and ``turn`` in all log lines of the block, in other threads too."""
    token = _place.set({**_place.get(), **place})
    try:
        yield
    finally:
        _place.reset(token)


def enter_call(number: int) -> None:
    """Name this model call of the turn in the lines that follow."""
    _place.set({**_place.get(), "call": number})


def describe_place() -> dict[str, Any]:
    """What a log line names: Mysis, turn, call, and the span that it was written in."""
    found: dict[str, Any] = dict(_place.get())
    context = get_current_span().get_span_context()
    if context.is_valid:
        found["trace_id"] = f"{context.trace_id:032x}"
        found["span_id"] = f"{context.span_id:016x}"
    return found
