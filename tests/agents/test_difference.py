"""GET /myses/{id}/context/diff: two strategies side by side."""

from __future__ import annotations

from typing import Any

import pytest

from agents.models import Mysis
from memory.context import registry
from tests.factories import make_memory, make_mysis
from tests.programs import Program

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Mysis:
    ada = make_mysis(name="Ada")
    for turn in range(15):
        make_memory(ada, content=f"order {turn}")
        call = {
            "id": "c",
            "type": "function",
            "function": {"name": "get_ship", "arguments": "{}"},
        }
        make_memory(ada, role="assistant", content="", tool_calls=[call])
        make_memory(
            ada,
            role="tool",
            tool_call_id="c",
            tool_name="get_ship",
            content=f"hull {turn} " * 300,
        )
    return ada


def diff(viewer_program: Program, **query: Any) -> Any:
    asked = "&".join(f"{key}={value}" for key, value in query.items())
    return viewer_program.get(f"/myses/Ada/context/diff?{asked}")


@pytest.mark.parametrize("strategy", registry.list_names())
def test_either_side_is_the_preview_of_its_strategy(
    viewer_program: Program, ada: Mysis, strategy: str
) -> None:
    answer = diff(viewer_program, a=strategy, b="window", budget=20_000)
    assert answer.status_code == 200
    found = answer.json()
    for side, name in (("a", strategy), ("b", "window")):
        query = f"strategy={name}&budget=20000"
        alone = viewer_program.get(f"/myses/Ada/context?{query}").json()
        sent = {
            pair[side]["position"]: pair[side]["message"]
            for pair in found["messages"]
            if pair[side] and pair[side]["message"]
        }
        assert [sent[place] for place in sorted(sent)] == alone["messages"]
        assert found[side]["hash"] == alone["hash"]
        ledger = [
            pair[side]["disposition"]
            for pair in found["messages"]
            if pair["id"] and pair[side]
        ]
        assert ledger == [line["disposition"] for line in alone["ledger"]]


def test_what_differs_is_told_message_by_message(
    viewer_program: Program, ada: Mysis
) -> None:
    found = diff(viewer_program, a="window", b="full").json()
    pairs = {pair["id"]: pair for pair in found["messages"] if pair["id"]}
    ids = list(ada.memories.order_by("pk").values_list("pk", flat=True))
    assert list(pairs) == ids
    first, last = pairs[ids[0]], pairs[ids[-1]]
    assert (first["same"], first["a"]["disposition"]) == (False, "out_of_window")
    assert first["a"]["handle"] == f"ctx://{ada.pk}/{ids[0]}"
    assert first["a"]["message"] is None
    assert first["b"]["message"]["content"] == "order 0"
    assert last["same"] is True
    assert found["differing"] == sum(not p["same"] for p in found["messages"])
    prompt = found["messages"][0]
    assert (prompt["id"], prompt["kind"], prompt["same"]) == (None, "prompt", True)
    twice = diff(viewer_program, a="window", b="window").json()
    assert twice["differing"] == 0


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"a": "window"}, "b"),
        ({"b": "window"}, "a"),
        ({"a": "magic", "b": "window"}, "magic"),
        ({"a": "window", "b": "window", "budget": "x"}, "budget"),
    ],
)
def test_bad_questions_are_422(
    viewer_program: Program, ada: Mysis, query: dict[str, str], says: str
) -> None:
    answer = diff(viewer_program, **query)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


def test_an_unknown_mysis_is_404(viewer_program: Program) -> None:
    assert diff(viewer_program, a="window", b="full").status_code == 404
