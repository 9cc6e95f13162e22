"""Google ADK's DatabaseSessionService, on asyncpg.

It stores one event a call and has no bulk write: histories are filled through the row
class that ``append_event`` uses itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from datetime import timedelta
from itertools import islice
from typing import Any

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.schemas.v1 import StorageEvent
from google.genai import types
from sqlalchemy.ext.asyncio import AsyncSession

from bench.peers.workload import NEWEST, Store, Turn, main

APP, USER = "bench", "bench"
TURNS_AT_ONCE = 1_000
#: A history begins so long ago, and its events follow each other by this time.
AGE, STEP = timedelta(days=2).total_seconds(), 0.001


class Adk(Store):
    """A session of one user."""

    packages = ("google-adk", "sqlalchemy", "asyncpg")

    def __init__(self, url: str) -> None:
        # One loop for all calls: an engine's connections belong to theirs.
        self.loop = asyncio.new_event_loop()
        self.service = DatabaseSessionService(
            url.replace("postgresql:", "postgresql+asyncpg:")
        )
        self.session: Any = None

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        self.loop.run_until_complete(self._fill(conversation, turns))

    async def _fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        session = await self.service.create_session(
            app_name=APP, user_id=USER, session_id=conversation
        )
        moment = time.time() - AGE
        source = iter(turns)
        while some := list(islice(source, TURNS_AT_ONCE)):
            async with AsyncSession(self.service.db_engine) as rows:
                for event in (event for turn in some for event in _events(turn)):
                    moment += STEP
                    event.timestamp = moment
                    rows.add(StorageEvent.from_event(session, event))
                await rows.commit()

    def open(self, conversation: str) -> None:
        self.session = self.loop.run_until_complete(self._read(conversation))

    def append(self, turn: Turn) -> None:
        self.loop.run_until_complete(self._append(turn))

    async def _append(self, turn: Turn) -> None:
        for event in _events(turn):
            await self.service.append_event(self.session, event)

    def fetch(self) -> int:
        self.session = self.loop.run_until_complete(self._read(self.session.id))
        return len(self.session.events)

    async def _read(self, conversation: str) -> Any:
        return await self.service.get_session(
            app_name=APP,
            user_id=USER,
            session_id=conversation,
            config=GetSessionConfig(num_recent_events=NEWEST),
        )

    def close(self) -> None:
        self.loop.run_until_complete(self.service.close())
        self.loop.close()


def _events(turn: Turn) -> list[Event]:
    arguments, result = json.loads(turn.arguments), {"result": turn.result}
    call = types.FunctionCall(id=turn.call_id, name=turn.tool, args=arguments)
    answer = types.FunctionResponse(id=turn.call_id, name=turn.tool, response=result)
    return [
        Event(
            author="agent",
            invocation_id=turn.call_id,
            content=types.Content(role=role, parts=[part]),
        )
        for role, part in (
            ("model", types.Part(function_call=call)),
            ("user", types.Part(function_response=answer)),
        )
    ]


if __name__ == "__main__":
    main(Adk)
