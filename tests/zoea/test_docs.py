"""The documents name what there is, and nothing that is not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import resolve

from agents.events import Kind
from memory.context import registry
from memory.context.types import DISPOSITIONS
from zoea.auth import API_ROOT

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = (README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
ALL_TEXT = "\n".join(path.read_text() for path in DOCUMENTS)
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
API = (ROOT / "docs" / "api.md").read_text()
SAMPLE = (ROOT / ".env.example").read_text()
OURS = ("agents", "memory", "zoea")

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ROUTE = re.compile(r"""\$Z(/[^\s"'?]+)""")
_SAMPLE_LINE = re.compile(r"^#?([A-Z][A-Z0-9_]+)=", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")


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


def test_variables_are_found_in_the_settings():
    assert variables_read('a = env.str("A", env.int("B"))\nenv.read_env(path)') == {
        "A",
        "B",
    }
    assert {"DATABASE_URL", "ZOEA_DATA"} <= set(VARIABLES)


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


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_a_strategy_is_in_the_documents(name: str):
    assert f"`{name}`" in ALL_TEXT


@pytest.mark.parametrize("name", DISPOSITIONS)
def test_a_disposition_is_in_the_documents(name: str):
    assert f"`{name}`" in (ROOT / "docs" / "context.md").read_text()


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_of_event_is_in_the_documents(kind: Kind):
    assert f"`{kind}`" in API


@pytest.mark.parametrize("row", map_rows())
def test_every_path_of_the_map_is_there(row: str):
    paths = [name for name in _QUOTED.findall(row) if "/" in name]
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_linked_file_is_there(path: Path):
    for target in _LINK.findall(path.read_text()):
        if not target.startswith(("http://", "https://", "#")):
            assert (path.parent / target.split("#")[0]).is_file(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_source_file_that_is_named_is_there(path: Path):
    for name in _QUOTED.findall(path.read_text()):
        if name.startswith(tuple(f"{app}/" for app in (*OURS, "templates", "tests"))):
            assert (ROOT / re.split("<|::", name)[0]).exists(), name


@pytest.mark.parametrize("route", sorted(set(_ROUTE.findall(API))))
def test_every_route_of_the_examples_is_there(route: str):
    assert resolve(API_ROOT + route).route


def seed_rows() -> list[list[str]]:
    """The rows of the table of the seeds: seed, line, where, test."""
    text = (ROOT / "docs" / "seeds.md").read_text()
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
        source = ast.parse((ROOT / path).read_text())
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {one.name for one in source.body if isinstance(one, functions)}


def read_issues(part: str) -> list[list[str]]:
    """The rows of one part of the known issues: the issue, and what of it."""
    text = (ROOT / "docs" / "known-issues.md").read_text()
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
