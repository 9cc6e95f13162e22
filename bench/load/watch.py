"""What is looked at while a fleet runs: memory, database, logs; and what came of it."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.processes import measure_memory

MEGABYTE = 1_000_000
#: So much more than in the third quarter, and in megabytes, is growth and no accident.
GROWTH, LEAST_GROWTH = 0.0375, 7.5
MOST_ERRORS = 5

#: When each turn was due. Finished jobs are deleted, so a trigger keeps what they said.
KEEP_DUE = """
CREATE TABLE load_due (job_id bigint PRIMARY KEY, due_at timestamptz);
CREATE FUNCTION load_keep_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO load_due SELECT OLD.id, coalesce(OLD.scheduled_at, (
    SELECT min(at) FROM procrastinate_events WHERE job_id = OLD.id AND type = 'deferred'
  )) ON CONFLICT DO NOTHING;
  RETURN OLD;
END $$;
CREATE TRIGGER a_load_keep_due BEFORE DELETE ON procrastinate_jobs
  FOR EACH ROW EXECUTE FUNCTION load_keep_due();
"""
LATE_TURNS = """
SELECT 1000 * extract(epoch FROM turn.started_at - due.due_at)::float8
FROM agents_turn AS turn JOIN load_due AS due USING (job_id)
WHERE turn.started_at >= %s
"""
SHARED_BUFFERS = "SELECT pg_size_bytes(current_setting('shared_buffers'))"
CONNECTIONS = """
SELECT count(*), count(*) FILTER (WHERE state = 'active')
FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
#: Of the program, and of PostgreSQL.
_LEVEL = re.compile(
    r"^[-\d]+ [\d:,.]+ (?P<postgres>UTC \[\d+\] )?"
    r"(?P<level>ERROR|CRITICAL|FATAL|PANIC|WARNING):? +(?P<text>.*)"
)
_TRACEBACK = re.compile(r"^(Traceback|Exception) ")
# Numbers, ids and addresses, so that the same fault counts as one.
_PARTICULAR = re.compile(r"0x[0-9a-f]+|\d+")


# --- Memory

POSTGRES = "PostgreSQL"
# They fill up to the size that `shared_buffers` says, and then stay as they are.
BUFFERS = f"{POSTGRES}'s shared buffers"


@dataclass
class Memory:
    pid: int
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    def take_sample(self, now: float) -> None:
        """Look at all processes; those of PostgreSQL count as one, without buffers."""
        sizes: Counter[str] = Counter()
        for process in sorted(measure_memory([self.pid]), key=lambda each: each.pid):
            buffers = process.shared if process.name == POSTGRES else 0
            sizes[self._name(process.pid, process.name)] += process.pss - buffers
            sizes[BUFFERS] += buffers
        for name, size in sizes.items():
            self.samples.setdefault(name, []).append((now, size / MEGABYTE))

    def _name(self, pid: int, name: str) -> str:
        if name == POSTGRES:
            return name
        if pid not in self._names:
            like = [each for each in self._names.values() if each.split()[0] == name]
            number = f" {len(like) + 1}" if like else ""
            self._names[pid] = f"{name}{number}"
        return self._names[pid]


@dataclass(frozen=True)
class Trend:
    """Megabytes of one process: at the beginning and the end, and how they grow.

    The first half of the time is the warm-up. ``third`` and ``last`` are of the quarters
    after it, ``slope`` (an hour) of both.
    """

    first: float
    third: float
    last: float
    most: float
    slope: float

    @property
    def grows(self) -> bool:
        """Whether the last quarter holds clearly more than the third."""
        more = self.last - self.third
        return more > max(LEAST_GROWTH, GROWTH * self.third)


def find_trend(samples: Sequence[tuple[float, float]]) -> Trend:
    """How a process grows; the quarters are those from the first to the last sample."""
    begun, ended = samples[0][0], samples[-1][0]
    quarter = (ended - begun) / 4
    warm = [each for each in samples if each[0] >= begun + 2 * quarter]
    last = [size for at, size in warm if at >= ended - quarter]
    third = [size for at, size in warm if at < ended - quarter] or last
    slope = 0.0
    if len({at for at, _ in warm}) > 1:
        slope = statistics.linear_regression(*zip(*warm, strict=True)).slope * 3600
    return Trend(
        first=samples[0][1],
        third=statistics.median(third),
        last=statistics.median(last),
        most=max(size for _, size in samples),
        slope=slope,
    )


# --- Database


@dataclass
class Connections:
    """How many connections the database has, over time."""

    open: list[int] = field(default_factory=list)
    active: list[int] = field(default_factory=list)

    def take_sample(self, database: psycopg.Connection[Any]) -> None:
        row = database.execute(CONNECTIONS).fetchone()
        assert row is not None
        self.open.append(row[0])
        self.active.append(row[1])


# --- Logs


def measure_logs(data: Path) -> dict[Path, int]:
    """The logs of all programs, and how long each is."""
    logs = sorted([*data.glob("*.log"), *data.glob("logs/*.log")])
    return {log: log.stat().st_size for log in logs}


def read_logs(data: Path, since: Mapping[Path, int]) -> dict[str, Any]:
    """What went wrong since the logs were so long; the most frequent errors in words.

    ``refused`` are statements that PostgreSQL refused: some are asked to find that out.
    """
    kinds, lines = Counter[str](), Counter[str]()
    for log, size in measure_logs(data).items():
        begun = since.get(log, 0)
        # A log that is too long is cut while its program writes on.
        text = log.read_bytes()[begun if begun <= size else 0 :].decode(
            errors="replace"
        )
        for line in text.splitlines():
            kind, what = find_fault(line)
            kinds[kind] += 1
            if kind in {"error", "refused"}:
                lines[f"{log.stem}: {what}"] += 1
    return {
        "errors": kinds["error"],
        "refused": kinds["refused"],
        "warnings": kinds["warning"],
        "lines": [f"{n} x {text}" for text, n in lines.most_common(MOST_ERRORS)],
    }


def find_fault(line: str) -> tuple[str, str]:
    """What kind of fault a line tells of, numbers left out; empty for other lines."""
    found = _LEVEL.match(line)
    if found is None:
        # A traceback without a line of the log above it is not counted there.
        return ("error", line[:200]) if _TRACEBACK.match(line) else ("", "")
    kind = "warning" if found["level"] == "WARNING" else "error"
    if found["postgres"] and found["level"] == "ERROR":
        kind = "refused"
    return kind, _PARTICULAR.sub("N", found["text"])[:200]
