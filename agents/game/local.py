"""The game that ``manage.py up`` plays on this machine, as other processes find it.

It imports no part of Django: the settings are made of it.
"""

from __future__ import annotations

import json
from http.client import HTTPException
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import psutil

# Seconds that a game may take to say what it speaks.
PATIENCE = 2.0
# The file in the data folder that tells its game from those of other folders.
GAME_ID = "game.id"
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "zoea", "version": "1"},
    },
}
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


def read_running_game(data: Path) -> tuple[str, float | None]:
    """The game that `up` plays on a data folder, and its seconds a tick; "" for none."""
    try:
        found = json.loads((data / "up.lock").read_text())
        # What a killed run wrote stays.
        runs = psutil.pid_exists(found["pid"])
        return (str(found["game"]), float(found["tick"])) if runs else ("", None)
    except (OSError, ValueError, KeyError, TypeError):
        return "", None


def read_game_id(data: Path) -> str:
    """What `up` calls the local game of a data folder; "" where it never ran one."""
    try:
        return (data / GAME_ID).read_text().strip()
    except OSError:
        return ""


def speaks_mcp(url: str) -> bool:
    """Whether what listens there answers as a game does."""
    asked = Request(url, json.dumps(_HELLO).encode(), _HEADERS)  # noqa: S310 (of the settings)
    try:
        # By no proxy: it is on this machine.
        with build_opener(ProxyHandler({})).open(asked, timeout=PATIENCE) as answer:
            return b'"protocolVersion"' in answer.read(10_000)
    except (OSError, ValueError, HTTPException):
        return False
