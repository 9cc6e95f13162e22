"""Search against a plain Python oracle (I31, A8), and the shell's search."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from agents.models import Broadcast
from memory.models import Memory
from memory.search import query as search_query
from memory.search.results import search_messages
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db

# Signs that a database could take for wildcards, quotes or operators.
LETTERS = st.text(alphabet="aAäß%_\\'\"*.|:&!() \n鉄", min_size=1, max_size=4)
TEXTS = st.text(alphabet="aAäß%_\\'\"*.|:&!() \n鉄", max_size=12)
WORDS = st.sampled_from(["iron", "Iron", "sol", "SOL", "ore", "belt", "42"])
ENGLISH = st.sampled_from(
    ["mine", "mines", "mining", "mined", "hope", "hoping", "berry", "berries", "lying",
     "lie", "possible", "possibility", "ship", "ships", "the", "skies", "sky"]
)  # fmt: skip
MATCHES = "SELECT to_tsvector('english', %s) @@ websearch_to_tsquery('english', %s)"
SPEECH = st.lists(WORDS, max_size=5)
SIGNS = st.sampled_from([" ", ", ", "/", "\n", ": ", "|", "<b>"])


def found(**wanted: Any) -> list[int]:
    return [hit.memory_id for hit in search_messages(**wanted)]


@given(
    st.lists(st.tuples(TEXTS, TEXTS), max_size=6), LETTERS, st.integers(1, 4),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_exact_search_is_what_python_finds(
    said: list[tuple[str, str]],
    query: str,
    limit: int,
    reasoning: bool,
    ignore_case: bool,
) -> None:
    def same(text: str) -> str:
        return text.lower() if ignore_case else text

    ada, bob = make_mysis(), make_mysis()
    rows = []
    for content, thought in said:
        rows.append(make_memory(ada, content=content, reasoning=thought))
        make_memory(bob, content=content, reasoning=thought)
    expected = [
        row.pk
        for row in reversed(rows)
        if same(query) in same(row.reasoning if reasoning else row.content)
    ][:limit]
    assert (
        found(
            query=query,
            mysis_id=ada.pk,
            mode="exact",
            limit=limit,
            reasoning=reasoning,
            ignore_case=ignore_case,
        )
        == expected
    )


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


@given(
    st.lists(st.lists(WORDS, max_size=4), max_size=10),
    st.lists(WORDS, min_size=1, max_size=2),
    st.integers(1, 4),
    st.booleans(),
    st.data(),
)
def test_paging_and_broadcasts_are_what_python_finds(
    said: list[list[str]],
    query: list[str],
    limit: int,
    fleet: bool,
    data: st.DataObject,
) -> None:
    """Page by page by ``before``, in one Mysis and in the fleet (W11: once)."""
    Memory.objects.all().delete()
    ada, bob = make_mysis(), make_mysis()
    rows: list[tuple[int, list[str]]] = []
    for words in said:
        text = " ".join(words)
        if data.draw(st.booleans(), label="broadcast"):
            sent = Broadcast.objects.create(text=text, sender="x")
            order = data.draw(st.permutations([ada, bob]), label="order")
            first, second = (
                make_memory(each, origin="broadcast", broadcast=sent, content=text)
                for each in order
            )
            mine = first if order[0] == ada or fleet else second
            rows.append((mine.pk, words))
        else:
            rows.append((make_memory(ada, content=text).pk, words))
    wanted = {word.casefold() for word in query}
    expected = [pk for pk, words in rows if wanted <= {w.casefold() for w in words}]
    mysis = None if fleet else ada.pk
    seen: list[int] = []
    before = None
    while page := found(
        query=" ".join(query), mysis_id=mysis, limit=limit, before=before
    ):
        seen += page
        before = page[-1]
    assert seen == expected[::-1]


@given(
    st.lists(st.lists(ENGLISH, max_size=4), max_size=8),
    st.lists(ENGLISH, min_size=1, max_size=2),
    st.booleans(),
)
def test_stems_are_what_postgresql_says_of_each_text(
    said: list[list[str]], query: list[str], excluded: bool
) -> None:
    """The words that are looked up are never fewer than those that match."""
    ada, bob = make_mysis(), make_mysis()
    asked = " ".join(query) + (" -ship" if excluded else "")
    expected = []
    for words in said:
        text = " ".join(words)
        make_memory(bob, content=text)
        row = make_memory(ada, content=text)
        with connection.cursor() as cursor:
            cursor.execute(MATCHES, [text, asked])
            if cursor.fetchone() == (True,):
                expected.append(row.pk)
    assert found(query=asked, mysis_id=ada.pk, stem=True) == expected[::-1]


def test_a_stem_finds_the_other_forms_and_marks_them() -> None:
    ada = make_mysis()
    make_memory(ada, content="We were mining iron.")
    (hit,) = search_messages(query="mines", mysis_id=ada.pk, stem=True)
    assert "<mark>mining</mark>" in hit.snippet
    assert search_messages(query="mines", mysis_id=ada.pk) == []
    assert search_messages(query="the", mysis_id=ada.pk, stem=True) == []


@pytest.mark.parametrize("common", [True, False])
def test_a_word_is_found_however_common_the_planner_takes_it_for(
    common: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk that ends too early hands over to the index."""
    monkeypatch.setattr(search_query, "LONGEST_WALK", 10**9 if common else 1)
    monkeypatch.setattr(search_query, "MARGIN", 0)
    ada = make_mysis()
    old = [make_memory(ada, content="iron").pk for _ in range(3)]
    for _ in range(120):
        make_memory(ada, content="copper")
    assert found(query="iron", mysis_id=ada.pk) == old[::-1]
    assert found(query="iron", mysis_id=ada.pk, mode="exact") == old[::-1]


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
        "timestamp", "taken_back",
    }  # fmt: skip
    assert shell("Ada", "Iron", exact=True) == ""
    assert len(shell("Ada", "Iron", exact=True, ignore_case=True).splitlines()) == 4
    assert len(shell("Ada", "irons", stem=True).splitlines()) == 4
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
