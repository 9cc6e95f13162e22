"""A whole fleet under load for 20 minutes, and a very long memory beside a small one.

load: Myses of the pilot on what ``manage.py up`` runs, with open dashboards, JSON streams
and a search all the time. large: search, pages, turns, prune and start in a database of
3,000,000 memories, which is made once and kept in ``.zoea``. Ends with status 1 where
something was lost, a request failed, an error was logged, or memory grows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from bench.figures import (
    PERCENTILES,
    Aim,
    Figure,
    Found,
    Step,
    Table,
    find_figures,
    format_amount,
)
from bench.load import large, play
from bench.load.watch import BUFFERS, MEGABYTE, Trend, find_trend

COLUMNS = (*PERCENTILES, "most")
#: What grows in a shorter time says nothing of an hour.
SLOPE_SECONDS = 300.0
#: So many megabytes of other shared memory are counted with PostgreSQL's buffers.
BESIDE_BUFFERS = 64.0
LOAD, LARGE = "load", "large"

Seen = Mapping[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=(LOAD, LARGE), help="this part alone")
    for name, default, what in (
        ("myses", 200, "Myses that fly, and that remember"),
        ("dashboards", 50, "dashboards that look on"),
        ("sockets", 200, "JSON streams"),
        ("memories", 3_000_000, "of the large database, if the disk holds them"),
    ):
        parser.add_argument(
            f"--{name}", type=_read_count, default=default, metavar="N", help=what
        )
    parser.add_argument("--minutes", type=float, default=20.0, help="of play")


def _read_count(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("give a whole number from 1 on")
    return number


def measure(options: argparse.Namespace, step: Step) -> Found:
    found = Found([], document={})
    if options.only != LARGE:
        seen = found.document[LOAD] = play.measure(options, step)
        found.tables += build_load_tables(seen, options)
        found.faults += find_load_faults(seen)
    if options.only != LOAD:
        seen = found.document[LARGE] = large.measure(
            options.memories, options.myses, step
        )
        found.tables.append(build_large_table(seen))
    return found


# --- The load


def build_load_tables(found: Seen, options: argparse.Namespace) -> list[Table]:
    """Times, what came of it, and memory."""
    title = f"{options.myses} Myses for {options.minutes:g} minutes: how long it takes"
    times = dict(found["times"])
    times["event until a stream has it"] = found["events"]
    times["begin of a turn after it was due"] = found["late"]
    table = Table(title, ["", *COLUMNS, "how often"])
    for name, each in times.items():
        if each:
            cells = [format_amount(each[what], "ms") for what in COLUMNS]
            table.rows.append([name, *cells, f"{each['count']:,.0f}"])
    tables = [
        table,
        _build_outcome(found),
        _build_memory(found["memory"], found["shared_buffers"]),
    ]
    for each in tables:
        each.mark = LOAD
    return tables


def _build_outcome(found: Seen) -> Table:
    sockets, logs = found["sockets"], found["logs"]
    turns, connections = sum(found["turns"].values()), found["connections"]
    streams, pages = sockets["frames"], sockets["pages"]
    seconds = sockets["seconds"]
    rows = {
        "turns": f"{turns / found['seconds']:.1f} a second: {_format_counts(found['turns'])}",
        "events in the log, from the first socket on": f"{sockets['events']:,}",
        "frames to JSON streams": f"{streams['frames'] / seconds:,.0f} a second to "
        f"{streams['sockets']}",
        "frames to dashboards": f"{pages['frames'] / seconds:,.1f} a second to "
        f"{pages['sockets']}, {format_amount(pages['bytes'] / seconds, 'bytes')}/s",
        "sockets lost": _format_counts(sockets["lost"]),
        "events missing, events twice": f"{sockets['missing']:,}, {sockets['twice']:,}",
        "requests that failed": _format_counts(found["failed"]),
        "connections of the database": f"median {median(connections['open']):.0f}, "
        f"most {max(connections['open'])}, at work at most {max(connections['active'])}",
        "lines of the logs": f"{logs['errors']} errors, {logs['warnings']} warnings, "
        f"{logs['refused']} statements that PostgreSQL refused",
    }
    table = Table("What came of it", ["", ""], [list(row) for row in rows.items()])
    table.notes = list(logs["lines"])
    return table


def _build_memory(
    samples: Mapping[str, Sequence[Sequence[float]]], buffers: int
) -> Table:
    headings = ["", "first", "third quarter", "last quarter", "most", "an hour", ""]
    table = Table("Memory of the processes (PSS)", headings)
    for name, found in sorted(samples.items()):
        trend = find_trend([(at, size) for at, size in found])
        sizes = (trend.first, trend.third, trend.last, trend.most)
        cells = [format_amount(size * MEGABYTE, "bytes") for size in sizes]
        is_long = found[-1][0] - found[0][0] >= 2 * SLOPE_SECONDS
        slope = f"{trend.slope:+.1f} MB" if is_long else ""
        table.rows.append([name, *cells, slope, _name_trend(name, trend, buffers)])
    return table


def _name_trend(name: str, trend: Trend, buffers: int) -> str:
    if name != BUFFERS:
        return "grows" if trend.grows else "flat"
    return f"set: {format_amount(buffers, 'bytes')}"


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def find_load_faults(found: Seen) -> Iterator[str]:
    """What must not happen: lost events and sockets, refused requests, errors, growth."""
    sockets, logs = found["sockets"], found["logs"]
    for kind, lost in sockets["lost"].items():
        if lost:
            yield f"{lost} {kind} were closed by the server."
    if sockets["missing"] or sockets["twice"]:
        yield f"{sockets['missing']} events never came, {sockets['twice']} came twice."
    for what, count in found["failed"].items():
        yield f"{count} requests failed: {what}"
    if logs["errors"]:
        yield f"{logs['errors']} errors in the logs: {'; '.join(logs['lines'])}"
    for name, samples in found["memory"].items():
        trend = find_trend([(at, size) for at, size in samples])
        if name == BUFFERS:
            yield from _find_buffer_faults(trend, found["shared_buffers"])
        elif trend.grows:
            yield (
                f"The memory of {name} grows: {trend.third:.0f} MB in the third quarter, "
                f"{trend.last:.0f} MB in the last."
            )


def _find_buffer_faults(trend: Trend, buffers: int) -> Iterator[str]:
    """They fill up, which is no growth, but not beyond the size that is set."""
    if trend.most > buffers / MEGABYTE + BESIDE_BUFFERS:
        yield (
            f"{BUFFERS} took {trend.most:.0f} MB, where "
            f"{format_amount(buffers, 'bytes')} are set."
        )


# --- A very large database

RATIO = Aim.RATIO_BELOW
#: Of which percentile what is wanted, in milliseconds or against the small database.
TARGETS = {
    "search, one Mysis: rare": ("p50", 1.0, Aim.BELOW),
    "search, one Mysis: medium": ("p50", 2.5, Aim.BELOW),
    "search, one Mysis: common": ("p95", 50.0, Aim.BELOW),
    "search, one Mysis: absent": ("p95", 5.0, Aim.BELOW),
    "search, longest Mysis: a word of others": ("p95", 5.0, Aim.BELOW),
    "search, fleet: rare": ("p95", 50.0, Aim.BELOW),
    "search, fleet: medium": ("p95", 50.0, Aim.BELOW),
    "search, fleet: common": ("p95", 50.0, Aim.BELOW),
    "search, fleet: absent": ("p95", 50.0, Aim.BELOW),
    "Fleet page": ("p95", 100.0, Aim.BELOW),
    "Mysis page": ("p50", 1.5, RATIO),
    "Context page": ("p50", 1.5, RATIO),
    "turn beside model and game": ("p50", 1.15, RATIO),
    "start of up": ("p50", 20_000.0, Aim.BELOW),
}


def build_large_table(found: Seen) -> Table:
    """The large database beside the small one."""
    small, large = found["sizes"]["small"], found["sizes"]["large"]
    among = f"the same among {small['rows']:,} memories"
    figures = [
        Figure(
            f"{name}, {what}",
            large["times"][name][what],
            "ms",
            baseline=small["times"][name][what],
            baseline_is=among,
            target=most,
            aim=aim,
        )
        for name, (what, most, aim) in TARGETS.items()
    ]
    prunes = [each["prune"] for each in (small, large)]
    rows = [f"{sum(each['removed'].values()):,}" for each in prunes]
    seconds = (prunes[1]["seconds"], "s", prunes[0]["seconds"])
    note = f"{rows[1]} rows, and {rows[0]}"
    figures.append(Figure("prune of a day", *seconds, among, note=note))
    sizes = (large["bytes"], "bytes", small["bytes"])
    figures.append(Figure("tables and indexes", *sizes, among))
    title = f"{large['rows']:,} memories of {large['myses']} Myses"
    [table] = find_figures(title, figures, f"{LOAD} {LARGE}").tables
    if large["rows"] < found["asked"]:
        table.notes.append(f"The disk holds no more; asked for {found['asked']:,}.")
    return table
