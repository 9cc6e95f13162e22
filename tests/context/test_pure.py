"""The core stands alone: the standard library only, and little of that."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import memory.context

ROOT = Path(memory.context.__file__).parent
BLOCKED = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"django", "channels", "ninja", "psycopg", "mcp"}:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Wall())
from memory.context.assemble import assemble
from memory.context.documents import parse_request, build_result_document
from memory.context import registry
for name in registry.list_names():
    document = {"messages": [{"role": "user", "content": "go"}], "strategy": name}
    status = build_result_document(assemble(parse_request(document)))["status"]
    assert status == ("reduced" if name == "coalesced" else "unchanged"), name
heavy = {"asyncio", "sqlite3", "http.client", "unittest", "decimal"} & set(sys.modules)
outside = {
    name.split(".")[0] for name in sys.modules
} - set(sys.stdlib_module_names) - {"memory", "__main__", "__mp_main__", "sitecustomize"}
print(sorted(heavy), sorted(n for n in outside if not n.startswith("_")))
"""


def test_it_runs_without_django_and_loads_little() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT.parents[1])!r})\n{BLOCKED}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("[]")


def test_it_has_no_clock_no_chance_and_no_files() -> None:
    banned = {"time", "datetime", "random", "secrets", "os", "io", "pathlib", "uuid"}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not banned & {alias.name for alias in node.names}, path
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.module not in banned, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"open", "print", "input"}, path
