"""What is kept of a long result, by a turn and by hand, and what is read from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from agents import manual_command
from agents.dashboard.map import read_systems
from agents.models import Mysis
from agents.tools.chain import open_toolbox
from agents.tools.request import LONGEST_RESULT, Outcome, cut_result
from memory.models import GameSnapshot
from tests.agents.game.faulty import FaultyServer, result
from tests.agents.game.test_answer_bounds import MAP, TOO_MANY, blocks
from tests.factories import make_memory, make_mysis

NOTE = " characters omitted and not kept: the result had "
LISTS = f"[{'[], ' * TOO_MANY * 4}[]]"


@pytest.mark.parametrize("sign", ["x", "ä", "鉱", "👩‍🚀", "\\u0041"])
def test_what_is_cut_is_told(sign: str):
    text = sign * (LONGEST_RESULT + 1)
    kept, note = cut_result(text).split("\n[... ")
    assert len(kept) % len(sign) == 0
    assert kept == text[: len(kept)]
    assert LONGEST_RESULT - 64 < len(kept.encode()) <= LONGEST_RESULT
    omitted, _, rest = note.partition(NOTE)
    assert int(omitted.replace(",", "")) == len(text) - len(kept)
    assert rest.startswith(f"{len(text.encode()):,} bytes.")


def test_a_result_that_fits_stays():
    text = "ä" * (LONGEST_RESULT // 2)
    assert cut_result(text) == text


@pytest.mark.django_db
def test_a_command_by_hand_keeps_as_much():
    row = make_memory(make_mysis(), role="tool", pending=True)
    manual_command._end(row.pk, Outcome(("x" * 2 * LONGEST_RESULT,)))
    row.refresh_from_db()
    assert NOTE in row.content
    assert len(row.content) < LONGEST_RESULT + 200


async def test_a_map_is_read_whole_and_kept_in_part(faulty: FaultyServer, mysis: Mysis):
    takes = {"username": {"type": "string"}, "empire": {"type": "string"}}
    schema = {"type": "object", "properties": takes}
    names = ("register", "get_map")
    faulty.tools = [{"name": name, "inputSchema": schema} for name in names]
    registered = json.dumps({"password": "a" * 64, "session_id": "5" * 32})
    faulty.plan.extend([result(registered), result(MAP)])
    box = await open_toolbox(mysis.pk)
    told = await box.call("register", '{"username": "Ada Nova", "empire": "solarian"}')
    assert not told.is_error, told.text
    kept: list[str] = []

    def keep(outcome: Outcome) -> list[Any]:
        kept.append(outcome.kept_text)
        return []

    told = await box.call("get_map", "{}", keep=keep)
    assert not told.is_error
    snapshot = await sync_to_async(GameSnapshot.objects.get)(tool_name="get_map")
    assert len(read_systems(snapshot.content)) == 800
    assert NOTE in kept[0]
    assert len(kept[0].encode()) < LONGEST_RESULT + 200


@pytest.mark.parametrize(
    "texts",
    [[LISTS], [LISTS[:100_000]] * 9, ["x" * 100_000] * 9],
    ids=["one", "many", "texts"],
)
async def test_a_long_result_that_is_not_parsed_is_cut_at_once(
    faulty: FaultyServer, mysis: Mysis, texts: list[str]
):
    faulty.plan.append(blocks(*({"type": "text", "text": text} for text in texts)))
    box = await open_toolbox(mysis.pk)
    told = await box.call("get_status", "")
    assert not told.is_error
    assert len(told.blocks) == 1
    assert NOTE in told.text
    assert len(told.text) < LONGEST_RESULT + 200


async def test_more_than_is_taken_is_an_error_that_is_not_asked_for_again(
    faulty: FaultyServer, mysis: Mysis
):
    faulty.plan.append(blocks(*[{"type": "text", "text": ""}] * TOO_MANY))
    box = await open_toolbox(mysis.pk)
    told = await box.call("get_status", "")
    assert told.text.startswith("Error: answer_too_long: The game server sent")
    assert len(faulty.calls) == 1
    faulty.plan.append(blocks(structuredContent={"a": [[]] * TOO_MANY}))
    assert "outcome_unknown" in (await box.call("mine", "")).text
