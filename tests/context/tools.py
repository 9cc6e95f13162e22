"""The tools of the local game, as a Mysis is offered them beside ours."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sandbox.game.table import list_tools

OWN: dict[str, Any] = {
    "name": "zoea_recall",
    "description": "Get back in full what is shown shortened. It costs no turn.",
    "parameters": {
        "type": "object",
        "properties": {"handle": {"type": "string", "description": "ctx://1/2"}},
        "required": ["handle"],
    },
}


def list_described(era: str = "C") -> list[dict[str, Any]]:
    """Each with its schema, but without the session id that is filled in."""
    found = []
    for tool in list_tools(era).values():
        schema = tool.schema()
        schema["properties"].pop("session_id", None)
        names = [name for name in schema.get("required", []) if name != "session_id"]
        described = {"name": tool.name, "description": tool.description}
        found.append({**described, "parameters": {**schema, "required": names}})
    return [*found, OWN]


_texts = st.sampled_from(
    [
        "The item's ID (string, optional).",
        "Optional. How many. At most 10.",
        "e.g. ore_iron. Others too",
        "First line\n\nSecond paragraph.",
        "Quantity (integer)",
        "採掘する。もう一度",
        "",
        "One. (Two) three!",
        "required: the name",
        "a\nb. c",
    ]
) | st.text(max_size=40)
_names = st.sampled_from(
    ["item_id", "quantity", "title", "description", "default", "examples", "required"]
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda properties, some, open_: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in some],
            "additionalProperties": open_,
        },
        st.dictionaries(_names, inner, max_size=4),
        st.sets(_names),
        st.booleans(),
    )


_values = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "boolean", "number"])},
        optional={
            "description": _texts,
            "title": st.just("Title"),
            "default": st.sampled_from([None, 1, "x"]),
            "examples": st.just([1]),
            "enum": st.sampled_from([["a", "b"], [1, 2]]),
        },
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
        _objects(inner),
    ),
    max_leaves=5,
)
schemas = _objects(_values)
described = st.builds(
    lambda name, about, schema: {
        "name": name,
        "description": about,
        "parameters": schema,
    },
    st.from_regex(r"[a-z_]{1,64}", fullmatch=True),
    _texts,
    schemas,
)
instances = st.dictionaries(
    _names,
    st.recursive(
        st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "x"]),
        lambda one: (
            st.lists(one, max_size=2) | st.dictionaries(_names, one, max_size=2)
        ),
        max_leaves=4,
    ),
    max_size=4,
)
