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

import psutil
import psycopg

from bench.faults.fleet import PATIENCE, WORKERS, Fleet, await_some, wait_until
from zoea.postgres.process import DATABASE, USER

OUTAGE = 600.0
"""Seconds for which provider and game are away; the pauses are not waited for."""

HOUR = 3600

AWAY = 150.0
"""Seconds for which a database may be away, as in a failover or a minor upgrade."""

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
    """A fault, what it is in words, and what it needs of the fleet."""

    name: str
    title: str
    strike: Callable[[Fleet], Trial]


def play_scene(scene: Scene, fleet: Fleet) -> Trial:
    """Fly, have the fault, recover, land, and account for everything."""
    fleet.take_off()
    trial = scene.strike(fleet)
    lost = (*trial.lost, *fleet.land())
    return Trial(trial.seconds, trial.seen, lost)


# --- The database


def restart_postgres(fleet: Fleet, away: float = 0.0) -> Trial:
    """Stop it as its own command does, look at the web server, and start it later."""
    deaths = count_deaths(fleet)
    server = fleet.installation.postgres
    assert server.pid is not None
    process = psutil.Process(server.pid)
    process.send_signal(signal.SIGINT)
    psutil.wait_procs([process], timeout=PATIENCE)
    seen = fleet.read_ready()
    time.sleep(away)
    begun = time.monotonic()
    server.ensure_running()
    newest = fleet.find_newest_turn()
    fleet.await_turns(newest)
    died = count_deaths(fleet) - deaths
    seconds = time.monotonic() - begun
    return Trial(seconds, seen, (f"{died} programs died",) if died else ())


def lose_listeners(fleet: Fleet) -> Trial:
    """End every connection that listens, or tells others of news."""
    with fleet.watch_events() as viewer:
        viewer.await_event(speak_up(fleet))
        cut = fleet.installation.query_rows(
            """SELECT application_name, pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
              AND (query LIKE 'LISTEN%' OR query LIKE 'NOTIFY%'
                OR query LIKE '%FROM agents_event%' OR query LIKE '%worker%lock%')"""
        )
        ready = fleet.read_ready()
        newest = fleet.find_newest_turn()
        begun = time.monotonic()
        viewer.await_event(speak_up(fleet))
        fleet.await_turns(newest)
        seconds = time.monotonic() - begun
        missed = viewer.find_missed(fleet.list_events())
    lost = (f"events {missed}",) if missed else ()
    programs = ", ".join(sorted({str(name) for name, _ in cut}))
    socket = "; ".join(viewer.ends) or "open"
    return Trial(seconds, f"{programs} cut; ready: {ready}; socket: {socket}", lost)


def speak_up(fleet: Fleet) -> int:
    """Write to a Mysis; an event that everybody is told because of it."""
    before = fleet.list_events()[-1]
    fleet.operator.send_message("cap-1", f"Report {time.monotonic_ns()}.")
    events = fleet.list_events()
    return events[events.index(before) + 1]


def fill_disk(fleet: Fleet) -> Trial:
    """Let nothing be written where the data are, until it shows."""
    ballast, line = fleet.installation.data / "ballast", "No space left"
    before = count_in_logs(fleet, line)
    fill(ballast)
    try:
        wait_until(lambda: count_in_logs(fleet, line) > before, "a full disk")
        seen = fleet.send_once()
    finally:
        ballast.unlink()
    begun = time.monotonic()
    # As `up` does with a server that did not come back by itself.
    fleet.installation.postgres.ensure_running()
    fleet.installation.revive()
    newest = fleet.find_newest_turn()
    fleet.await_turns(newest)
    return Trial(time.monotonic() - begun, seen)


def fill(path: Path) -> None:
    """Take all that is left of a file system."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))


def count_in_logs(fleet: Fleet, text: str) -> int:
    """How often the database server and the programs have written this."""
    data = fleet.installation.data
    logs = [data / "postgres.log", *data.glob("logs/*.log")]
    return sum(
        log.read_text(errors="replace").count(text) for log in logs if log.is_file()
    )


def fill_log_disk(fleet: Fleet) -> Trial:
    """Have one worker, that can write no line of its log."""
    log = fleet.installation.data / "logs" / "mute.log"
    log.symlink_to("/dev/full")
    try:
        return fly_alone(fleet, "mute")
    finally:
        log.unlink()


# --- What a fleet meets


def lose_provider_and_game(fleet: Fleet) -> Trial:
    """Refuse every connection for ten minutes, of which no pause is waited for."""
    fleet.model.refuse()
    fleet.play.refuse()
    newest = fleet.find_newest_turn()
    waited = skip_pauses(fleet)
    seen = fleet.read_activity()
    tries = fleet.find_newest_turn() - newest
    left = read_longest_pause(fleet)
    fleet.model.accept()
    fleet.play.accept()
    begun = time.monotonic()
    newest = fleet.find_newest_turn()
    hurry(fleet)
    fleet.await_turns(newest)
    seen = f"{seen[:90]}; {tries / len(waited):.0f} tries each"
    return Trial(time.monotonic() - begun + left, seen)


def skip_pauses(fleet: Fleet) -> dict[str, float]:
    """Bring forward each retry until all have waited for the outage; their seconds."""
    waited: dict[str, float] = {}
    behind = [str(one["name"]) for one in fleet.operator.list_myses()]

    def all_have_waited() -> bool:
        for name, pause in list_pauses(fleet):
            if waited.get(name, 0.0) < OUTAGE:
                waited[name] = waited.get(name, 0.0) + pause
                if waited[name] < OUTAGE:
                    hurry(fleet, name)
        return all(waited.get(name, 0.0) >= OUTAGE for name in behind)

    wait_until(all_have_waited, "ten minutes of pauses")
    return waited


def list_pauses(fleet: Fleet) -> list[tuple[str, float]]:
    """Who waits to try again, and for how many seconds yet."""
    rows = fleet.installation.query_rows(
        """SELECT mysis.name, extract(epoch FROM job.scheduled_at - now())::float
        FROM agents_mysis AS mysis JOIN procrastinate_jobs AS job ON job.id = next_job
        WHERE job.status = 'todo' AND job.scheduled_at > now()
          AND job.args->>'trigger' = 'retry'"""
    )
    return [(str(name), float(str(seconds))) for name, seconds in rows]


def read_longest_pause(fleet: Fleet) -> float:
    """The seconds until the last of them tries again."""
    return max(seconds for _, seconds in list_pauses(fleet))


def hurry(fleet: Fleet, name: str = "%") -> None:
    """Make the turns due that wait, and tell the workers."""
    with psycopg.connect(fleet.installation.postgres.conninfo()) as database:
        database.execute(
            """UPDATE procrastinate_jobs SET scheduled_at = now() FROM agents_mysis
            WHERE procrastinate_jobs.id = next_job AND status = 'todo' AND name LIKE %s""",
            [name],
        )
        database.execute(
            "SELECT pg_notify('procrastinate_any_queue_v1', %s)", [JOB_MADE]
        )


# --- Workers


def kill_worker(fleet: Fleet) -> Trial:
    """End a worker in the middle of a turn, as the system does that is out of memory."""
    name = WORKERS[0]
    turns = await_turn_of(fleet, name)
    newest = fleet.find_newest_turn()
    fleet.installation.kill(name)
    begun = time.monotonic()
    fleet.await_turns(newest)
    seconds = time.monotonic() - begun
    fleet.installation.revive()
    return Trial(seconds, fleet.read_outcomes(turns))


def lose_host(fleet: Fleet) -> Trial:
    """Cut the way of one of two workers to the database, without a word to anybody."""
    return silence_host(fleet)


def silence_host(fleet: Fleet, *words: str) -> Trial:
    """The same; ``words`` start that worker in another way."""
    address = f"postgresql://{USER}@127.0.0.1:{fleet.network.port}/{DATABASE}"
    fleet.installation.begin_worker("far", *words, DATABASE_URL=address)
    turns = await_turn_of(fleet, "far")
    fleet.network.fall_silent()
    newest = fleet.find_newest_turn()
    begun = time.monotonic()
    fleet.await_turns(newest)
    seconds = time.monotonic() - begun
    fleet.network.speak()
    fleet.await_turns(fleet.find_newest_turn())
    end_worker(fleet, "far")
    return Trial(seconds, fleet.read_outcomes(turns))


def set_clock(fleet: Fleet, seconds: int) -> Trial:
    """Have one worker, whose clock is so far ahead of the database's."""
    return fly_alone(fleet, "off", "-m", "bench.faults.worker", str(seconds), STALLED)


def fly_alone(fleet: Fleet, name: str, *words: str) -> Trial:
    """Have this worker alone for a while: what all have flown then, it has flown."""
    for other in WORKERS:
        end_worker(fleet, other)
    fleet.installation.begin_worker(name, *words)
    try:
        turns = await_turn_of(fleet, name)
        seconds = fleet.await_turns(fleet.find_newest_turn())
    finally:
        end_worker(fleet, name)
        for other in WORKERS:
            fleet.installation.begin_worker(other)
    return Trial(seconds, fleet.read_outcomes(turns))


def await_turn_of(fleet: Fleet, name: str) -> list[int]:
    """Wait until a worker of this name has turns in its hands; which."""
    number = fleet.find_worker(name)
    return await_some(lambda: fleet.list_open_turns(number), f"a turn of {name}")


def end_worker(fleet: Fleet, name: str) -> None:
    """End a worker for good."""
    child = fleet.installation.children.pop(name)
    child.process.send_signal(signal.SIGTERM)
    child.process.wait(PATIENCE)


def count_deaths(fleet: Fleet) -> int:
    """How many programs have ended by themselves."""
    fleet.installation.revive()
    return sum(child.deaths for child in fleet.installation.children.values())


# --- The web


def kill_web(fleet: Fleet) -> Trial:
    """End the web server under a program that reads events, and start it again."""
    with fleet.watch_events() as viewer:
        viewer.await_event(speak_up(fleet))
        fleet.installation.kill("web-1")
        begun = time.monotonic()
        wait_until(lambda: viewer.ends, "the end of the connection")
        fleet.installation.revive()
        viewer.await_event(speak_up(fleet))
        seconds = time.monotonic() - begun
        missed = viewer.find_missed(fleet.list_events())
    lost = (f"events {missed}",) if missed else ()
    return Trial(seconds, viewer.ends[0], lost)


SCENES = (
    Scene("postgres", "PostgreSQL is restarted", restart_postgres),
    Scene(
        "away",
        f"PostgreSQL is away for {AWAY:g} s",
        partial(restart_postgres, away=AWAY),
    ),
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
