"""export, and that what went out comes in the same."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from memory.context.documents import parse_request
from memory.models import Memory
from memory.transfer import in_out
from memory.transfer.formats import MessageReader
from tests.factories import make_call, make_memory, make_mysis

pytestmark = pytest.mark.django_db

SAME = (
    "role", "origin", "sender", "content", "reasoning", "signature", "tool_calls",
    "tool_call_id", "tool_name", "args", "is_error", "tick", "created_at",
)  # fmt: skip
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40
)


def export(mysis: Any, **options: Any) -> str:
    out = StringIO()
    call_command("export", str(mysis.pk), stdout=out, **options)
    return out.getvalue()


def history(mysis: Any) -> None:
    make_memory(mysis, content='go | "now": é 鉄\u2028', sender="operator:ann", tick=7)
    call = make_call("get_ship", '{"a": 1}')
    make_memory(mysis, role="assistant", content="", tool_calls=[call], reasoning="hm")
    make_memory(
        mysis,
        role="tool",
        tool_call_id="c",
        tool_name="get_ship",
        args={"a": 1},
        content="password: needed | twice",
        is_error=True,
    )
    make_memory(mysis, origin="nudge", content="Go on.", signature="seal")


def test_what_goes_out_comes_in_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_out, "CHUNK", 3)
    ada, bob = make_mysis(), make_mysis()
    history(ada)
    make_memory(bob, content="not Ada's")
    path = tmp_path / "ada.jsonl"
    export(ada, output=str(path))
    assert path.read_text() == export(ada)
    nova = make_mysis(name="Nova")
    call_command("import_history", str(path), mysis="Nova", stdout=StringIO())
    same, mine = (m.memories.order_by("pk").values(*SAME) for m in (nova, ada))
    assert list(same) == list(mine)
    # And one's own export brings nothing new to oneself.
    call_command("import_history", str(path), mysis=ada.name, stdout=StringIO())
    assert ada.memories.count() == 4


def test_as_a_chat_it_is_what_assemble_takes() -> None:
    ada = make_mysis()
    assert json.loads(export(ada, format="openai")) == {"messages": []}
    history(ada)
    document = json.loads(export(ada, format="openai"))
    assert [m["role"] for m in document["messages"]] == [
        "user", "assistant", "tool", "user",
    ]  # fmt: skip
    assert len(parse_request(document).messages) == 4


@given(TEXTS, TEXTS, st.sampled_from(["user", "assistant", "system"]))
def test_any_text_survives_the_way_out_and_in(
    content: str, reasoning: str, role: str
) -> None:
    origin = {"user": "human", "assistant": "agent", "system": "prompt"}[role]
    ada = make_mysis()
    row = make_memory(
        ada, role=role, origin=origin, content=content, reasoning=reasoning
    )
    row = Memory.objects.get(pk=row.pk)
    line = MessageReader().read_message(
        json.loads(next(in_out.write_pieces(ada.pk, "jsonl")))
    )
    for field in SAME:
        assert getattr(line, field) == getattr(row, field), field


def test_bad_input() -> None:
    with pytest.raises(CommandError) as error:
        call_command("export", "Nobody")
    assert error.value.returncode == 2
    ada = make_mysis()
    with pytest.raises(CommandError) as error:
        call_command("export", ada.name, output="/nowhere/at/all")
    assert error.value.returncode == 2
    assert "/nowhere/at/all" in str(error.value)
