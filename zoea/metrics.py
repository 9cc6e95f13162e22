"""``/metrics``: the fleet in numbers, as Prometheus reads them; no names, no texts.

Every number is cheap: sums over Myses and days, the heights of the id sequences, the
jobs that wait. Nothing here walks a log, so asking often costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from agents import usage
from agents.api.fleet import staleness
from agents.hub import hub, sockets
from agents.models import Mysis
from memory.lookup import Problem
from memory.snapshots.writes import newest_tick
from zoea.api.gate import respond
from zoea.auth import identify

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = ("GET", "HEAD")
KINDS = ("stream", "dashboard")

#: What was ever added, by the sequence of its ids: an upper bound after roll-backs.
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
# By the partial index on jobs that are to be done.
QUEUE = """
SELECT count(*) FILTER (WHERE status = 'todo'
    AND (scheduled_at IS NULL OR scheduled_at <= now())),
  count(*) FILTER (WHERE status = 'todo' AND scheduled_at > now()),
  count(*) FILTER (WHERE status = 'doing')
FROM procrastinate_jobs WHERE status IN ('todo', 'doing')
"""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with a value for each set of labels."""

    name: str
    kind: str
    help: str
    values: Iterable[tuple[Labels, float | Decimal]]

    def lines(self) -> Iterator[str]:
        """The text of it; labels are of our own making and need no escapes."""
        yield f"# HELP zoea_{self.name} {self.help}"
        yield f"# TYPE zoea_{self.name} {self.kind}"
        for labels, value in self.values:
            inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
            yield f"zoea_{self.name}{f'{{{inside}}}' if inside else ''} {value}"


@csrf_exempt
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """All metrics; 401 without a token or a session unless METRICS_PUBLIC is set."""
    if request.method not in METHODS:
        return respond(not_read(request.method or ""))
    if not settings.METRICS_PUBLIC:
        try:
            identify(request)
        except Problem as problem:
            return respond(problem)
    found = [*fleet(), *logs(), queue(), *streams()]
    lines = [line for metric in found for line in metric.lines()]
    return HttpResponse("\n".join(lines) + "\n", content_type=CONTENT_TYPE)


def not_read(method: str) -> Problem:
    """The 405."""
    return Problem(
        405,
        "method_not_allowed",
        f"{method[:20]}: metrics can only be read; use GET.",
        headers={"Allow": ", ".join(METHODS)},
    )


def fleet() -> Iterator[Metric]:
    """States, spending and what is believed of the game."""
    states = dict.fromkeys(map(str, Mysis.State), 0)
    states |= dict(
        Mysis.objects.values_list("state").annotate(n=Count("id")).order_by()
    )
    yield Metric("myses", "gauge", "Myses by state.", by("state", states))
    # Of the days, not of the Myses: what is counted stays when one is deleted.
    spent = usage.totals(usage.since(None))
    tokens = {kind: spent[f"{kind}_tokens"] for kind in ("input", "output")}
    about = "Tokens of all calls ever made, by kind."
    yield Metric("tokens_total", "counter", about, by("kind", tokens))
    about = "US dollars that all calls ever made have cost."
    yield Metric("cost_dollars_total", "counter", about, [({}, spent["cost"])])
    levels = by("confidence", staleness(timezone.now()))
    yield Metric("snapshots", "gauge", "Snapshots by how far to believe them.", levels)
    tick = newest_tick()
    if tick is not None:
        yield Metric("game_tick", "gauge", "The newest game tick seen.", [({}, tick)])


def logs() -> Iterator[Metric]:
    """How much was ever added to each log."""
    with connection.cursor() as cursor:
        cursor.execute(HEIGHTS, [list(LOGS.values())])
        heights = dict(cursor.fetchall())
    for name, sequence in LOGS.items():
        value = heights.get(sequence, 0)
        yield Metric(
            f"{name}_total", "counter", f"{name.title()} begun.", [({}, value)]
        )


def queue() -> Metric:
    """Jobs that wait or run."""
    with connection.cursor() as cursor:
        cursor.execute(QUEUE)
        due, later, running = cursor.fetchone() or (0, 0, 0)
    counts = {"due": due, "scheduled": later, "running": running}
    return Metric("jobs", "gauge", "Queued jobs by status.", by("status", counts))


def streams() -> Iterator[Metric]:
    """The sockets of this web process."""
    about = "Open WebSockets of this web process, by kind."
    opened = {kind: sockets.open[kind] for kind in KINDS}
    yield Metric("sockets", "gauge", about, by("kind", opened))
    about = "Sockets dropped because the client did not read."
    yield Metric("sockets_dropped_total", "counter", about, [({}, sockets.dropped)])
    about = "Viewers of this process's event hub."
    yield Metric("hub_viewers", "gauge", about, [({}, hub.viewers)])


def by(label: str, values: Mapping[str, float]) -> list[tuple[Labels, float]]:
    """One value for each text of a label."""
    return [({label: text}, value) for text, value in values.items()]
