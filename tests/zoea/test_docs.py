"""The documents name what there is, and nothing that is not."""

from __future__ import annotations

import ast
import re
import socket
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from agents.events import Kind
from agents.mcp_server import TOOLS
from agents.tools.own_tools import FOR_MYSES
from memory.context import registry
from memory.context.tool_calls import GAME, GAME_HELP
from memory.context.types import DISPOSITIONS
from tests.zoea.documents import (
    ALL_TEXT,
    DOCUMENTS,
    README,
    ROOT,
    find_routes,
    read_document,
    read_prose,
    read_section,
    read_table,
)
from tests.zoea.refusals import (
    ERROR_EVENTS,
    REFUSALS,
    WRITTEN,
    collect_close_codes,
    collect_codes,
)
from zoea.api import api
from zoea.api.openapi import list_operations
from zoea.asgi import sockets
from zoea.auth import API_ROOT
from zoea.middleware import PROBES
from zoea.supervise.programs import Layout, web_program

OPERATIONS = read_document("docs/operations.md")
API = read_document("docs/api.md")
CONTEXT = read_document("docs/context.md")
SAMPLE = read_document(".env.example")
OURS = ("agents", "memory", "zoea")
# With tables of their own, or made by Django out of the models.
WHOLE = (f"{API_ROOT}/", "/admin/")

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ROUTE = re.compile(r"""\$Z(/[^\s"'?]+)""")
_SAMPLE_LINE = re.compile(r"^#?([A-Z][A-Z0-9_]+)=", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
_CONVERTER = re.compile(r"<\w+:")
_ANCHOR = re.compile(r"[^\w\- ]")


def variables_read(source: str) -> set[str]:
    """The names that a settings module asks of ``env``."""
    return {
        call.args[0].value
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "env"
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


VARIABLES = sorted(variables_read((ROOT / "zoea" / "settings.py").read_text()))
COMMANDS = sorted(name for name, app in get_commands().items() if app in OURS)


def map_rows() -> list[str]:
    """The second column of README's map."""
    section = README.read_text().split("## I want to change")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    return [row[2] for row in rows[2:]]


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_is_in_the_sample_and_in_the_documents(name: str):
    assert name in _SAMPLE_LINE.findall(SAMPLE)
    assert f"`{name}`" in OPERATIONS


def test_the_sample_names_no_variable_that_nobody_reads():
    names = set(_SAMPLE_LINE.findall(SAMPLE))
    # Those of OpenTelemetry its SDK reads by itself.
    assert {name for name in names if not name.startswith("OTEL_")} <= set(VARIABLES)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_documents(name: str):
    assert re.search(rf"manage\.py {name}\b", ALL_TEXT)


def test_the_documents_name_no_command_target_or_variable_that_is_not_there():
    targets = set(_TARGET.findall(read_document("Makefile")))
    assert set(re.findall(r"`make ([a-z-]+)", ALL_TEXT)) <= targets
    asked = set(re.findall(r"manage\.py ([a-z_]+)", ALL_TEXT))
    assert asked <= set(get_commands())
    assert set(re.findall(r"^export ([A-Z]\w+)=", ALL_TEXT, re.MULTILINE)) <= {
        *VARIABLES,
        # Of the examples of REST themselves.
        *("Z", "H"),
    }


@pytest.mark.parametrize("name", _TARGET.findall(read_document("Makefile")))
def test_a_target_of_make_is_in_the_documents(name: str):
    assert re.search(rf"make {name}\b", ALL_TEXT)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_a_strategy_is_in_the_documents(name: str):
    section = read_section("docs/context.md", "## Strategies")
    assert f"`{name}`" in section
    for option in fields(registry.find_strategy(name).params):
        assert f"`{option.name}`" in section, option.name


@pytest.mark.parametrize("name", [*FOR_MYSES, GAME, GAME_HELP])
def test_a_tool_of_a_mysis_is_in_the_documents(name: str):
    assert re.search(rf"`{name}\b", CONTEXT)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_for_programs_is_in_the_documents(name: str):
    assert f"`{name}`" in read_section("docs/api.md", "## MCP")


def test_the_documents_name_every_route_and_no_other():
    routes = {
        (method.upper(), path.removeprefix(API_ROOT))
        for path, method, _ in list_operations(api.get_openapi_schema())
    }
    assert find_routes(read_section("docs/api.md", "## Every route")) == routes


def test_the_documents_name_every_address_and_no_other():
    named = {
        address
        for row in read_table("docs/architecture.md", "## Addresses")
        for cell in row
        for address in _QUOTED.findall(cell)
        if address.startswith("/")
    }
    assert named == set(list_addresses(get_resolver())) | {
        *(*PROBES, f"/{settings.STATIC_URL.strip('/')}/", "/mcp"),
        *(f"/{route.pattern}" for route in sockets.routes if str(route.pattern)),
    }


def list_addresses(resolver: URLResolver, before: str = "/") -> Iterator[str]:
    """Every address below; what the admin and REST make of theirs is one."""
    for entry in resolver.url_patterns:
        address = before + _CONVERTER.sub("<", str(entry.pattern))
        if isinstance(entry, URLPattern) or address in WHOLE:
            yield address
        else:
            yield from list_addresses(entry, address)


def test_the_documents_name_every_code_of_a_refusal_and_no_other():
    rows = read_table("docs/api.md", "## Errors")
    named = {name for row in rows for name in _QUOTED.findall(row[0])}
    assert named == collect_codes(REFUSALS) | WRITTEN


def test_the_documents_name_every_code_of_an_error_event_and_no_other():
    rows = read_table("docs/api.md", "## The event socket")
    named = {
        name
        for row in rows
        for name in _QUOTED.findall(row[0])
        if not row[0].isdecimal()
    }
    assert named == collect_codes(ERROR_EVENTS)


def test_the_documents_name_every_close_code_and_no_other():
    rows = read_table("docs/api.md", "## The event socket")
    named = {int(row[0]) for row in rows if row[0].isdecimal()}
    assert named == collect_close_codes()


@pytest.mark.parametrize("name", DISPOSITIONS)
def test_a_disposition_is_in_the_documents(name: str):
    assert f"`{name}`" in CONTEXT


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_of_event_is_in_the_documents(kind: Kind):
    assert f"`{kind}`" in API


@pytest.mark.parametrize("row", map_rows())
def test_every_path_of_the_map_is_there(row: str):
    paths = [name for name in _QUOTED.findall(row) if "/" in name]
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {_ANCHOR.sub("", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_linked_file_is_there(path: Path):
    for target in _LINK.findall(path.read_text()):
        if not target.startswith(("http://", "https://", "#")):
            name, _, anchor = target.partition("#")
            linked = path.parent / name
            assert linked.is_file(), target
            assert not anchor or anchor in anchors(linked), target


@cache
def list_functions(path: Path) -> set[str]:
    """The names of the functions of a module."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text()).body
    return {one.name for one in body if isinstance(one, functions)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_source_file_that_is_named_is_there(path: Path):
    roots = tuple(
        f"{root}/" for root in (*OURS, "bench", "sandbox", "templates", "tests")
    )
    for name in _QUOTED.findall(read_prose(path)):
        if name.startswith(roots):
            named, _, test = name.partition("::")
            assert (ROOT / named.split("<")[0]).exists(), name
            assert not test or test in list_functions(ROOT / named), name


@pytest.mark.parametrize("route", sorted(set(_ROUTE.findall(API))))
def test_every_route_of_the_examples_is_there(route: str):
    assert resolve(API_ROOT + route).route


def seed_rows() -> list[list[str]]:
    """The rows of the table of the seeds: seed, line, where, test."""
    text = read_document("docs/seeds.md")
    lines = [line for line in text.splitlines() if re.match(r"\| \d{3} \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", seed_rows(), ids=lambda row: f"{row[0]} {row[1]}")
def test_every_test_that_holds_a_seed_is_there(row: list[str]):
    _, line, where, named = row
    assert line
    assert where
    if named.startswith("measured: "):
        assert (ROOT / named.removeprefix("measured: ")).is_file()
    elif named == "-":
        assert re.search(r"\b(different|missed): \w", where), "name a test, or why not"
    else:
        path, _, name = named.strip("`").partition("::")
        assert name in list_functions(ROOT / path)


def read_issues(part: str) -> list[list[str]]:
    """The rows of one part of the known issues: the issue, and what of it."""
    text = read_document("docs/known-issues.md")
    lines = text.split(f"\n## {part}\n")[1].split("\n## ")[0].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_known_issues_say_what_to_do_and_what_is_done():
    still, done = read_issues("Open"), read_issues("Done")
    assert still
    assert done
    for row in (*still, *done):
        issue, what = row
        assert issue.endswith(".")
        assert what.endswith(".")
    assert len({row[0] for row in (*still, *done)}) == len(still) + len(done)


def test_every_seed_has_its_rows_and_no_line_stands_twice():
    rows = seed_rows()
    assert {row[0] for row in rows} == {f"00{number}" for number in range(5)}
    assert len({(row[0], row[1]) for row in rows}) == len(rows)
    # A table that names no tests would pass the test above.
    assert sum("::" in row[3] for row in rows) > len(rows) // 2


def test_one_more_web_process_is_started_as_up_starts_its_own():
    layout = Layout(ROOT, ROOT, tick=10, game_url="")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = web_program(layout, listening).argv
    (found,) = re.findall(r"python -m daphne ((?:[^`]|\\\n)+?)\n```", OPERATIONS)
    words = found.replace("\\\n", " ").split()
    options = [word for word in ours[3:] if not word.startswith("--fd=")]
    assert options == words[-len(options) :]
