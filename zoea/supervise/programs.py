"""The programs that make up a running fleet: game, worker and web server."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from .program import Program


@dataclass(frozen=True)
class Layout:
    """Where the programs live and what they share.

    ``root`` is the source tree, ``data`` the data folder, ``tick`` the length of
    a game tick in seconds, ``game_url`` where the game's MCP server is.
    """

    root: Path
    data: Path
    tick: float
    game_url: str

    def program(self, name: str, *argv: str, sockets: tuple[int, ...] = ()) -> Program:
        """Return a Python program of ours; ``argv`` is what follows ``python``."""
        return Program(
            name=name,
            argv=(sys.executable, *argv),
            log=self.data / "logs" / f"{name}.log",
            environment={
                "DJANGO_SETTINGS_MODULE": "zoea.settings",
                "PYTHONPATH": str(self.root),
                "PYTHONUNBUFFERED": "1",
                "SPACEMOLT_MCP_URL": self.game_url,
                "ZOEA_DATA": str(self.data),
                "ZOEA_SECONDS_PER_TICK": str(self.tick),
            },
            sockets=sockets,
        )

    def manage(self, name: str, *argv: str) -> Program:
        """Return one of the management commands as a program."""
        return self.program(name, str(self.root / "manage.py"), *argv)


def sandbox(layout: Layout, port: int) -> Program:
    """The local game server; its world goes on where it was."""
    return layout.manage(
        "sandbox",
        "sandbox",
        f"--port={port}",
        f"--tick={layout.tick:g}",
        f"--state={layout.data / 'sandbox.json'}",
    )


def worker(layout: Layout, number: int = 1) -> Program:
    """A worker that takes turns, as the settings have every worker."""
    name = "worker" if number == 1 else f"worker-{number}"
    return layout.manage(name, "procrastinate", "worker")


def web(layout: Layout, listening: int) -> Program:
    """The web server, on a socket that is already listening.

    Sockets stay open without limit: the default closes each after a day with a
    code that the browser's side takes for final.
    """
    return layout.program(
        "web",
        "-m",
        "daphne",
        f"--fd={listening}",
        "--websocket_timeout=-1",
        "--no-server-name",
        "--verbosity=0",
        "zoea.asgi:application",
        sockets=(listening,),
    )
