"""The faults: each happens once to a flying fleet, which is then waited for."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from bench.faults.flight import WORKERS, Flight
from bench.faults.operator import await_some, wait_until
from bench.fleet import crash_postgres
from zoea.postgres.process import DATABASE, USER

OUTAGE = 600.0
"""Seconds for which provider and game are away; the pauses are not waited for."""

HOUR = 3600

#: Seconds without a heartbeat after which a worker is gone, as in the program itself.
STALLED = "17"

JOB_MADE = json.dumps({"type": "job_inserted", "job_id": 0})


@dataclass(frozen=True)
class Trial:
    """What came of a fault: seconds until all was well, what was seen, what was lost."""

    seconds: float
    seen: str = ""
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scene:
    """A fault, what it is in words, and what does it."""

    name: str
    title: str
    strike: Callable[[Flight], Trial]


def play_scene(scene: Scene, flight: Flight) -> Trial:
    """Fly, have the fault, recover, land, and account for everything."""
    flight.take_off()
    trial = scene.strike(flight)
    lost = (*trial.lost, *flight.land())
    return Trial(trial.seconds, trial.seen, lost)


# --- The database


def restart_postgres(flight: Flight) -> Trial:
    """Stop it as its own command does, look at the web server, and start it later."""
    deaths = count_deaths(flight)
    crash_postgres(flight.postgres, signal.SIGINT)
    seen = flight.read_ready()
    begun = time.monotonic()
    flight.postgres.ensure_running()
    newest = flight.find_newest_turn()
    flight.await_turns(newest)
    died = count_deaths(flight) - deaths
    seconds = time.monotonic() - begun
    return Trial(seconds, seen, (f"{died} programs died",) if died else ())


def lose_listeners(flight: Flight) -> Trial:
    """End every connection that listens, or tells others of news."""
    with flight.watch_events() as viewer:
        viewer.await_event(speak_up(flight))
        cut = flight.fleet.query(
            """SELECT application_name, pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
              AND (query LIKE 'LISTEN%' OR query LIKE 'NOTIFY%'
                OR query LIKE '%FROM agents_event%' OR query LIKE '%worker%lock%')"""
        )
        ready = flight.read_ready()
        newest = flight.find_newest_turn()
        begun = time.monotonic()
        viewer.await_event(speak_up(flight))
        flight.await_turns(newest)
        seconds = time.monotonic() - begun
        missed = viewer.find_missed(flight.list_events())
    lost = (f"events {missed}",) if missed else ()
    programs = ", ".join(sorted({str(name) for name, _ in cut}))
    socket = "; ".join(viewer.ends) or "open"
    return Trial(seconds, f"{programs} cut; ready: {ready}; socket: {socket}", lost)


def speak_up(flight: Flight) -> int:
    """Write to a Mysis; an event that everybody is told because of it."""
    before = flight.list_events()[-1]
    flight.operator.send_message("cap-1", f"Report {time.monotonic_ns()}.")
    events = flight.list_events()
    return events[events.index(before) + 1]


def fill_disk(flight: Flight) -> Trial:
    """Let nothing be written where the data are, until it shows."""
    ballast, line = flight.fleet.data / "ballast", "No space left"
    before = count_in_logs(flight, line)
    fill(ballast)
    try:
        wait_until(lambda: count_in_logs(flight, line) > before, "a full disk")
        seen = flight.send_once()
    finally:
        ballast.unlink()
    begun = time.monotonic()
    # As `up` does with a server that did not come back by itself.
    flight.postgres.ensure_running()
    flight.fleet.revive()
    newest = flight.find_newest_turn()
    flight.await_turns(newest)
    return Trial(time.monotonic() - begun, seen)


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))


def count_in_logs(flight: Flight, text: str) -> int:
    """How often the database server and the programs have written this."""
    data = flight.fleet.data
    logs = [data / "postgres.log", *data.glob("logs/*.log")]
    return sum(
        log.read_text(errors="replace").count(text) for log in logs if log.is_file()
    )


def fill_log_disk(flight: Flight) -> Trial:
    """Have one worker, that can write no line of its log."""
    log = flight.fleet.data / "logs" / "mute.log"
    log.symlink_to("/dev/full")
    try:
        return fly_alone(flight, "mute")
    finally:
        log.unlink()


# --- What a fleet meets


def lose_provider_and_game(flight: Flight) -> Trial:
    """Refuse every connection for ten minutes, of which no pause is waited for."""
    flight.model.refuse()
    flight.play.refuse()
    newest = flight.find_newest_turn()
    waited = skip_pauses(flight)
    seen = flight.read_activity()
    tries = flight.find_newest_turn() - newest
    left = read_longest_pause(flight)
    flight.model.accept()
    flight.play.accept()
    begun = time.monotonic()
    newest = flight.find_newest_turn()
    hurry(flight)
    flight.await_turns(newest)
    seen = f"{seen[:90]}; {tries / len(waited):.0f} tries each"
    return Trial(time.monotonic() - begun + left, seen)


def skip_pauses(flight: Flight) -> dict[str, float]:
    """Bring forward each retry until all have waited for the outage; their seconds."""
    waited: dict[str, float] = {}
    behind = [str(one["name"]) for one in flight.operator.list_myses()]

    def all_have_waited() -> bool:
        for name, pause in list_pauses(flight):
            if waited.get(name, 0.0) < OUTAGE:
                waited[name] = waited.get(name, 0.0) + pause
                if waited[name] < OUTAGE:
                    hurry(flight, name)
        return all(waited.get(name, 0.0) >= OUTAGE for name in behind)

    wait_until(all_have_waited, "ten minutes of pauses")
    return waited


def list_pauses(flight: Flight) -> list[tuple[str, float]]:
    """Who waits to try again, and for how many seconds yet."""
    rows = flight.fleet.query(
        """SELECT mysis.name, extract(epoch FROM job.scheduled_at - now())::float
        FROM agents_mysis AS mysis JOIN procrastinate_jobs AS job ON job.id = next_job
        WHERE job.status = 'todo' AND job.scheduled_at > now()
          AND job.args->>'trigger' = 'retry'"""
    )
    return [(str(name), float(str(seconds))) for name, seconds in rows]


def read_longest_pause(flight: Flight) -> float:
    """The seconds until the last of them tries again."""
    return max(seconds for _, seconds in list_pauses(flight))


def hurry(flight: Flight, name: str = "%") -> None:
    """Make the turns due that wait, and tell the workers."""
    with psycopg.connect(flight.postgres.conninfo()) as database:
        database.execute(
            """UPDATE procrastinate_jobs SET scheduled_at = now() FROM agents_mysis
            WHERE procrastinate_jobs.id = next_job AND status = 'todo' AND name LIKE %s""",
            [name],
        )
        database.execute(
            "SELECT pg_notify('procrastinate_any_queue_v1', %s)", [JOB_MADE]
        )


# --- Workers


def kill_worker(flight: Flight) -> Trial:
    """End a worker in the middle of a turn, as the system does that is out of memory."""
    name = WORKERS[0]
    turns = await_turn_of(flight, name)
    newest = flight.find_newest_turn()
    flight.fleet.kill(name)
    begun = time.monotonic()
    flight.await_turns(newest)
    seconds = time.monotonic() - begun
    flight.fleet.revive()
    return Trial(seconds, flight.read_outcomes(turns))


def lose_host(flight: Flight) -> Trial:
    """Cut the way of one of two workers to the database, without a word to anybody."""
    return silence_host(flight)


def silence_host(flight: Flight, *words: str) -> Trial:
    """The same; ``words`` start that worker in another way."""
    address = f"postgresql://{USER}@127.0.0.1:{flight.network.port}/{DATABASE}"
    begin_worker(flight, "far", *words, DATABASE_URL=address)
    turns = await_turn_of(flight, "far")
    flight.network.fall_silent()
    newest = flight.find_newest_turn()
    begun = time.monotonic()
    flight.await_turns(newest)
    seconds = time.monotonic() - begun
    flight.network.speak()
    flight.await_turns(flight.find_newest_turn())
    flight.fleet.end("far")
    return Trial(seconds, flight.read_outcomes(turns))


def set_clock(flight: Flight, seconds: int) -> Trial:
    """Have one worker, whose clock is so far ahead of the database's."""
    return fly_alone(flight, "off", "-m", "bench.faults.worker", str(seconds), STALLED)


def fly_alone(flight: Flight, name: str, *words: str) -> Trial:
    """Have this worker alone for a while: what all have flown then, it has flown."""
    for other in WORKERS:
        flight.fleet.end(other)
    begin_worker(flight, name, *words)
    try:
        turns = await_turn_of(flight, name)
        seconds = flight.await_turns(flight.find_newest_turn())
    finally:
        flight.fleet.end(name)
        for other in WORKERS:
            begin_worker(flight, other)
    return Trial(seconds, flight.read_outcomes(turns))


def await_turn_of(flight: Flight, name: str) -> list[int]:
    """Wait until a worker of this name has turns in its hands; which."""
    number = flight.find_worker(name)
    return await_some(lambda: flight.list_open_turns(number), f"a turn of {name}")


def begin_worker(flight: Flight, name: str, *words: str, **environment: str) -> None:
    """Start one more worker; ``words`` follow ``python`` in the place of ``manage.py``."""
    flight.fleet.begin(name, flight.fleet.make_worker(*words), **environment)


def count_deaths(flight: Flight) -> int:
    flight.fleet.revive()
    return sum(child.deaths for child in flight.fleet.children.values())


# --- The web


def kill_web(flight: Flight) -> Trial:
    """End the web server under a program that reads events, and start it again."""
    with flight.watch_events() as viewer:
        viewer.await_event(speak_up(flight))
        flight.fleet.kill("web-1")
        begun = time.monotonic()
        wait_until(lambda: viewer.ends, "the end of the connection")
        flight.fleet.revive()
        viewer.await_event(speak_up(flight))
        seconds = time.monotonic() - begun
        missed = viewer.find_missed(flight.list_events())
    lost = (f"events {missed}",) if missed else ()
    return Trial(seconds, viewer.ends[0], lost)


SCENES = (
    Scene("postgres", "PostgreSQL is restarted", restart_postgres),
    Scene("listen", "LISTEN is lost: hub, worker, hints", lose_listeners),
    Scene("disk", "the disk is full", fill_disk),
    Scene(
        "outage", "provider and game are away for 10 minutes", lose_provider_and_game
    ),
    Scene("logs", "the disk of a worker's log is full", fill_log_disk),
    Scene("memory", "a worker is killed for its memory", kill_worker),
    Scene("web", "the web server is killed under viewers", kill_web),
    Scene("host", "one of two hosts is cut off in silence", lose_host),
    Scene(
        "clock", "a worker's clock is an hour ahead", partial(set_clock, seconds=HOUR)
    ),
    Scene(
        "behind",
        "a worker's clock is an hour behind",
        partial(set_clock, seconds=-HOUR),
    ),
)
