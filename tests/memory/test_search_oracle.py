"""Search against a plain Python oracle (I31, A8), and the shell's search."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.search import search_messages
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db

# Signs that a database could take for wildcards, quotes or operators.
LETTERS = st.text(alphabet="aAäß%_\\'\"*.|:&!() \n鉄", min_size=1, max_size=4)
TEXTS = st.text(alphabet="aAäß%_\\'\"*.|:&!() \n鉄", max_size=12)
WORDS = st.sampled_from(["iron", "Iron", "sol", "SOL", "ore", "belt", "42"])
SPEECH = st.lists(WORDS, max_size=5)
SIGNS = st.sampled_from([" ", ", ", "/", "\n", ": ", "|", "<b>"])


def found(**wanted: Any) -> list[int]:
    return [hit.memory_id for hit in search_messages(**wanted)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(TEXTS, TEXTS), max_size=6), LETTERS, st.integers(1, 4),
    st.booleans(),
)  # fmt: skip
def test_exact_search_is_what_python_finds(
    said: list[tuple[str, str]], query: str, limit: int, reasoning: bool
) -> None:
    ada, bob = make_mysis(), make_mysis()
    rows = []
    for content, thought in said:
        rows.append(make_memory(ada, content=content, reasoning=thought))
        make_memory(bob, content=content, reasoning=thought)
    expected = [
        row.pk
        for row in reversed(rows)
        if query in (row.reasoning if reasoning else row.content)
    ][:limit]
    assert (
        found(
            query=query,
            mysis_id=ada.pk,
            mode="exact",
            limit=limit,
            reasoning=reasoning,
        )
        == expected
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(SPEECH, SIGNS), max_size=6),
    st.lists(WORDS, min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_word_search_is_what_python_finds(
    said: list[tuple[list[str], str]], query: list[str], limit: int
) -> None:
    ada, bob = make_mysis(), make_mysis()
    rows = []
    for words, sign in said:
        text = sign.join(words)
        rows.append((make_memory(ada, content=text).pk, words))
        make_memory(bob, content=text)
    wanted = {word.casefold() for word in query}
    expected = [
        pk
        for pk, words in reversed(rows)
        if wanted <= {word.casefold() for word in words}
    ][:limit]
    assert found(query=" ".join(query), mysis_id=ada.pk, limit=limit) == expected


def shell(*words: str, **options: Any) -> str:
    out = StringIO()
    call_command("search", *words, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


def test_the_shell_prints_the_newest_matches_oldest_first() -> None:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    rows = [make_memory(ada, content=f"iron {n}", reasoning="why") for n in range(4)]
    make_memory(bob, content="iron of Bob")
    lines = shell("Ada", "iron", limit=2).splitlines()
    assert [line.split()[0] for line in lines] == [str(row.pk) for row in rows[2:]]
    assert lines[-1].endswith("iron 3")
    listed = json.loads(shell(str(ada.pk), "iron", json=True))
    assert [hit["memory_id"] for hit in listed] == [row.pk for row in rows]
    assert set(listed[0]) == {
        "memory_id", "mysis", "role", "origin", "content", "reasoning", "snippet",
        "timestamp",
    }  # fmt: skip
    assert shell("Ada", "Iron", exact=True) == ""
    assert json.loads(shell("Ada", "gold", json=True)) == []
    assert len(shell("Ada", "why", where="reasoning").splitlines()) == 4


def test_what_agents_wrote_cannot_steer_the_terminal() -> None:
    ada = make_mysis(name="Ada")
    make_memory(ada, content="iron \x1b[2J <b>&amp;</b>\r\n[red]bold\u2028x\x9b31m")
    said = shell("Ada", "iron").rstrip("\n")
    assert said.isprintable()
    assert "<b>&amp;</b>" in said
    assert "[red]bold" in said


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("Nobody", "iron"), {}),
        (("Ada", "  "), {}),
        (("Ada", "\x00"), {}),
    ],
)
def test_bad_input_is_status_2(words: tuple[str, ...], options: dict[str, Any]) -> None:
    make_mysis(name="Ada")
    with pytest.raises(CommandError) as error:
        shell(*words, **options)
    assert error.value.returncode == 2
