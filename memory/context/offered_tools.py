"""Which tools a call offers and in how many words: the options `tools` and `allow`.

`full` sends every schema as it is, `compact` the same schemas in fewer words, and
`on_demand` one line a tool in the system message, with `game` to call any of them and
`game_help` for schemas. Nothing here changes what a tool takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from memory.context.text import clean_text
from memory.context.tool_calls import GAME, GAME_HELP, is_own_tool
from memory.context.types import Described, OfferedTools
from memory.game_calls import ACTION, find_command, is_group, list_actions

MOST_NAMES = 20
LONGEST_LINE = 90
_LONGEST_HEAD = 65

GAME_TOOL: Described = {
    "name": GAME,
    "description": "Call a tool of the game from the list in the system message.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "minLength": 1,
                "description": "The name of the tool",
            },
            "arguments": {
                "type": "object",
                "additionalProperties": True,
                "description": "What it takes, by name",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
}
GAME_HELP_TOOL: Described = {
    "name": GAME_HELP,
    "description": "Get the full schemas of tools of the game.",
    "parameters": {
        "type": "object",
        "properties": {
            "names": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": MOST_NAMES,
                "description": f"At most {MOST_NAMES} names of tools",
            }
        },
        "required": ["names"],
        "additionalProperties": False,
    },
}


def offer_tools(
    known: Sequence[Described], mode: str, allow: Sequence[str] | None
) -> OfferedTools:
    """Offer these tools under a policy's options; `allow` concerns the game's only."""
    patterns = None if allow is None else tuple(allow)
    allowed, unfit = allow_tools(known, patterns), find_unfit(known, patterns)
    if mode == "full":
        sent = allowed
    elif mode == "compact":
        sent = [compact_tool(tool) for tool in allowed]
    else:
        # Whose list has tools of these names as well may not have them twice.
        left = [tool for tool in allowed if tool["name"] not in (GAME, GAME_HELP)]
        own = [compact_tool(tool) for tool in left if is_own_tool(tool["name"])]
        others = [tool for tool in left if not is_own_tool(tool["name"])]
        sent = [*own, GAME_TOOL, GAME_HELP_TOOL] if others else own
        lines = "\n".join(map(write_catalogue_line, others))
        return OfferedTools(mode, patterns, tuple(known), tuple(sent), lines, unfit)
    return OfferedTools(mode, patterns, tuple(known), tuple(sent), unfit=unfit)


def describe_tool(tool: Mapping[str, Any]) -> Described:
    """What a model is told of a tool, of all that is known of it."""
    return {key: tool[key] for key in ("name", "description", "parameters")}


def pick_tool_options(options: Mapping[str, object]) -> dict[str, object]:
    """Those options that say which tools there are; another strategy keeps them."""
    return {name: options[name] for name in ("tools", "allow") if name in options}


def allow_tools(
    known: Iterable[Described], allow: Iterable[str] | None
) -> list[Described]:
    """Those that are allowed, each as far as it is."""
    left = (narrow_tool(tool, allow) for tool in known)
    return [tool for tool in left if tool is not None]


def narrow_tool(tool: Described, allow: Iterable[str] | None) -> Described | None:
    """A tool as far as it is allowed, None where nothing of it is.

    One that holds several commands and is not allowed by its own name has the actions
    left whose commands are.
    """
    name = tool["name"]
    if is_own_tool(name) or is_allowed(name, allow):
        return tool
    parameters = tool["parameters"]
    listed = list_actions(parameters) if is_group(name) else ()
    kept = [one for one in listed if is_allowed(find_command(name, one), allow)]
    if not kept:
        return None
    properties = parameters["properties"]
    left = {**properties, ACTION: {**properties[ACTION], "enum": kept}}
    return {**tool, "parameters": {**parameters, "properties": left}}


def find_unfit(
    known: Sequence[Described], patterns: Sequence[str] | None
) -> tuple[str, ...]:
    """The patterns that fit no tool and no command; none where no game's are known."""
    if not patterns or all(is_own_tool(tool["name"]) for tool in known):
        return ()
    names = {tool["name"] for tool in known}
    for tool in known:
        if is_group(name := tool["name"]):
            actions = list_actions(tool["parameters"])
            names |= {find_command(name, action) for action in actions}
    return tuple(
        each
        for each in dict.fromkeys(patterns)
        if not any(fnmatchcase(name, each) for name in names)
    )


def allows_call(name: str, command: str, allow: Iterable[str] | None) -> bool:
    """Whether a call of a tool is allowed, by its name or by that of its command."""
    return is_allowed(name, allow) or (is_group(name) and is_allowed(command, allow))


def is_allowed(name: str, allow: Iterable[str] | None) -> bool:
    """Whether a name is in the list or fits one of its patterns; None allows all."""
    return allow is None or any(fnmatchcase(name, pattern) for pattern in allow)


# --- `on_demand`: one line a tool


def write_catalogue_line(tool: Described) -> str:
    """`name(required, [optional]): what it does`, at most 90 characters."""
    properties = _list_properties(tool["parameters"])
    required = _list_required(tool["parameters"])
    names = [name for name in properties if name in required]
    names += [name for name in required if name not in properties]
    names += [f"[{name}]" for name in properties if name not in required]
    head = _join_line(_write_signature(tool["name"], names, len(required)))
    about = find_first_sentence(tool["description"]).rstrip(".")
    line = _join_line(f"{head}: {about}" if about else head)
    if len(line) <= LONGEST_LINE:
        return line
    # Not in mid-word, and rather without words than with a part of one.
    end = line.rfind(" ", 0, LONGEST_LINE)
    return f"{line[:end]}…" if end > len(head) + 1 else head[:LONGEST_LINE]


def _list_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters that a schema tells of; a game's server may write anything there."""
    given = schema.get("properties")
    return given if isinstance(given, Mapping) else {}


def _list_required(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("required")
    listed = given if isinstance(given, list) else []
    return list(dict.fromkeys(name for name in listed if isinstance(name, str)))


def _join_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _write_signature(name: str, parameters: Sequence[str], required: int) -> str:
    """`name(...)`; optional parameters are left out where no room for words is left."""
    for shown in range(len(parameters), -1, -1):
        more = ["…"] if shown < len(parameters) else []
        head = f"{name}({', '.join([*parameters[:shown], *more])})"
        if len(head) <= (_LONGEST_HEAD if shown > required else LONGEST_LINE):
            break
    return head


# --- `compact`: the same schemas in fewer words

# Keywords that say something to people only. `default` does where it is null.
_NOTES = frozenset(
    {"title", "$schema", "$comment", "example", "examples", "deprecated"}
    | {"readOnly", "writeOnly", "markdownDescription", "externalDocs"}
)
_SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_SCHEMAS = frozenset(
    {"items", "prefixItems", "additionalItems", "contains", "additionalProperties"}
    | {"propertyNames", "unevaluatedProperties", "unevaluatedItems"}
    | {"anyOf", "oneOf", "allOf", "not", "if", "then", "else"}
)
# What the type of a parameter says, and whether it is required.
_TYPE_WORDS = frozenset(
    [
        "string",
        "text",
        "number",
        "integer",
        "int",
        "float",
        "decimal",
        "numeric",
        "whole",
        "boolean",
        "bool",
        "true",
        "false",
        "array",
        "list",
        "object",
        "json",
        "null",
        "optional",
        "required",
    ]
)
_FILLERS = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "to",
        "for",
        "or",
        "is",
        "be",
        "this",
        "that",
        "value",
        "values",
        "parameter",
        "argument",
        "field",
    ]
)
_MARKER = re.compile(r"(?:optional|required)\s*(?:[.:;,]|[-\N{EN DASH}]\s)\s*", re.I)
_ASIDE = re.compile(r"\s*[(\[]([A-Za-z ,/]+)[)\]]")
_WORD = re.compile(r"[a-z0-9]+")
_PARAGRAPH = re.compile(r"\n\s*(?:\n|[-*\N{BULLET}]\s)")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_ABBREVIATIONS = frozenset(
    ("e.g.", "i.e.", "etc.", "vs.", "approx.", "max.", "min.", "no.", "incl.", "cf.")
)


def compact_tool(tool: Described) -> Described:
    """The tool in fewer words; a compact one comes out as it is.

    The schema accepts what it accepted: only descriptions and notes become shorter.
    """
    return {
        "name": tool["name"],
        "description": find_first_sentence(tool["description"]),
        "parameters": _compact_schema(tool["parameters"]),
    }


def find_first_sentence(text: str) -> str:
    """The first sentence of a text, in one line."""
    line = " ".join(_PARAGRAPH.split(text.strip(), maxsplit=1)[0].split())
    for found in _SENTENCE_END.finditer(line):
        sentence = line[: found.end()]
        word = sentence.rsplit(" ", 1)[-1].lstrip("([\"'").lower()
        if word not in _ABBREVIATIONS:
            return sentence
    return line


def _compact_schema(schema: Any, name: str = "") -> Any:
    """A schema without notes; `name` is that of the parameter which it is of."""
    if isinstance(schema, list):
        return [_compact_schema(each, name) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NOTES or (key == "default" and value is None):
            continue
        if key == "description":
            value = _shorten_description(value, name, schema)
            if not value:
                continue
        elif key in _SCHEMAS_BY_NAME and isinstance(value, dict):
            value = {each: _compact_schema(one, each) for each, one in value.items()}
        elif key in _SCHEMAS:
            value = _compact_schema(value)
        elif key == "required" and value == []:
            continue
        found[key] = value
    return found


def _shorten_description(text: Any, name: str, schema: Described) -> str:
    """What a description says beside name and type; empty where that is nothing."""
    if not isinstance(text, str):
        return ""
    before = None
    while before != text:
        before = text
        text = _ASIDE.sub(_drop_type_words, _MARKER.sub("", text.strip(), count=1))
        text = find_first_sentence(text)
    values = schema.get("enum")
    listed = " ".join(map(str, values)) if isinstance(values, list) else ""
    known = _find_words(f"{name} {listed}") | _TYPE_WORDS | _FILLERS
    return text if _find_words(text) - known or not text.isascii() else ""


def _drop_type_words(aside: re.Match[str]) -> str:
    return aside[0] if _find_words(aside[1]) - _TYPE_WORDS else ""


def _find_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower().replace("'s ", " ")))
