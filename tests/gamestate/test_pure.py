"""The rules stand alone: no framework, no clock of their own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import memory.gamestate

FOLDER = Path(memory.gamestate.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))


def test_they_import_where_nothing_but_the_standard_library_is():
    modules = [
        ".".join(("memory.gamestate", *path.relative_to(FOLDER).with_suffix("").parts))
        for path in FILES
        if path.name != "__init__.py"
    ]
    code = f"import {', '.join(modules)}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True, text=True, check=True, cwd=FOLDER.parent.parent,
    )  # fmt: skip
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "memory" in loaded
    assert loaded <= sys.stdlib_module_names | {"memory", "__main__"}


def test_nothing_asks_the_time():
    asked = {"now", "today", "utcnow", "time", "monotonic"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in asked, f"{path.name}:{node.lineno}"
