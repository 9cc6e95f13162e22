"""A soak as tables, for the terminal and for docs/benchmarks.md; and what was wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import format_amount
from bench.soak.watch import BUFFERS, MEGABYTE, Trend, find_trend
from bench.tables import TableData, markdown_table, replace_between

PAGE = "benchmarks.md"
PERCENTILES = ("p50", "p95", "p99", "most")
LARGEST_TABLES = 8
#: What grows in a shorter time says nothing of an hour.
SLOPE_SECONDS = 300.0
#: So many megabytes of other shared memory are counted with PostgreSQL's buffers.
BESIDE_BUFFERS = 64.0

Found = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """What a percentile, in milliseconds, is to stay under; or the ratio to the small."""

    what: str
    most: float

    def __str__(self) -> str:
        if self.what == "ratio":
            return f"{self.most:g} x"
        return f"{self.what} {format_amount(self.most, 'ms')}"

    def is_met(self, times: Found, ratio: float) -> bool:
        """Whether these percentiles, and this ratio of the medians, stay under it."""
        return bool((ratio if self.what == "ratio" else times[self.what]) < self.most)


#: Those of a million memories, of the pages and of turns; see docs/measured.md.
TARGETS = {
    "search, one Mysis: rare": Target("p50", 1.0),
    "search, one Mysis: medium": Target("p50", 2.5),
    "search, one Mysis: common": Target("p95", 50.0),
    "search, one Mysis: absent": Target("p95", 5.0),
    "search, longest Mysis: a word of others": Target("p95", 5.0),
    "search, fleet: rare": Target("p95", 50.0),
    "search, fleet: medium": Target("p95", 50.0),
    "search, fleet: common": Target("p95", 50.0),
    "search, fleet: absent": Target("p95", 50.0),
    "Fleet page": Target("p95", 100.0),
    "Mysis page": Target("ratio", 1.5),
    "Context page": Target("ratio", 1.5),
    "turn beside model and game": Target("ratio", 1.15),
    "start of up": Target("p50", 20_000.0),
}


def mark(part: str) -> tuple[str, str]:
    """Where the tables of a part stand on the page."""
    return f"<!-- soak {part}: begin -->", f"<!-- soak {part}: end -->"


def write_docs(document: Found, folder: Path) -> None:
    """Rewrite what the page tells of each part that was measured."""
    for part, found in document["parts"].items():
        tables = [
            f"### {table.title}\n\n{markdown_table(table)}"
            for table in build_tables(part, found)
        ]
        text = "\n\n".join([describe_run(document, part), *tables])
        replace_between(folder / PAGE, *mark(part), text)


def describe_run(document: Found, part: str) -> str:
    """When and on what it was measured, and the command that does it again."""
    machine = document["machine"]
    return (
        f"Measured {document['at'][:10]} on {machine['cores']} cores under a load of "
        f"{document['load']:.1f} before it, Python {machine['python']}, by "
        f"`{document['commands'][part]}`."
    )


def build_tables(part: str, found: Found) -> list[TableData]:
    """The tables of a part."""
    return list({"load": _load, "events": _events, "large": _large}[part](found))


def list_faults(document: Found) -> list[str]:
    """What must not happen: lost events and sockets, refused requests, errors, growth."""
    parts = document["parts"]
    return [
        *(_find_load_faults(parts["load"]) if "load" in parts else ()),
        *(_find_event_faults(parts["events"]) if "events" in parts else ()),
    ]


# --- The load


def _load(found: Found) -> Iterator[TableData]:
    options = found["options"]
    title = f"{options['myses']} Myses for {options['minutes']:g} minutes: how long it takes"
    times = dict(found["times"])
    times["event until a stream has it"] = found["events"]
    times["begin of a turn after it was due"] = found["late"]
    table = TableData(title, ["", *PERCENTILES, "how often"])
    for name, each in times.items():
        if each:
            cells = [format_amount(each[what], "ms") for what in PERCENTILES]
            table.rows.append([name, *cells, f"{each['count']:,.0f}"])
    yield table
    yield _build_outcome(found)
    yield _build_memory(found["memory"], found.get("shared_buffers"))
    yield _build_sizes(found["tables"])


def _build_outcome(found: Found) -> TableData:
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
    table = TableData("What came of it", ["", ""], [list(row) for row in rows.items()])
    table.notes = list(logs["lines"])
    return table


def _build_memory(
    samples: Mapping[str, Sequence[Sequence[float]]], buffers: int | None
) -> TableData:
    headings = ["", "first", "third quarter", "last quarter", "most", "an hour", ""]
    table = TableData("Memory of the processes (PSS)", headings)
    for name, found in sorted(samples.items()):
        trend = find_trend([(at, size) for at, size in found])
        sizes = (trend.first, trend.third, trend.last, trend.most)
        cells = [format_amount(size * MEGABYTE, "bytes") for size in sizes]
        is_long = found[-1][0] - found[0][0] >= 2 * SLOPE_SECONDS
        slope = f"{trend.slope:+.1f} MB" if is_long else ""
        table.rows.append([name, *cells, slope, _name_trend(name, trend, buffers)])
    return table


def _name_trend(name: str, trend: Trend, buffers: int | None) -> str:
    if name != BUFFERS:
        return "grows" if trend.grows else "flat"
    # Earlier measurements do not tell how large the buffers were set.
    return "bounded" if buffers is None else f"set: {format_amount(buffers, 'bytes')}"


def _build_sizes(tables: Found) -> TableData:
    headings = ["", "rows", "table", "indexes", "dead rows"]
    table = TableData("The largest tables, before and after", headings)
    before = tables["before"]
    for name, after in list(tables["after"].items())[:LARGEST_TABLES]:
        earlier = before.get(name, dict.fromkeys(after, 0))
        table.rows.append(
            [
                f"`{name}`",
                _format_change(earlier["live"], after["live"], ""),
                _format_change(earlier["table"], after["table"], "bytes"),
                _format_change(earlier["indexes"], after["indexes"], "bytes"),
                _format_change(earlier["dead"], after["dead"], ""),
            ]
        )
    return table


def _format_change(before: float, after: float, unit: str) -> str:
    return f"{format_amount(before, unit)} to {format_amount(after, unit)}"


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def _find_load_faults(found: Found) -> Iterator[str]:
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
            yield from _find_buffer_faults(trend, found.get("shared_buffers"))
        elif trend.grows:
            yield (
                f"The memory of {name} grows: {trend.third:.0f} MB in the third quarter, "
                f"{trend.last:.0f} MB in the last."
            )


def _find_buffer_faults(trend: Trend, buffers: int | None) -> Iterator[str]:
    """They fill up, which is no growth, but not beyond the size that is set."""
    if buffers is not None and trend.most > buffers / MEGABYTE + BESIDE_BUFFERS:
        yield (
            f"{BUFFERS} took {trend.most:.0f} MB, where "
            f"{format_amount(buffers, 'bytes')} are set."
        )


# --- Many events


def _events(found: Found) -> Iterator[TableData]:
    headings = ["", "events a second", "lost", "twice", "out of order", "web process"]
    table = TableData(f"{found['count']:,} events through one stream", headings)
    memory = {
        name: format_amount(size, "bytes") for name, size in found["memory"].items()
    }
    lines = {"backlog": "from the log", "live": "live", "bare": "a bare server"}
    table.rows.append(["before", "", "", "", "", memory["before"]])
    for name, title in lines.items():
        each = found[name]
        rate = each["frames"] / each["seconds"] if each["seconds"] else 0.0
        wrong = [f"{each[what]:,}" for what in ("lost", "twice", "disordered")]
        table.rows.append([title, f"{rate:,.0f}", *wrong, memory.get(name, "")])
    table.rows.append(["after a rest", "", "", "", "", memory["after"]])
    yield table


def _find_event_faults(found: Found) -> Iterator[str]:
    for name in ("backlog", "live"):
        each = found[name]
        if each["lost"] or each["twice"] or each["disordered"]:
            yield (
                f"Of {found['count']:,} events ({name}) {each['lost']} were lost and "
                f"{each['twice']} came twice; {each['disordered']} streams out of order."
            )


# --- A very large database


def _large(found: Found) -> Iterator[TableData]:
    small, large = found["sizes"]["small"], found["sizes"]["large"]
    headings = [
        "",
        f"{small['rows']:,} memories, p50; p95",
        f"{large['rows']:,} memories, p50; p95",
        "ratio",
        "target",
        "",
    ]
    title = f"{large['rows']:,} memories of {large['myses']} Myses"
    table = TableData(title, headings)
    for name, times in large["times"].items():
        table.rows.append([name, *_compare(name, small["times"][name], times)])
    table.rows.append(["prune of a day", *_compare_prunes(small, large)])
    sizes = [
        sum(t["table"] + t["indexes"] for t in e["tables"].values())
        for e in (small, large)
    ]
    cells = [format_amount(size, "bytes") for size in sizes]
    table.rows.append(
        ["tables and indexes", *cells, f"{sizes[1] / sizes[0]:.1f}", "", ""]
    )
    if large["rows"] < found["asked"]:
        table.notes.append(f"The disk holds no more; asked for {found['asked']:,}.")
    yield table


def _compare(name: str, small: Found, large: Found) -> list[str]:
    ratio = large["p50"] / small["p50"]
    cells = [
        "; ".join(format_amount(each[what], "ms") for what in ("p50", "p95"))
        for each in (small, large)
    ]
    target = TARGETS.get(name)
    met = "" if target is None else "met" if target.is_met(large, ratio) else "missed"
    return [*cells, f"{ratio:.2f}", str(target or ""), met]


def _compare_prunes(small: Found, large: Found) -> list[str]:
    pruned = [each["prune"] for each in (small, large)]
    cells = [
        f"{each['seconds']:.1f} s, {sum(each['removed'].values()):,} rows"
        for each in pruned
    ]
    ratio = pruned[1]["seconds"] / pruned[0]["seconds"]
    return [*cells, f"{ratio:.2f}", "", ""]
