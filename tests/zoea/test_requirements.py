"""What runs needs nothing that only a development environment has."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.licences import ROOT, find_packages

OURS = ("zoea", "agents", "memory", "sandbox")
FILES = [
    ROOT / "manage.py",
    *(path for one in OURS for path in (ROOT / one).rglob("*.py")),
]


def list_imported(path: Path) -> Iterator[str]:
    """The packages that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_what_is_imported_comes_with_requirements_txt() -> None:
    imported = {name for path in FILES for name in list_imported(path)}
    wanted = imported - sys.stdlib_module_names - {*OURS, "manage"}
    assert {"django", "psycopg", "mcp"} <= wanted
    known, installed = find_packages().keys(), metadata.packages_distributions()
    assert {
        name
        for name in wanted
        if not known & {canonicalize_name(each) for each in installed.get(name, ())}
    } == set()
