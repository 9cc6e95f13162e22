"""How long a program waits for a Mysis's summary, over a real connection."""

from __future__ import annotations

import http.client
import json
import statistics
from datetime import timedelta
from time import perf_counter

from bench.payloads import TOOLS, Answers
from tests.server import Server

REPEATS = 150
SEED = 7

Times = dict[str, float]


def prepare() -> None:
    """A Mysis with an account, fresh snapshots and a summary."""
    from django.utils import timezone

    from agents.models import Account, Mysis
    from memory.models import GameSnapshot, HistorySummary

    account = Account.objects.create(username="Measured")
    mysis = Mysis.objects.create(name="Measured", account=account)
    answers = Answers(SEED)
    now = timezone.now()
    for number, tool in enumerate(TOOLS):
        if not tool.startswith("get_"):
            continue
        text = answers.of(tool, 100 + number)
        GameSnapshot.objects.create(
            username="Measured",
            tool_name=tool,
            content=text,
            merged="",
            game_tick=100 + number,
            captured_at=now - timedelta(seconds=number),
        )
    HistorySummary.objects.create(
        mysis=mysis,
        first_id=1,
        through_id=900,
        generation=1,
        text="Ada mined iron. " * 60,
        history_hash="",
    )


def summaries(server: Server, token: str) -> dict[str, Times]:
    """The whole answer, the one that is known already, and a route that does nothing."""
    web = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    bearer = {"Authorization": f"Bearer {token}"}
    path = "/api/v1/myses/Measured/summary"
    _, etag = ask(web, path, bearer)
    known = bearer | {"If-None-Match": etag}
    found: dict[str, list[float]] = {"whole": [], "known": [], "nothing": []}
    for _ in range(REPEATS):
        for name, place, headers, status in (
            ("whole", path, bearer, 200),
            ("known", path, known, 304),
            ("nothing", "/healthz", {}, 200),
        ):
            begun = perf_counter()
            got, etag = ask(web, place, headers)
            found[name].append((perf_counter() - begun) * 1000)
            if got == 200 and name == "known":
                # The clock went on by a tick, and the state block with it.
                found[name].pop()
                known = bearer | {"If-None-Match": etag}
            elif got != status:
                raise RuntimeError(f"{place} answered {got}.")
    web.close()
    return {name: told(sorted(times)) for name, times in found.items()}


def ask(
    web: http.client.HTTPConnection, path: str, headers: dict[str, str]
) -> tuple[int, str]:
    """One request; the status and the ETag."""
    web.request("GET", path, headers=headers)
    answer = web.getresponse()
    body = answer.read()
    assert answer.status == 304 or json.loads(body)
    return answer.status, answer.headers.get("ETag", "")


def told(times: list[float]) -> Times:
    """Median and p95 in milliseconds."""
    return {"median": statistics.median(times), "p95": times[int(len(times) * 0.95)]}
