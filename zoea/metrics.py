"""``/metrics``: the fleet in numbers for Prometheus, without names and texts.

Every number is cheap: sums over Myses and days, heights of the id sequences, the jobs
that wait. Nothing here scans a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from agents import usage
from agents.api.fleet import count_by_confidence
from agents.dashboard.system_status import count_jobs
from agents.hub import hub, sockets
from agents.models import Mysis, Usage
from memory.models import fetch_rows
from memory.problems import Problem
from memory.snapshots.writes import read_newest_tick
from zoea.api.gate import answer_problem
from zoea.auth import identify

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = ("GET", "HEAD")
SOCKET_KINDS = ("stream", "dashboard")

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

Number = float | Decimal


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a number, or one for each value of its label."""

    name: str
    kind: str
    help: str
    value: Number | Mapping[str, Number]
    label: str = ""

    def lines(self) -> Iterator[str]:
        """The lines of the metric; labels are our own words and need no escapes."""
        yield f"# HELP zoea_{self.name} {self.help}"
        yield f"# TYPE zoea_{self.name} {self.kind}"
        if not isinstance(self.value, Mapping):
            yield f"zoea_{self.name} {self.value}"
            return
        for text, number in self.value.items():
            yield f'zoea_{self.name}{{{self.label}="{text}"}} {number}'


@csrf_exempt
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """All metrics; 401 without a token or a session unless METRICS_PUBLIC is set."""
    if request.method not in METHODS:
        detail = f"{(request.method or '')[:20]}: metrics can only be read; use GET."
        allow = {"Allow": ", ".join(METHODS)}
        return answer_problem(Problem(405, "method_not_allowed", detail, headers=allow))
    if not settings.METRICS_PUBLIC:
        try:
            identify(request)
        except Problem as problem:
            return answer_problem(problem)
    found = [*_fleet_metrics(), *_log_metrics(), _queue_metric(), *_socket_metrics()]
    lines = [line for metric in found for line in metric.lines()]
    return HttpResponse("\n".join(lines) + "\n", content_type=CONTENT_TYPE)


def _fleet_metrics() -> Iterator[Metric]:
    states = Mysis.count_by_state()
    yield Metric("myses", "gauge", "Myses by state.", states, "state")
    # From the usage by day: that of a deleted Mysis stays counted.
    spent = usage.add_up(Usage.objects.all())
    tokens = {kind: spent[f"{kind}_tokens"] for kind in ("input", "output")}
    about = "Tokens of all calls ever made, by kind."
    yield Metric("tokens_total", "counter", about, tokens, "kind")
    about = "US dollars that all calls ever made have cost."
    yield Metric("cost_dollars_total", "counter", about, spent["cost"])
    about = "Snapshots by how far to believe them."
    levels = count_by_confidence(timezone.now())
    yield Metric("snapshots", "gauge", about, levels, "confidence")
    tick = read_newest_tick()
    if tick is not None:
        yield Metric("game_tick", "gauge", "The newest game tick seen.", tick)


def _log_metrics() -> Iterator[Metric]:
    heights = dict(fetch_rows(HEIGHTS, [list(LOGS.values())]))
    for name, sequence in LOGS.items():
        about = f"{name.title()} begun."
        yield Metric(f"{name}_total", "counter", about, heights.get(sequence, 0))


def _queue_metric() -> Metric:
    due, later, running = count_jobs()
    counts = {"due": due, "scheduled": later, "running": running}
    return Metric("jobs", "gauge", "Queued jobs by status.", counts, "status")


def _socket_metrics() -> Iterator[Metric]:
    about = "Open WebSockets of this web process, by kind."
    opened = {kind: sockets.open[kind] for kind in SOCKET_KINDS}
    yield Metric("sockets", "gauge", about, opened, "kind")
    about = "Sockets dropped because the client did not read."
    yield Metric("sockets_dropped_total", "counter", about, sockets.dropped)
    about = "Viewers of this process's event hub."
    yield Metric("hub_viewers", "gauge", about, hub.viewers)
