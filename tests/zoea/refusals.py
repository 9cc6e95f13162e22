"""The codes that the program refuses with, found by reading its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType

from agents.models import ErrorCode
from tests.zoea.documents import ROOT
from zoea import idempotency, mcp
from zoea.api import gate

# What is given a code, and at which place where it does not stand by name.
REFUSALS: Mapping[str, int | None] = {"Problem": 1, "ActionError": None}
ERROR_EVENTS: Mapping[str, int | None] = dict.fromkeys(
    ("append_error", "describe_error", "Ending")
)
# The values of codes that are expressions: a state of the Mysis, a row of a table, and
# what somebody raised before.
WORKED_OUT: Mapping[str, set[str]] = {
    "mysis.state": {"running", "stopped", "errored"},
    "code": {code for code, _ in (*gate.MESSAGES.values(), *mcp.MESSAGES.values())},
    "*OUTCOME_UNKNOWN": set(),
    "ErrorCode.CONTEXT": {ErrorCode.CONTEXT.value},
    "ErrorCode.GAME": {ErrorCode.GAME.value},
    "error.code": set(ErrorCode.values),
    "progress.silence_code": {ErrorCode.PROVIDER.value},
}
# Codes that are written into an answer without an exception.
WRITTEN = {
    "not_ready",
    idempotency.OUTCOME_UNKNOWN[0],
    idempotency.ANSWER_NOT_KEPT[0],
}


def collect_codes(functions: Mapping[str, int | None]) -> set[str]:
    """The codes that these functions are given; fails for one that is not known."""
    found: set[str] = set()
    for written, module in find_written(functions):
        if isinstance(written, ast.Constant):
            found.add(str(written.value))
        elif isinstance(written, ast.Name) and hasattr(module, written.id):
            found.add(getattr(module, written.id))
        else:
            found |= WORKED_OUT[ast.unparse(written)]
    return found - {""}


def find_written(
    functions: Mapping[str, int | None],
) -> Iterator[tuple[ast.expr, ModuleType]]:
    """Each code as it is written, with its module."""
    for module, tree in read_modules():
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call):
                continue
            name = ast.unparse(call.func).rpartition(".")[2]
            named = [word.value for word in call.keywords if word.arg == "code"]
            place = functions.get(name)
            if name in functions and named:
                yield named[0], module
            elif place is not None and len(call.args) > place:
                yield call.args[place], module


def read_modules() -> Iterator[tuple[ModuleType, ast.Module]]:
    """The modules of the product, imported and parsed."""
    for package in ("agents", "memory", "zoea"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "migrations" not in parts:
                name = ".".join(parts)
                yield import_module(name), ast.parse(path.read_text())


def collect_close_codes() -> set[int]:
    """The close codes of WebSockets (RFC 6455, section 7.4) in the modules of sockets."""
    consumers = (ROOT / "agents" / "consumers").glob("*.py")
    paths = [ROOT / "zoea" / "websockets.py", *consumers]
    return {
        node.value
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and type(node.value) is int
        and (1001 <= node.value < 1016 or 4000 <= node.value < 5000)
    }
