"""``/metrics``: the fleet in numbers for Prometheus, without names and texts.

Every number is cheap: sums over Myses and days, heights of the id sequences, the jobs
that wait, and what the last minutes brought, found by an index. Which question each of
them answers stands in docs/operations.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from agents import events, usage
from agents.api.fleet import count_by_confidence
from agents.dashboard.system_status import count_jobs
from agents.hub import hub, sockets
from agents.idle import read_idlers
from agents.models import Alert, AlertDelivery, ErrorCode, Mysis, Rule, Turn, Usage
from agents.order_status import count_open_recipients
from memory.models import fetch_rows
from memory.problems import Problem
from memory.snapshots.writes import read_newest_tick
from zoea.api.gate import answer_problem
from zoea.auth import identify
from zoea.middleware import readiness

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = ("GET", "HEAD")
SOCKET_KINDS = ("stream", "dashboard")
# What "recent" means.
RECENT = timedelta(minutes=5)
# Upper bounds in seconds of how late turns begin, and of how long calls take.
LATENESS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
TURN_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
CALL_SECONDS = (0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 300)
TOOL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# The id sequence of each log: an upper bound of what was ever added (roll-backs count).
LOGS = {
    "turns": "agents_turn_id_seq",
    "calls": "agents_modelcall_id_seq",
    "events": "agents_event_id_seq",
    "memories": "memory_memory_id_seq",
    "broadcasts": "agents_broadcast_id_seq",
}
HEIGHTS = (
    "SELECT sequencename, coalesce(last_value, 0) FROM pg_sequences "
    "WHERE schemaname = current_schema() AND sequencename = ANY(%s)"
)
# Bucket, number and sum of some seconds; a value on a bound counts below it.
_IN_BUCKETS = """
SELECT width_bucket(seconds - 1e-9, %(bounds)s::float8[]), count(*), sum(seconds)::float8
FROM ({found}) AS found WHERE seconds IS NOT NULL GROUP BY 1
"""
# Those that were put off to a moment: when others became due is not kept.
LATE = _IN_BUCKETS.format(
    found="""SELECT idle_seconds AS seconds FROM agents_turn
    WHERE started_at >= %(since)s AND trigger IN ('nudge', 'continue', 'retry')"""
)
LASTED = _IN_BUCKETS.format(
    found="""SELECT extract(epoch FROM finished_at - started_at)::float8 AS seconds
    FROM agents_turn WHERE started_at >= %(since)s"""
)
ANSWERED = _IN_BUCKETS.format(
    found="""SELECT latency_ms / 1000.0::float8 AS seconds FROM agents_modelcall
    WHERE turn_id IN (SELECT id FROM agents_turn WHERE started_at >= %(since)s)
      AND (finish_reason <> '' OR error <> '')"""
)
_TOOLS = """agents_event WHERE kind = 'tool.called'
    AND xid BETWEEN %(first)s AND %(last)s AND created_at >= %(since)s"""
CALLED = _IN_BUCKETS.format(
    found=f"SELECT (data->>'ms')::float8 / 1000 AS seconds FROM {_TOOLS}"  # noqa: S608
)
# A handle is followed, the log or other records are searched, or the rest.
BY_KIND = f"""
SELECT CASE WHEN data->>'tool' = 'zoea_recall' THEN 'recall'
    WHEN data->>'tool' LIKE 'zoea\\_search%%' THEN 'search'
    WHEN data->>'tool' LIKE 'zoea\\_%%' THEN 'own' ELSE 'game' END,
  CASE WHEN data->'ok' = 'true' THEN 'ok' ELSE 'failed' END, count(*)
FROM {_TOOLS} GROUP BY 1, 2
"""  # noqa: S608 (no input in the text)
# Seconds since the oldest job that should run became due.
OLDEST_DUE = """
SELECT coalesce(extract(epoch FROM now() - min(due)), 0)::float8 FROM (
  SELECT min(scheduled_at) AS due FROM procrastinate_jobs
  WHERE status = 'todo' AND scheduled_at <= now()
  UNION ALL
  (SELECT (SELECT min(at) FROM procrastinate_events WHERE job_id = job.id)
  FROM procrastinate_jobs AS job
  WHERE status = 'todo' AND scheduled_at IS NULL ORDER BY id LIMIT 1)
) AS found
"""
# As the queue itself takes a worker for dead.
WORKERS = """
SELECT count(*) FILTER (WHERE last_heartbeat >= now() - %(patience)s),
  count(*) FILTER (WHERE last_heartbeat < now() - %(patience)s)
FROM procrastinate_workers
"""
DATABASE = """
SELECT pg_database_size(current_database()), count(*),
  current_setting('max_connections')::int,
  coalesce(max(extract(epoch FROM now() - xact_start))
    FILTER (WHERE datname = current_database()), 0)::float8
FROM pg_stat_activity WHERE backend_type = 'client backend'
"""

Number = float | Decimal


@csrf_exempt
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """All metrics; 401 without a token or a session unless METRICS_PUBLIC is set."""
    if request.method not in METHODS:
        detail = f"{(request.method or '')[:20]}: metrics can only be read; use GET."
        allow = {"Allow": ", ".join(METHODS)}
        return answer_problem(Problem(405, "method_not_allowed", detail, headers=allow))
    # Who asks gives up after 10 s, and the pool only after 20 s.
    ready = readiness.read()
    if ready.status_code != HTTPStatus.OK:
        return ready
    if not settings.METRICS_PUBLIC:
        try:
            identify(request)
        except Problem as problem:
            return answer_problem(problem)
    registry = CollectorRegistry()
    registry.register(FleetCollector())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE)


class FleetCollector(Collector):
    """Reads all numbers anew for each scrape."""

    def describe(self) -> list[Metric]:
        """Nothing: to be registered is no reason to read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        begun = time.monotonic()
        yield from _count_myses()
        yield from _add_up_usage()
        yield from _count_logs()
        yield from _measure_recent()
        yield from _measure_queue()
        yield from _count_alerts()
        yield from _measure_database()
        yield from _measure_web()
        spent = time.monotonic() - begun
        yield _gauge(
            "metrics_seconds", "Seconds that reading these numbers took.", spent
        )


def _gauge(
    name: str, about: str, value: Number | Mapping[str, Number], label: str = ""
) -> Metric:
    """A gauge with one value, or with one for each value of its label."""
    return _fill(GaugeMetricFamily, name, about, value, label)


def _counter(
    name: str, about: str, value: Number | Mapping[str, Number], label: str = ""
) -> Metric:
    return _fill(CounterMetricFamily, name, about, value, label)


def _fill(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    about: str,
    value: Number | Mapping[str, Number],
    label: str,
) -> Metric:
    family = kind(f"zoea_{name}", about, labels=[label] if label else [])
    if isinstance(value, Mapping):
        for text, number in value.items():
            family.add_metric([text], float(number))
    else:
        family.add_metric([], float(value))
    return family


def _histogram(
    name: str, about: str, bounds: Sequence[float], rows: Sequence[Sequence[Any]]
) -> Metric:
    """Buckets of what the last minutes brought: not a counter, so no rate is taken."""
    counts = {bucket: (count, total) for bucket, count, total in rows}
    buckets, running = [], 0
    for place, bound in enumerate([*bounds, float("inf")]):
        running += counts.get(place, (0, 0.0))[0]
        buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", running))
    family = GaugeHistogramMetricFamily(f"zoea_{name}", about)
    family.add_metric([], buckets, sum(total for _, total in counts.values()))
    return family


def _count_myses() -> Iterator[Metric]:
    states = Mysis.count_by_state()
    yield _gauge("myses", "Myses by state.", states, "state")
    held = Mysis.objects.exclude(hold="").count()
    yield _gauge("myses_held", "Myses that a budget keeps from calls.", held)
    stuck = Mysis.objects.exclude(stuck="").count()
    yield _gauge("myses_stuck", "Myses that seem to get nowhere.", stuck)
    idlers = read_idlers()
    idle = {"yes": idlers.asked, "no": idlers.unasked}
    yield _gauge("myses_idle", "Myses that idle, as asked to or not.", idle, "asked")
    failing = dict.fromkeys([*map(str, ErrorCode), "other"], 0)
    rows = Mysis.objects.exclude(last_error="").values_list("last_error_code")
    for code, count in rows.annotate(n=Count("pk")).order_by():
        failing[code if code in failing else "other"] += count
    about = "Myses whose newest error stands, by what it comes from."
    yield _gauge("myses_failing", about, failing, "code")
    about = "Snapshots by how far to believe them."
    levels = count_by_confidence(timezone.now())
    yield _gauge("snapshots", about, levels, "confidence")
    about = "Recipients of orders that are open, by how far these have come."
    orders, overdue = count_open_recipients()
    yield _gauge("open_orders", about, orders, "state")
    yield _gauge("overdue_orders", "Those of them that are overdue.", overdue)
    tick = read_newest_tick()
    if tick is not None:
        yield _gauge("game_tick", "The newest game tick seen.", tick)


def _add_up_usage() -> Iterator[Metric]:
    # From the usage by day: that of a deleted Mysis stays counted.
    spent = usage.add_up(Usage.objects.all())
    tokens = {kind: spent[f"{kind}_tokens"] for kind in ("input", "output", "cached")}
    about = "Tokens of all calls ever made; cached ones are input, too."
    yield _counter("tokens", about, tokens, "kind")
    about = "US dollars that all calls ever made have cost."
    yield _counter("cost_dollars", about, spent["cost"])
    about = "Calls of models that were recorded, by what they were made for."
    made = {"turn": spent["calls"], "summary": spent["summaries"]}
    yield _counter("model_calls", about, made, "kind")
    yield _counter("failed_model_calls", "Those without an answer.", spent["errors"])


def _count_logs() -> Iterator[Metric]:
    heights = dict(fetch_rows(HEIGHTS, [list(LOGS.values())]))
    for name, sequence in LOGS.items():
        yield _counter(name, f"{name.title()} begun.", heights.get(sequence, 0))


def _measure_recent() -> Iterator[Metric]:
    now = timezone.now()
    values: dict[str, Any] = {"since": now - RECENT}
    ended = dict.fromkeys([*map(str, Turn.Outcome), "running"], 0)
    rows = Turn.objects.filter(started_at__gte=now - RECENT).values_list("outcome")
    for outcome, count in rows.annotate(n=Count("pk")).order_by():
        ended[outcome or "running"] += count
    about = "Turns begun in the last five minutes, by outcome."
    yield _gauge("recent_turns", about, ended, "outcome")
    for name, about, bounds, sql in (
        ("turn_lateness_seconds", "Recent turns: how late they began.", LATENESS, LATE),
        ("turn_seconds", "Recent turns: how long they took.", TURN_SECONDS, LASTED),
        ("call_seconds", "Recent calls of models.", CALL_SECONDS, ANSWERED),
    ):
        yield _histogram(
            name,
            about,
            bounds,
            fetch_rows(sql, {**values, "bounds": [*map(float, bounds)]}),
        )
    values["first"], values["last"] = events.find_xids(now - RECENT, now)
    found = fetch_rows(CALLED, {**values, "bounds": [*map(float, TOOL_SECONDS)]})
    yield _histogram("tool_seconds", "Recent calls of tools.", TOOL_SECONDS, found)
    about = "Calls of tools in the last five minutes, by kind of tool and result."
    family = GaugeMetricFamily("zoea_recent_tools", about, labels=["kind", "result"])
    counted = {(kind, result): n for kind, result, n in fetch_rows(BY_KIND, values)}
    for kind in ("game", "own", "recall", "search"):
        for result in ("ok", "failed"):
            family.add_metric([kind, result], counted.get((kind, result), 0))
    yield family


def _measure_queue() -> Iterator[Metric]:
    due, later, running = count_jobs()
    counts = {"due": due, "scheduled": later, "running": running}
    yield _gauge("jobs", "Queued jobs by status.", counts, "status")
    [(oldest,)] = fetch_rows(OLDEST_DUE)
    about = "Seconds since the oldest job that should run became due."
    yield _gauge("oldest_due_job_seconds", about, oldest)
    patience = {"patience": timedelta(seconds=settings.ZOEA_STALLED_SECONDS)}
    [(alive, silent)] = fetch_rows(WORKERS, patience)
    states = {"alive": alive, "silent": silent}
    about = "Workers by whether their heartbeat is heard."
    yield _gauge("workers", about, states, "state")


def _count_alerts() -> Iterator[Metric]:
    raised = dict.fromkeys(map(str, Rule), 0)
    rows = Alert.objects.filter(cleared_at=None).values_list("rule")
    raised |= dict(rows.annotate(n=Count("pk")).order_by())
    yield _gauge("open_alerts", "Alerts that are open, by rule.", raised, "rule")
    now = timezone.now()
    due = AlertDelivery.objects.filter(state__in=AlertDelivery.OPEN, at__lte=now)
    oldest = due.order_by("at").values_list("at", flat=True).first()
    waits = (now - oldest).total_seconds() if oldest else 0.0
    yield _gauge("untold_alerts", "Messages about alerts that wait.", due.count())
    about = "Seconds for which the oldest of them has waited."
    yield _gauge("oldest_untold_alert_seconds", about, waits)


def _measure_database() -> Iterator[Metric]:
    [(size, used, most, oldest)] = fetch_rows(DATABASE)
    yield _gauge("database_bytes", "Size of the database.", size)
    connections = {"used": used, "most": most}
    about = "Connections of the whole server, and how many it takes."
    yield _gauge("database_connections", about, connections, "kind")
    about = "Age of the oldest transaction; no event behind it is told."
    yield _gauge("oldest_transaction_seconds", about, oldest)
    pool = connection.pool  # type: ignore[attr-defined]
    if pool is not None:
        found = pool.get_stats()
        counts = {
            "idle": found.get("pool_available", 0),
            "open": found.get("pool_size", 0),
            "waiting": found.get("requests_waiting", 0),
        }
        about = "Connections of this web process, and who waits for one."
        yield _gauge("pool", about, counts, "state")


def _measure_web() -> Iterator[Metric]:
    about = "Open WebSockets of this web process, by kind."
    opened = {kind: sockets.open[kind] for kind in SOCKET_KINDS}
    yield _gauge("sockets", about, opened, "kind")
    about = "Sockets dropped because the client did not read."
    yield _counter("sockets_dropped", about, sockets.dropped)
    about = "Viewers of this process's event hub."
    yield _gauge("hub_viewers", about, hub.viewers)
    about = "Age of the newest event when this process's hub handed it on."
    yield _gauge("event_delay_seconds", about, hub.delay)
