"""agno's PostgresDb: a session and its runs, one run a turn.

It stores one run a call and has no bulk write, so histories are filled run by run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from agno.db.base import SessionType
from agno.db.postgres import PostgresDb
from agno.models.message import Message
from agno.run.agent import RunOutput
from agno.run.base import RunStatus
from agno.session.agent import AgentSession

from bench.peers.workload import (
    MESSAGES_A_TURN,
    NEWEST,
    Store,
    Turn,
    chat_messages,
    main,
)

AGENT = "bench"


class Agno(Store):
    packages = ("agno", "sqlalchemy", "psycopg")

    def __init__(self, url: str) -> None:
        self.db = PostgresDb(db_url=url.replace("postgresql:", "postgresql+psycopg:"))
        self.conversation = ""
        self.session: Any = None

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        session = AgentSession(
            session_id=conversation, agent_id=AGENT, created_at=int(time.time())
        )
        self.db.upsert_session(session)
        for place, turn in enumerate(turns):
            run = _run(conversation, turn)
            self.db.upsert_run(run, session_id=conversation, run_index=place)

    def open(self, conversation: str) -> None:
        self.conversation = conversation

    def append(self, turn: Turn) -> None:
        # As its runtime saves a finished run: the run, then the session.
        run = _run(self.conversation, turn)
        self.session.upsert_run(run)
        self.db.upsert_run(run, session_id=self.conversation)
        self.db.upsert_session(self.session)

    def fetch(self) -> int:
        self.session = self.db.get_session(
            self.conversation, SessionType.AGENT, runs_limit=NEWEST // MESSAGES_A_TURN
        )
        return len(self.session.get_messages(limit=NEWEST))

    def close(self) -> None:
        self.db.close()


def _run(conversation: str, turn: Turn) -> RunOutput:
    return RunOutput(
        run_id=f"{conversation}-{turn.call_id}",
        agent_id=AGENT,
        session_id=conversation,
        messages=[Message(**message) for message in chat_messages(turn)],
        status=RunStatus.completed,
    )


if __name__ == "__main__":
    main(Agno)
