"""Queries that nobody would write: an answer or a clear 422, never a failure."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from memory.models.vectors import replace_signs
from tests.factories import make_memory, make_mysis
from tests.programs import Program

pytestmark = pytest.mark.django_db

DOORS = ("/search/messages", "/search/reasoning", "/search/broadcasts", "/search/notes")
PAGES = (
    "/search/",
    "/search/?where=events",
    "/search/?where=broadcasts",
    "/palette/",
    "/admin/memory/memory/",
    "/admin/memory/memory/search/",
)
SIGNS = ["-", '"', "'", "(", ")", "!", "&", "|", "<->", ":*", "\\", "%", "_", "\x00"]
PIECES = st.sampled_from(
    [*SIGNS, " ", " or ", "iron", "ö", "🚀", "x-y", "http://a/b?c"]
)
QUERIES = st.one_of(
    st.lists(PIECES, min_size=1, max_size=40).map("".join),
    st.tuples(PIECES, PIECES, st.integers(1, 999), PIECES).map(
        lambda parts: ((parts[0] + parts[1]) * parts[2])[:990] + parts[3]
    ),
)


@pytest.mark.parametrize("sign", ["-", '"', "'", "- ", '-"'])
def test_signs_alone_are_no_query(viewer_program: Program, sign: str) -> None:
    for door in DOORS:
        query = urlencode({"q": (sign * 999)[:999]})
        answer = viewer_program.get(f"{door}?{query}")
        assert answer.status_code == 422, door
        assert answer.json()["detail"].startswith("q: ")


@pytest.mark.parametrize("sign", ["🚀", "(", "&|!", "-(", "\\"])
def test_other_signs_find_nothing(viewer_program: Program, sign: str) -> None:
    make_memory(make_mysis(name="Ada"), content="Iron 🚀 (ore) & more.")
    for door in DOORS:
        answer = viewer_program.get(f"{door}?{urlencode({'q': (sign * 999)[:999]})}")
        assert answer.status_code == 200, door
        assert answer.json()["items"] == [], door


def test_signs_alone_are_found_letter_for_letter(viewer_program: Program) -> None:
    make_memory(make_mysis(name="Ada"), content="-" * 50)
    found = viewer_program.get(f"/search/messages?mode=exact&q={'-' * 40}")
    assert len(found.json()["items"]) == 1


@pytest.mark.parametrize("stem", ["true", "false"])
def test_not_not_is_as_if_nothing_were_said(viewer_program: Program, stem: str) -> None:
    ada = make_mysis(name="Ada")
    make_memory(ada, content="Iron ore.")
    make_memory(ada, content="Gold ore.")

    def find(query: str) -> list[str]:
        asked = urlencode({"q": query, "stem": stem})
        answer = viewer_program.get(f"/search/messages?{asked}")
        return [item["content"] for item in answer.json()["items"]]

    for count in (2, 8, 9, 10, 500, 501):
        expected = ["Gold ore."] if count % 2 else ["Iron ore."]
        for sign in ("-", "- ", "-("):
            assert find(f"ore {sign * count if count < 300 else '-' * count}iron") == (
                expected
            )


@given(QUERIES)
def test_only_many_nots_in_a_row_are_changed(query: str) -> None:
    if query.count("-") < 9:
        assert "-" * 9 not in replace_signs(query)
        assert replace_signs(query).count("-") == query.count("-")


@pytest.fixture
def doors(viewer_program: Program) -> Callable[[str, str], None]:
    """Asks every door; fails where one fails."""
    make_memory(make_mysis(name="Ada"), content="Iron -- ore 'x' \"y\".")
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))

    def ask(query: str, mode: str) -> None:
        for door in DOORS:
            asked = urlencode({"q": query, "mode": mode})
            assert viewer_program.get(f"{door}?{asked}").status_code in (200, 422)
        for page in PAGES:
            sign = "&" if "?" in page else "?"
            found = browser.get(f"{page}{sign}{urlencode({'q': query, 'mode': mode})}")
            assert found.status_code in (200, 302, 404, 422), page

    return ask


@given(QUERIES, st.sampled_from(["fts", "exact"]))
def test_no_query_makes_a_door_fail(
    doors: Callable[[str, str], None], query: str, mode: str
) -> None:
    doors(query, mode)


@pytest.mark.parametrize("query", ["-" * 999, "- " * 100 + "iron", "a -" * 300])
def test_nor_do_these(doors: Callable[[str, str], None], query: str) -> None:
    doors(query, "fts")
