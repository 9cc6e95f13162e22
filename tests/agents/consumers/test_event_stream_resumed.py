"""Coming back to the socket while transactions commit in another order than their ids.

What each client saw must be, letter for letter, what the log holds in its order.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import Any

import psycopg
import pytest
from websockets.asyncio.client import connect

from agents import events
from agents.events import Item, Kind, get_connection_parameters
from agents.hub import passes_filter
from bench.processes import Server
from tests.factories import make_mysis
from tests.programs import Program
from zoea.auth import create_token

pytestmark = pytest.mark.django_db(transaction=True)
KINDS = [Kind.TOOL_CALLED, Kind.MEMORY_ADDED, Kind.TURN_STARTED]
LAST = Kind.ERROR


class Fleet:
    """Connections whose transactions are held open for a while, each its own while."""

    def __init__(self, myses: list[int], seed: int) -> None:
        self._myses = myses
        self._threads = [
            threading.Thread(target=self._write, args=(seed * 100 + n,))
            for n in range(6)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _write(self, seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311
        held = threading.Event()
        with psycopg.connect(**get_connection_parameters()) as database:
            for _ in range(25):
                for _ in range(dice.randint(1, 4)):
                    kind, mysis = dice.choice(KINDS), dice.choice([*self._myses, None])
                    line = [[str(kind)], [mysis], [json.dumps({"by": seed})]]
                    database.execute(events.APPEND, line)
                    held.wait(dice.choice([0, 0, 0.01, 0.08]))
                (database.rollback if dice.random() < 0.2 else database.commit)()


async def followed(server: Server, query: str, seed: int) -> list[dict[str, Any]]:
    """All that one client saw until the last event, over many connections."""
    dice = random.Random(seed)  # noqa: S311
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["kind"] != LAST:
        after = seen[-1]["id"] if seen else 0
        url = f"{server.socket}/ws/v1/events?after={after}&{query}"
        async with connect(url, max_queue=None) as client:
            for _ in range(dice.randint(1, 40)):
                seen.append(json.loads(await client.recv()))
                if seen[-1]["kind"] == LAST:
                    break
                if dice.random() < 0.1:
                    # It saw more than it could deal with, and goes back a little.
                    del seen[-dice.randint(1, 5) :]
                    break
    return seen


async def test_every_client_sees_the_log_in_its_order(server: Server) -> None:
    myses = [make_mysis(name=f"M{n}").pk for n in range(3)]
    token = create_token(name="program", role="viewer")[1]
    filters: list[tuple[int | None, frozenset[str]]] = [
        (None, frozenset()),
        (None, frozenset({str(KINDS[0]), str(LAST)})),
        (myses[0], frozenset()),
        (myses[1], frozenset({str(KINDS[1]), str(KINDS[2]), str(LAST)})),
    ]
    fleet = Fleet(myses, 1)
    fleet.start()
    clients = [
        asyncio.create_task(followed(server, f"token={token}&{asked(*one)}", 10 + n))
        for n, one in enumerate(filters * 2)
    ]
    await asyncio.to_thread(fleet.join)
    # One that passes each filter tells its client that this was all.
    for mysis in myses:
        events.append(LAST, mysis_id=mysis)
    async with asyncio.timeout(60):
        found = await asyncio.gather(*clients)
    log = events.read_after(0, limit=10_000)
    ids = [item["id"] for item in log]
    assert ids != sorted(ids), "no transaction committed late: this shows nothing"
    for seen, one in zip(found, filters * 2, strict=True):
        expected = [item for item in log if passes_filter(item, *one)]
        stop = next(n for n, item in enumerate(expected) if item["kind"] == LAST)
        assert seen == expected[: stop + 1], one


def asked(mysis: int | None, kinds: frozenset[str]) -> str:
    """Filters as parameters."""
    parts = [f"mysis={mysis}"] if mysis else []
    return "&".join([*parts, f"kind={','.join(sorted(kinds))}"])


def test_the_list_pages_through_the_same_items() -> None:
    ada = make_mysis(name="Ada")
    fleet = Fleet([ada.pk], 3)
    fleet.start()
    program = Program("viewer")
    seen: list[Item] = []
    while True:
        after = seen[-1]["id"] if seen else 0
        page = program.get(f"/events?limit=7&after={after}&mysis=Ada").json()
        seen += page["items"]
        if not page["items"]:
            fleet.join()
            if seen and seen[-1]["kind"] == LAST:
                break
            events.append(LAST, mysis_id=ada.pk)
    assert seen == events.read_after(0, mysis_id=ada.pk, limit=10_000)
