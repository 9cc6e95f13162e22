"""One child process: what to run, and where it writes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LOG_LIMIT = 5_000_000
_LIFELINE = Path(__file__).with_name("lifeline.py")


@dataclass(frozen=True)
class Program:
    """A program to keep running. Its output goes to the end of ``log``.

    ``sockets`` are file descriptors that it inherits.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    sockets: tuple[int, ...] = ()

    async def start(self) -> asyncio.subprocess.Process:
        """Start it in a session of its own, bound to the life of this process.

        Call it from the main thread: the kernel watches the starting thread.
        """
        self.shorten_log()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        lifeline = (sys.executable, "-I", "-S", str(_LIFELINE), str(os.getpid()))
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *lifeline,
                *self.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                pass_fds=self.sockets,
                start_new_session=True,
            )

    def shorten_log(self) -> None:
        """Keep the log's size within bounds, also while the program writes."""
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_LIMIT:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)

    def last_line(self, since: int = 0) -> str:
        """Return the last line that it wrote after this place of the log."""
        with suppress(FileNotFoundError), self.log.open("rb") as log:
            size = self.log.stat().st_size
            log.seek(max(since if since <= size else 0, size - 20_000))
            lines = log.read().decode(errors="replace").split("\n")
            for line in reversed(lines):
                if line.strip():
                    return line.strip()[:500]
        return ""

    def log_size(self) -> int:
        """Return where the log ends now, in bytes."""
        with suppress(FileNotFoundError):
            return self.log.stat().st_size
        return 0


async def stop(process: asyncio.subprocess.Process, patience: float) -> None:
    """End a child and what it started: ask first, then after ``patience`` kill."""
    _signal(process, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # The whole group, which outlives its leader as long as it has members.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
