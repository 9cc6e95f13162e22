"""The processes that a measurement starts, and the memory that they take."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import django
import psutil
from django.core.management import call_command
from django.db import connection

from bench.figures import Step
from zoea.commandline import open_database

ROOT = Path(__file__).resolve().parents[1]
PYTHON = [sys.executable, "-W", "ignore"]
_OURS = ("ZOEA_", "DJANGO_", "SPACEMOLT_", "OPENAI_", "ANTHROPIC_", "OLLAMA_")
# Set and empty, so that a .env file does not fill them in.
_UNSET = ("DATABASE_URL", "SPACEMOLT_MCP_URL")
_NAMES = {
    "daphne": "web",
    "procrastinate": "worker",
    "sandbox.game": "sandbox",
    "sandbox": "sandbox",
    "up": "up",
}
_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)
_SHARED = re.compile(r"^Pss_Shmem:\s+(\d+) kB$", re.MULTILINE)


def clean_environment(data: Path) -> dict[str, str]:
    """The environment of a program that uses ``data`` and the default settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    return kept | dict.fromkeys(_UNSET, "") | {"ZOEA_DATA": str(data)}


def set_up_django(data: Path) -> None:
    """Let this process, and those that it starts, use a data folder."""
    environment = clean_environment(data)
    os.environ.clear()
    os.environ.update(environment | {"DJANGO_SETTINGS_MODULE": "zoea.settings"})
    django.setup()


# --- Functions in a process of their own: Django is set up once in each


def run_function(target: str, data: Path, step: Step, *words: str) -> Any:
    """Call ``module:function`` in a process with this data folder; its result.

    Raises RuntimeError where the process ends without one.
    """
    process = subprocess.Popen(
        [*PYTHON, "-m", "bench.processes", target, *words],
        cwd=ROOT,
        env=clean_environment(data),
        stdout=subprocess.PIPE,
        text=True,
    )
    last = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if last:
                step(last)
            last = line.strip()
    finally:
        # It lets go of its database when it is asked to end.
        process.terminate()
        status = process.wait(timeout=120)
    if not last.startswith(("{", "[")):
        raise RuntimeError(f"{target} could not measure (status {status}).")
    return json.loads(last)


def main(target: str, *words: str) -> None:
    """The other side of ``run_function``."""
    # Ends by an exception, so that processes and databases are let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    module, _, name = target.partition(":")
    result = getattr(import_module(module), name)(_write_line, *words)
    _write_line(json.dumps(result, default=asdict))


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def migrated_database(step: Step) -> Iterator[None]:
    """The database of this process's data folder, with all tables."""
    with open_database():
        step("Migrating")
        call_command("migrate", verbosity=0, interactive=False)
        yield


# --- Servers


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    @property
    def origin(self) -> str:
        """What a browser on its pages sends as Origin."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@contextmanager
def run_server(
    *arguments: str,
    at: int = 0,
    application: str = "zoea.asgi:application",
    **environment: str,
) -> Iterator[Server]:
    """A Daphne on this process's database, until the block ends; ``at`` is its port."""
    with socket.create_server(("127.0.0.1", at)) as listening:
        port: int = listening.getsockname()[1]
        number = listening.fileno()
        daphne = ["daphne", "--websocket_timeout=-1", f"--fd={number}"]
        process = subprocess.Popen(
            [sys.executable, "-m", *daphne, *arguments, application],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": database_url()} | environment,
            pass_fds=[number],
        )
    try:
        # The socket listens already, so this waits until somebody answers.
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/healthz", timeout=240
        ) as answer:
            assert answer.status == 200
        yield Server(port, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def database_url() -> str:
    """The address of the database of this process, for another process."""
    known = connection.settings_dict
    host = quote(str(known["HOST"]), safe="")
    user = quote(str(known["USER"] or ""), safe="")
    word = quote(str(known["PASSWORD"] or ""), safe="")
    port = f":{known['PORT']}" if known["PORT"] else ""
    who = f"{user}:{word}@" if word else f"{user}@"
    return f"postgresql://{who}{host}{port}/{quote(str(known['NAME']), safe='')}"


# --- Memory


@dataclass(frozen=True)
class Process:
    """One process of a tree; ``pss`` is its proportional set size in bytes.

    A resident size counts common pages of forked processes once for each of them;
    the proportional size divides them, so that sums over processes are true.
    ``shared`` of it is memory that was asked for in common, as a database's buffers.
    """

    pid: int
    name: str
    pss: int
    shared: int = 0


def measure_memory(pids: Iterable[int]) -> list[Process]:
    """These processes and all their children, the largest first."""
    found = {process.pid: process for pid in pids for process in process_tree(pid)}
    measured = []
    for pid, process in found.items():
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            name = name_process(process.cmdline())
            shared = _SHARED.search(rollup)
            common = int(shared[1]) * 1024 if shared else 0
            measured.append(Process(pid, name, parse_pss(rollup), common))
        except (ProcessLookupError, FileNotFoundError, psutil.NoSuchProcess):
            # It ended meanwhile, as database connections do.
            continue
    return sorted(measured, key=lambda process: -process.pss)


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and all that came from it."""
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def name_process(words: list[str]) -> str:
    """The part of the program that has this command line."""
    program = Path(words[0].split(":")[0]).name if words else ""
    if program == "postgres":
        return "PostgreSQL"
    for word, name in _NAMES.items():
        if word in words:
            return name
    return program


def parse_pss(rollup: str) -> int:
    """The bytes in a ``smaps_rollup``; raises ValueError where it has none."""
    found = _PSS.search(rollup)
    if found is None:
        raise ValueError("this smaps_rollup has no Pss line")
    return int(found[1]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
