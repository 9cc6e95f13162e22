"""The default prompt, its placeholders, and the nudges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.llm.prompts import DEFAULT_PROMPT, choose_nudge, render_prompt
from memory.context.types import FILLER_TEXT, NUDGE_TEXT, is_nudge


def render(text: str, **values: str | None) -> str:
    given_values = {"name": "Ada", "account": None, "broadcast": None, **values}
    return render_prompt(text, **given_values)  # type: ignore[arg-type]


def test_placeholders_are_filled_in() -> None:
    text = "{{ name }}/{{name}}/{{  account }}/{{ broadcast }}"
    said = render(text, account="VoidWanderer", broadcast="Dock now.")
    assert said == "Ada/Ada/VoidWanderer/Dock now."


def test_what_is_not_there_is_said() -> None:
    assert render("{{ account }}, {{ broadcast }}") == "none yet, none"


def test_unknown_placeholders_stay() -> None:
    assert render("{{ password }} {{ }} {name} {{ name") == (
        "{{ password }} {{ }} {name} {{ name"
    )


def test_what_is_filled_in_is_not_read_again() -> None:
    assert render("{{ broadcast }}", broadcast="{{ name }}") == "{{ name }}"
    assert render(r"{{ broadcast }}", broadcast=r"\1 \g<0>") == r"\1 \g<0>"


@given(st.text(max_size=200))
def test_any_text_without_placeholders_stays(text: str) -> None:
    if "{{" not in text:
        assert render(text) == text


def test_the_default_prompt_names_everything() -> None:
    """W13, P6, P9: when and how to search, and the log that outlasts all."""
    said = render(DEFAULT_PROMPT, account="VoidWanderer", broadcast="Dock now.")
    assert "{{" not in said
    for wanted in (
        "Ada",
        "VoidWanderer",
        "Dock now.",
        "## Memory",
        "## Context & Memory Management",
        "captain's log",
        "zoea_search_messages",
        "zoea_search_reasoning",
    ):
        assert wanted in said
    memory, context = said.index("## Memory"), said.index("## Context & Memory")
    assert "captain's log" in said[memory:context]
    assert "zoea_search_messages" in said[context:]
    for wanted in ("zoea_recall", "ctx://", "state://get_map"):
        assert wanted in said[context:]


def test_nudges_become_more_urgent_and_remind_of_the_search() -> None:
    """W13, P7, P9."""
    levels = [choose_nudge(level) for level in (1, 2, 3)]
    assert len(set(levels)) == 3
    assert levels[0].startswith(NUDGE_TEXT)
    assert "URGENT" in levels[2]
    for text in levels:
        assert "CRITICAL REMINDERS:" in text
        assert (
            "- If you need past data, use zoea_search_messages or zoea_search_reasoning"
        ) in text


def test_levels_outside_are_the_nearest() -> None:
    assert choose_nudge(0) == choose_nudge(1) == choose_nudge(-5)
    assert choose_nudge(4) == choose_nudge(3)


def test_what_the_program_says_is_nobodys_order() -> None:
    assert all(is_nudge(choose_nudge(level)) for level in (1, 2, 3))
    assert is_nudge(NUDGE_TEXT)
    assert is_nudge(FILLER_TEXT)
    assert not is_nudge("Go and mine.")
