"""What a search brings is cleaned as what a recall brings (A11)."""

from __future__ import annotations

import json

import pytest

from agents.tools import own_tool_answers
from agents.tools.own_tool_answers import Scope
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("mode", ["fts", "exact"])
def test_hits_hold_no_password(mode: str) -> None:
    """Also where a row was stored before its tool was known to be secret."""
    ada = make_mysis(name="Ada")
    text = json.dumps({"password": "correct-horse-1", "ship": "iron"})
    make_memory(ada, role="tool", content=text, reasoning=text)
    reach = Scope("mysis:Ada", ada.pk)
    asked = {"query": "iron", "mode": mode}
    for search in (
        own_tool_answers.answer_search_messages,
        own_tool_answers.answer_search_reasoning,
    ):
        answer = search(asked, reach)
        assert answer.value["count"] == 1
        assert "correct-horse-1" not in json.dumps(answer.value)
        assert "correct-horse-1" not in "".join(answer.blocks)
        assert "iron" in json.dumps(answer.value)
