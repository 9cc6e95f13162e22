"""zoea_recall: a Mysis gets back its own messages and snapshots, and nobody else's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.db import run_in_db
from agents.models import Mysis
from agents.tools.chain import Toolbox, open_toolbox
from memory.gamestate.extract import read_result
from memory.handles import LARGEST_PART
from memory.snapshots import writes
from tests.agents.game.faulty import FaultyServer
from tests.factories import make_account, make_memory

SHIP = {"ship": {"hull": 85, "name": "Needle"}}


@pytest.fixture
async def box(faulty: FaultyServer, mysis: Mysis, other: Mysis) -> Toolbox:
    await run_in_db(_accounts, mysis, other)
    return await open_toolbox(mysis.pk)


def _accounts(mysis: Mysis, other: Mysis) -> None:
    for owner, name in ((mysis, "AdaPilot"), (other, "BobPilot")):
        owner.account = make_account(username=name, assigned_to=owner)
        owner.save()
    _capture("AdaPilot", "get_ship", SHIP)
    _capture("BobPilot", "get_cargo", {"cargo": ["gold of Bob"]})


def _capture(username: str, tool: str, content: Any, **args: Any) -> None:
    text = json.dumps(content)
    writes.capture_snapshot(
        username=username, tool=tool, args=args, text=text, result=read_result(text)
    )


async def _recall(box: Toolbox, handle: str, **more: Any) -> str:
    answer = await box.call("zoea_recall", json.dumps({"handle": handle, **more}))
    assert not answer.is_error, answer.text
    return answer.text


async def _refused(box: Toolbox, handle: str, **more: Any) -> str:
    answer = await box.call("zoea_recall", json.dumps({"handle": handle, **more}))
    assert answer.is_error
    return answer.text


async def test_a_short_text_comes_back_as_it_is(box: Toolbox, mysis: Mysis) -> None:
    row = await run_in_db(make_memory, mysis, content='{"a": 1}\n| 鉄 <b>')
    for owner in (mysis.pk, "Ada", "self"):
        assert await _recall(box, f"ctx://{owner}/{row.pk}") == '{"a": 1}\n| 鉄 <b>'


async def test_a_long_text_comes_in_parts_that_say_how_to_go_on(
    box: Toolbox, mysis: Mysis
) -> None:
    text = "".join(str(n % 10) for n in range(LARGEST_PART + 500))
    row = await run_in_db(make_memory, mysis, content=text)
    handle = f"ctx://{mysis.pk}/{row.pk}"
    first = await _recall(box, handle)
    total = len(text)
    note = f"\n[characters 0 to {LARGEST_PART} of {total}; go on with offset 20000]"
    assert first == text[:LARGEST_PART] + note
    rest = await _recall(box, handle, offset=LARGEST_PART)
    assert rest == text[LARGEST_PART:] + f"\n[characters 20000 to {total} of {total}]"
    piece = await _recall(box, handle, offset=7, limit=5)
    assert piece.startswith("78901\n[characters 7 to 12")


async def test_a_snapshot_comes_back_without_asking_the_game(
    box: Toolbox, faulty: FaultyServer
) -> None:
    assert json.loads(await _recall(box, "state://get_ship")) == SHIP
    assert faulty.calls == []


async def test_nothing_of_another_mysis_comes_back(
    box: Toolbox, mysis: Mysis, other: Mysis
) -> None:
    """I27: neither under its name, nor its number, nor one's own, nor as state."""
    theirs = await run_in_db(make_memory, other, content="the plan of Bob")
    for owner in (other.pk, "Bob", mysis.pk, "self", 999_999):
        said = await _refused(box, f"ctx://{owner}/{theirs.pk}")
        assert "plan" not in said
    assert "another Mysis" in await _refused(box, f"ctx://Bob/{theirs.pk}")
    said = await _refused(box, "state://get_cargo")
    assert "gold" not in said
    assert "get_ship" in said
    assert "Unknown argument" in await _refused(box, "state://get_cargo", mysis_id=2)


async def test_a_bad_handle_is_an_error_result(box: Toolbox) -> None:
    for arguments, says in (
        ({}, "'handle' is missing"),
        ({"handle": "12"}, "ctx://7/1234"),
        ({"handle": "ctx://self/999999999"}, "no message 999999999"),
        ({"handle": "state://"}, "state://get_ship"),
        ({"handle": "state://get_map"}, "No answer of get_map is kept"),
        ({"handle": "ctx://self/1", "offset": -1}, "'offset'"),
        ({"handle": "ctx://self/1", "limit": 0}, "'limit'"),
        ({"handle": "ctx://self/1", "limit": LARGEST_PART + 1}, "'limit'"),
    ):
        answer = await box.call("zoea_recall", json.dumps(arguments))
        assert answer.is_error
        assert says in answer.text


async def test_a_secret_does_not_slip_through_at_a_cut(
    box: Toolbox, mysis: Mysis
) -> None:
    """A11: cleaned as a whole, then parted."""
    word = "s3cret" * 5
    text = "x" * 50 + f" password: {word} " + "y" * 50
    row = await run_in_db(make_memory, mysis, content=text)
    handle = f"ctx://self/{row.pk}"
    parts = [await _recall(box, handle, offset=n, limit=10) for n in range(0, 140, 10)]
    assert "s3cret" not in "".join(part.partition("\n")[0] for part in parts)
