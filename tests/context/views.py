"""Assembling a made-up log and asking what became of its rows."""

from __future__ import annotations

from typing import Any

from memory.context.assemble import assemble
from memory.context.result_types import Assembly, LedgerLine
from memory.context.types import AssemblyRequest, Budget
from tests.context import checks
from tests.context.histories import Log

ROOMY = Budget(10_000_000, 0)


def view(log: Log, strategy: str = "snapshot-window", **more: Any) -> Assembly:
    """The checked view of a log; `options` may be given as keywords of its own."""
    names = ("window", "backfill", "prune", "result_cap", "state_block")
    options = {name: more.pop(name) for name in names if name in more}
    options.update(more.pop("options", {}))
    more.setdefault("budget", ROOMY)
    request = AssemblyRequest(log.done(), strategy=strategy, options=options, **more)
    result = assemble(request)
    assert result.status != "fallback_used", result.reason
    checks.check_wire(request, result)
    checks.check_shape(result)
    checks.check_ledger(request, result)
    checks.check_sources(request, result)
    return result


def sent(result: Assembly) -> list[int]:
    """The stored ids in the view, in order."""
    return [number for ids in sources_of(result) for number in ids]


def sources_of(result: Assembly) -> list[list[int]]:
    """The stored ids behind each message: several where texts were joined."""
    return [
        source if isinstance(source, list) else [source] if source is not None else []
        for source in result.sources
    ]


def line(result: Assembly, number: int) -> LedgerLine:
    """The ledger line of a row."""
    return next(entry for entry in result.ledger if entry.id == number)


def fate(result: Assembly, number: int) -> str:
    """The disposition of a row."""
    return line(result, number).disposition


def text_of(result: Assembly, number: int) -> str:
    """The message in which a row is sent."""
    place = next(i for i, ids in enumerate(sources_of(result)) if number in ids)
    return str(result.messages[place]["content"])


def kinds(result: Assembly) -> list[str]:
    """The kinds of what was made up, in order."""
    return [entry.kind for entry in result.synthetic]
