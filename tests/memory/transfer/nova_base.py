"""A synthetic database of the original program."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

SCHEMA = """
CREATE TABLE myses (id TEXT PRIMARY KEY, name TEXT NOT NULL, provider TEXT NOT NULL,
  model TEXT NOT NULL, temperature REAL, state TEXT NOT NULL DEFAULT 'idle',
  created_at DATETIME NOT NULL);
CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id TEXT NOT NULL,
  role TEXT NOT NULL, source TEXT NOT NULL, sender_id TEXT, content TEXT NOT NULL,
  reasoning TEXT, created_at DATETIME NOT NULL);
CREATE TABLE accounts (username TEXT PRIMARY KEY, password TEXT NOT NULL,
  assigned_to TEXT);
CREATE TABLE game_state_snapshots (id INTEGER PRIMARY KEY AUTOINCREMENT,
  username TEXT NOT NULL, tool_name TEXT NOT NULL, content TEXT NOT NULL,
  game_tick INTEGER, captured_at DATETIME NOT NULL);
"""
STATES = (
    (
        "AdaPilot",
        "get_ship",
        '{"ship": {"fuel": 1}}',
        7,
        "2026-02-05 01:00:00 +0000 UTC",
    ),
    (
        "AdaPilot",
        "get_ship",
        '{"ship": {"fuel": 2}, "session_id": 4711471147114711}',
        9,
        "2026-02-05 01:00:09 +0000 UTC",
    ),
    ("Other", "get_status", "plain", None, "2026-02-05 01:00:00 +0000 UTC"),
    ("Other", "get_cargo", "no time", 3, "yesterday"),
)
PASSWORD = "hunter2"

Row = Sequence[str | None]


def make_base(path: Path, histories: dict[str, Iterable[Row]]) -> Path:
    """A database with these Myses; rows are (role, source, content[, reasoning])."""
    base = sqlite3.connect(path)
    base.executescript(SCHEMA)
    base.execute("INSERT INTO accounts VALUES ('AdaPilot', ?, 'm0')", [PASSWORD])
    base.execute("INSERT INTO accounts VALUES ('Other', 'swordfish', NULL)")
    base.executemany(
        "INSERT INTO game_state_snapshots (username, tool_name, content, game_tick, "
        "captured_at) VALUES (?, ?, ?, ?, ?)",
        STATES,
    )
    for number, (name, rows) in enumerate(histories.items()):
        key = f"m{number}"
        made = f"2026-02-05 00:00:0{number}.5 +0000 UTC"
        base.execute(
            "INSERT INTO myses VALUES (?, ?, 'zen', 'nano', 0.7, 'idle', ?)",
            [key, name, made],
        )
        for second, (role, source, content, *more) in enumerate(rows):
            base.execute(
                "INSERT INTO memories (mysis_id, role, source, sender_id, content, "
                "reasoning, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    key,
                    role,
                    source,
                    "m0" if source == "broadcast" else None,
                    content,
                    more[0] if more else None,
                    f"2026-02-05 01:{second // 60:02}:{second % 60:02}.123456789 "
                    "+0000 UTC",
                ],
            )
    base.commit()
    base.close()
    return path
