"""What a fleet costs at rest: the processor time of a minute in which nothing is due."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil
import psycopg

from bench.figures import Figure, Step
from bench.fleet import run_fleet
from bench.processes import name_process, process_tree
from zoea.postgres import DATABASE, USER, socket_directory

SECONDS = 60.0
SETTLE_SECONDS = 10.0
WORKER_TARGET = 1.0
FLEET_TARGET = 2.0
STEPS = 2
POLL = 0.5

STOP_ALL = """
WITH jobs AS (DELETE FROM procrastinate_jobs WHERE status = 'todo' AND lock LIKE 'mysis-%')
UPDATE agents_mysis SET state = 'idle', next_job = NULL, wake_at = NULL
"""


def measure(step: Step) -> list[Figure]:
    """Let a demo fleet come to rest and look at its processes for a minute."""
    step("Letting a fleet come to rest")
    with (
        tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder,
        run_fleet(Path(folder) / "fleet") as fleet,
    ):
        fleet.wait_for_link()
        fleet.wait_for_turn()
        with psycopg.connect(
            host=str(socket_directory(fleet.data)),
            user=USER,
            dbname=DATABASE,
            autocommit=True,
        ) as database:
            database.execute(STOP_ALL)
            time.sleep(SETTLE_SECONDS)
            step("Looking at the fleet at rest")
            before, own = sum_processor_time(fleet.pid), time.process_time()
            for _ in range(round(SECONDS / POLL)):
                database.execute("SELECT 1")
                time.sleep(POLL)
            asked = time.process_time() - own
            after = sum_processor_time(fleet.pid)
    used = {name: spent - before.get(name, 0.0) for name, spent in after.items()}
    return [
        _figure("worker at rest", used["worker"], asked, WORKER_TARGET),
        _figure("fleet at rest", sum(used.values()), asked, FLEET_TARGET),
    ]


def sum_processor_time(pid: int) -> dict[str, float]:
    """The seconds that a process and its children have computed, by their names."""
    sums: dict[str, float] = {}
    for process in process_tree(pid):
        try:
            spent, name = process.cpu_times(), name_process(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        sums[name] = sums.get(name, 0.0) + spent.user + spent.system
    return sums


def _figure(name: str, seconds: float, asked: float, target: float) -> Figure:
    return Figure(
        name,
        seconds / SECONDS * 100,
        "% of a core",
        baseline=asked / SECONDS * 100,
        baseline_is="a process that sends SELECT 1 twice a second",
        target=target,
        note=f"6 idle Myses, {SECONDS:.0f} s",
    )
