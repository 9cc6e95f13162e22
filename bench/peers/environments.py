"""The libraries that Zoea stands beside, and the Python environment of each.

None of them is a requirement of Zoea: each is installed, in the versions named here, into
a folder of its own below ``.venv/peers`` (or below ``ZOEA_PEERS``) when it is first
measured.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.processes import ROOT

FOLDER = "ZOEA_PEERS"
#: Written when everything is installed: what was.
MARK = "requirements.txt"
INSTALL_SECONDS = 1_800
SQLALCHEMY = "sqlalchemy[asyncio]==2.1.9"
ASYNCPG = "asyncpg==0.32.0"
PSYCOPG = "psycopg[binary]==3.3.9"
LANGCHAIN_CORE = "langchain-core==1.7.2"

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "langgraph": (
        "langgraph==1.2.22",
        "langgraph-checkpoint-postgres==3.2.0",
        LANGCHAIN_CORE,
        PSYCOPG,
    ),
    "openai": ("openai-agents[sqlalchemy]==0.24.0", SQLALCHEMY, ASYNCPG),
    "adk": ("google-adk==2.13.0", SQLALCHEMY, ASYNCPG),
    "agno": ("agno==3.1.10", SQLALCHEMY, PSYCOPG),
    "langchain": ("langchain-postgres==0.0.19", LANGCHAIN_CORE, PSYCOPG),
}


class EnvironmentFailed(Exception):
    """An environment that cannot be made; one line with the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A row of the tables.

    ``program`` is its module in this package and ``options`` what that is started with;
    ``environment`` is a key of `REQUIREMENTS`, empty for Zoea's own. ``context`` says
    how its context is read and ``search`` how messages are searched, empty for not at
    all.
    """

    name: str
    title: str
    program: str
    context: str
    options: tuple[str, ...] = ()
    environment: str = ""
    search: str = ""


PLAIN = "psycopg"
NEWEST = "`SELECT` of the newest 50"
NEXT, FOUND = "`assemble_next`", "`search_messages`"
PEERS = (
    Peer(PLAIN, "raw psycopg", "plain", NEWEST, search="`ILIKE`"),
    Peer(
        "psycopg-search",
        "raw psycopg, with a GIN index",
        "plain",
        NEWEST,
        ("search",),
        search="`tsvector`, GIN",
    ),
    Peer("zoea", "Zoea, `window`", "zoea", NEXT, ("window",), search=FOUND),
    Peer("zoea-tiered", "Zoea, `tiered`", "zoea", NEXT, ("tiered",), search=FOUND),
    Peer(
        "langgraph",
        "LangGraph PostgresSaver",
        "langgraph",
        "`get_state`: all",
        environment="langgraph",
    ),
    Peer(
        "langgraph-delta",
        "LangGraph, `DeltaChannel` (beta)",
        "langgraph",
        "`get_state`: all",
        ("delta",),
        "langgraph",
    ),
    Peer(
        "openai",
        "OpenAI Agents SDK SQLAlchemySession",
        "openai_agents",
        "`get_items(limit=50)`",
        environment="openai",
    ),
    Peer(
        "adk",
        "Google ADK DatabaseSessionService",
        "adk",
        "`get_session`, `num_recent_events=50`",
        environment="adk",
    ),
    Peer(
        "agno",
        "agno PostgresDb",
        "agno",
        "`get_session(runs_limit=25)`",
        environment="agno",
    ),
    Peer(
        "langchain",
        "LangChain PostgresChatMessageHistory",
        "langchain",
        "`get_messages`: all",
        environment="langchain",
    ),
)


def find_python(peer: Peer) -> Path:
    """The Python of a peer's environment, which is made where it is missing.

    Raises EnvironmentFailed.
    """
    if not peer.environment:
        return Path(sys.executable)
    given = os.environ.get(FOLDER, "")
    folder = Path(given or ROOT / ".venv" / "peers").resolve() / peer.environment
    python = folder / "bin" / "python"
    wanted = "".join(f"{each}\n" for each in REQUIREMENTS[peer.environment])
    mark = folder / MARK
    # Who names a folder may have filled it with other versions: they are reported.
    ready = bool(given) or (mark.exists() and mark.read_text() == wanted)
    if not (ready and python.exists()):
        make_environment(peer.environment, folder)
        mark.write_text(wanted)
    return python


def make_environment(name: str, folder: Path) -> None:
    """Make an environment anew and install what belongs into it."""
    shutil.rmtree(folder, ignore_errors=True)
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    try:
        _run_step(name, [sys.executable, "-m", "venv", str(folder)])
        _run_step(name, [str(folder / "bin" / "python"), *pip, *REQUIREMENTS[name]])
    except EnvironmentFailed:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run_step(name: str, words: list[str]) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failure(name, str(error)) from error
    if done.returncode:
        raise _failure(name, done.stderr or done.stdout)


def _failure(name: str, said: str) -> EnvironmentFailed:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    reason = reasons[-1].removeprefix("ERROR: ") if reasons else "no reason given"
    return EnvironmentFailed(
        f"The environment of {name} cannot be made ({reason.rstrip('.')}): check the "
        f"network, or name a folder with one in {FOLDER}."
    )
