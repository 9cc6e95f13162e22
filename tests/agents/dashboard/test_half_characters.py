"""Half a surrogate pair from a model or the game: every page and socket shows the rest."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import events
from agents.actions.base import describe_memory
from agents.consumers.dashboard import make_page
from agents.dashboard.live.changes import Dirty
from agents.events import START, Kind
from memory.models import GameSnapshot
from memory.redaction import hide_secrets
from tests.factories import make_memory, make_mysis, make_turn

HALF = r"sol\ud800arian"
WHOLE = "sol\ufffdarian"
ARGUMENTS = f'{{"a": "{HALF}", "{HALF}": ["\\udc00x"]}}'
RESULT = f'{{"name": "{HALF}", "{HALF}": {{"{HALF}": "\\ud83d"}}}}'


@pytest.fixture
def said(transactional_db: Any) -> SimpleNamespace:
    """A Mysis that made calls and got results with such texts, as they are stored."""
    ada = make_mysis(name="Ada", state="running")
    turn = make_turn(ada)
    calls: list[dict[str, Any]] = [
        {"id": f"c{n}", "type": "function", "function": {"name": n, "arguments": a}}
        for n, a in (("mine", ARGUMENTS), ("spacemolt", ARGUMENTS), ("odd", "[" + HALF))
    ]
    asked = make_memory(
        ada, turn_id=turn.pk, role="assistant", content="", tool_calls=calls
    )
    rows = [asked]
    for call, content in zip(calls, (RESULT, "gold", f'["{HALF}"]'), strict=True):
        values = {"tool_call_id": call["id"], "tool_name": call["function"]["name"]}
        rows.append(
            make_memory(ada, turn_id=turn.pk, role="tool", content=content, **values)
        )
    events.append_all([describe_memory(row) for row in rows])
    events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data={"arguments": ARGUMENTS})
    system = {"system_id": HALF, "name": HALF, "position": {"x": 1, "y": 2}}
    GameSnapshot.objects.create(
        username="Ada",
        tool_name="get_map",
        args_key="",
        captured_at=timezone.now(),
        content=json.dumps({"systems": [system]}).replace("\\\\", "\\"),
    )
    return SimpleNamespace(ada=ada, turn=turn, rows=rows)


def test_pages_are_drawn(said: SimpleNamespace, admin: Client):
    pages = ["", "feed/", "events/", "events/?kind=memory.added", "map/", "compare/"]
    pages += [f"turns/{said.turn.pk}/", "search/?q=gold", "search/?q=mine", "digest/"]
    mysis = ["", "context/", "context/?view=raw", "turns/", "messages/", "command/"]
    mysis += [
        f"messages/{row.pk}/{part}" for row in said.rows for part in ("", "inspect/")
    ]
    for page in [*pages, *(f"myses/Ada/{part}" for part in mysis)]:
        assert admin.get(f"/{page}").status_code == 200, page
    for page in ("events/", "map/", "myses/Ada/", f"turns/{said.turn.pk}/"):
        assert WHOLE in admin.get(f"/{page}").content.decode(), page


def test_sockets_draw_them(said: SimpleNamespace):
    first = said.rows[0].pk
    queries = {
        "page=fleet": "",
        "page=map": "",
        "page=events&after=0": WHOLE,
        f"page=mysis&mysis={said.ada.pk}&after={first - 1}": WHOLE,
        f"page=turn&turn={said.turn.pk}&after={first - 1}": WHOLE,
        f"page=context&mysis={said.ada.pk}&event=0": "",
        "page=yield": "",
        "page=lanes": "",
        "page=health": "",
    }
    for query, shown in queries.items():
        page = make_page(query.encode())
        assert page is not None, query
        drawn = [*page.draw_all(START), *page.draw_changes(Dirty(everything=True))]
        assert shown in "".join(drawn).encode().decode(), query


@pytest.mark.parametrize("first", ["ä", "a"])
def test_masked_json_can_be_stored_and_sent(first: str):
    text = f'{{"{HALF}": "{first}{HALF}", "password": "hunter2"}}'
    masked = hide_secrets(text)
    assert "hunter2" not in masked
    assert masked.encode().decode() == masked
    assert json.loads(masked).keys() == json.loads(text).keys()
