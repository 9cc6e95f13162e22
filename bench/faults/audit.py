"""The audit after a run: what the rows say, against what happened in the game."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.game.sessions import Write
from sandbox.game.table import TOOLS

Query = Callable[[str], list[tuple[Any, ...]]]
"""All rows of a query."""

Key = tuple[str, str, str]
"""A Mysis, a tool, and its arguments as text."""

CHANGING = {name for name, tool in TOOLS.items() if not tool.read_only} - {"login"}
"""Tools that change something; the program logs in by itself where it must."""

QUOTED = 300
"""How many characters of a result a fault quotes."""

UNKNOWN = ("Error: interrupted:", "Error: outcome_unknown:")

MUST_BE_EMPTY: Mapping[str, str] = {
    "turns without an outcome": """
        SELECT id FROM agents_turn WHERE outcome IS NULL OR finished_at IS NULL""",
    "turns that are missing in a count": """
        SELECT m.name, m.turn_count, count(t.id) FROM agents_mysis m
        LEFT JOIN agents_turn t ON t.mysis_id = m.id GROUP BY m.id
        HAVING count(t.id) <> m.turn_count OR coalesce(max(t.number), 0) <> count(t.id)
        """,
    "turns that were not told of once at their beginning and end": """
        SELECT t.id, e.kind, count(e.id) FROM agents_turn t
        CROSS JOIN (VALUES ('turn.started'), ('turn.finished')) k(kind)
        LEFT JOIN agents_event e
            ON e.kind = k.kind AND (e.data->>'turn')::bigint = t.id
        GROUP BY t.id, k.kind, e.kind HAVING count(e.id) <> 1""",
    "events of no turn": """
        SELECT e.id FROM agents_event e LEFT JOIN agents_turn t
            ON t.id = (e.data->>'turn')::bigint
        WHERE e.kind LIKE 'turn.%' AND t.id IS NULL""",
    "results without their call": """
        SELECT r.id FROM memory_memory r WHERE r.role = 'tool' AND NOT EXISTS (
            SELECT 1 FROM memory_memory c, jsonb_array_elements(c.tool_calls) one
            WHERE c.mysis_id = r.mysis_id AND c.role = 'assistant' AND c.id < r.id
                AND c.turn_id = r.turn_id AND one->>'id' = r.tool_call_id)""",
    "calls without exactly one result": """
        SELECT c.id, one->>'id', count(r.id) FROM memory_memory c
        CROSS JOIN jsonb_array_elements(c.tool_calls) one
        LEFT JOIN memory_memory r ON r.mysis_id = c.mysis_id AND r.role = 'tool'
            AND r.turn_id = c.turn_id AND r.tool_call_id = one->>'id'
        WHERE c.role = 'assistant' GROUP BY c.id, one->>'id' HAVING count(r.id) <> 1""",
    "calls that are still open": "SELECT id FROM memory_memory WHERE pending",
    "rows of no turn": """
        SELECT id FROM memory_memory
        WHERE role IN ('assistant', 'tool') AND turn_id IS NULL""",
    "calls of a model that are missing in a turn": """
        SELECT t.id FROM agents_turn t LEFT JOIN agents_modelcall c
            ON c.turn_id = t.id AND c.kind = 'turn'
        GROUP BY t.id HAVING count(c.id) <> t.iterations""",
    "turns that are still queued": """
        SELECT id FROM procrastinate_jobs
        WHERE queue_name LIKE 'turns%' AND status IN ('todo', 'doing')""",
}
"""Questions to which a sound database answers with nothing."""


def find_faults(
    query: Query, writes: Mapping[str, list[Write]], promised: Iterable[str]
) -> list[str]:
    """All that is wrong; empty where every row is accounted for."""
    found = [
        f"{what}: {len(rows)}, such as {rows[0]}"
        for what, text in MUST_BE_EMPTY.items()
        if (rows := query(text))
    ]
    found += _check_messages(query, promised)
    return found + list(_check_actions(query, writes))


def _check_messages(query: Query, promised: Iterable[str]) -> Iterator[str]:
    """Each promised message is there, and none twice."""
    rows = query("SELECT content FROM memory_memory WHERE origin = 'human'")
    there = Counter(str(text) for (text,) in rows)
    lost = [text for text in promised if not there[text]]
    if lost:
        yield f"messages that were promised and lost: {lost}"
    twice = [text for text, count in there.items() if count > 1]
    if twice:
        yield f"messages that came twice: {twice}"


@dataclass
class Results:
    """The stored results of one action of one Mysis."""

    answered: int = 0
    unknown: int = 0
    texts: list[str] = field(default_factory=list)

    def add_result(self, content: str, is_error: bool) -> None:
        self.answered += not is_error
        self.unknown += is_error and content.startswith(UNKNOWN)
        self.texts.append(content[:QUOTED])


def _check_actions(query: Query, writes: Mapping[str, list[Write]]) -> Iterator[str]:
    """Each answered action happened, and none more often than it was answered.

    One whose outcome is unknown may have happened or not.
    """
    recorded = _read_results(query)
    happened = Counter(
        _action_key(name, one) for name in writes for one in writes[name]
    )
    for key in sorted(happened.keys() | recorded.keys()):
        if key[1] not in CHANGING:
            continue
        rows, times = recorded[key], happened[key]
        least, most = rows.answered, rows.answered + rows.unknown
        if not least <= times <= most:
            yield (
                f"{key} happened {times} times, recorded {least} to {most}: {rows.texts}"
            )


def _read_results(query: Query) -> defaultdict[Key, Results]:
    rows = query(
        """SELECT m.model, r.tool_name, r.args::text, r.content, r.is_error
        FROM memory_memory r JOIN agents_mysis m ON m.id = r.mysis_id
        WHERE r.role = 'tool' ORDER BY r.id"""
    )
    found: defaultdict[Key, Results] = defaultdict(Results)
    for model, tool, args, content, is_error in rows:
        key = (model.rpartition(":")[2], tool, _arguments_text(tool, json.loads(args)))
        found[key].add_result(content, is_error)
    return found


def _action_key(username: str, write: Write) -> Key:
    return (
        _mysis_of_account(username),
        write.tool,
        _arguments_text(write.tool, write.arguments),
    )


def _mysis_of_account(username: str) -> str:
    """Whose account it is: "Cap cap-7.12" is the twelfth try of cap-7."""
    return username.removeprefix("Cap ").partition(".")[0]


def _arguments_text(tool: str, arguments: Mapping[str, Any]) -> str:
    # The program chooses the name of an account where the model's is taken.
    return "" if tool == "register" else json.dumps(arguments, sort_keys=True)


def count_actions(writes: Mapping[str, list[Write]]) -> dict[str, int]:
    """How often each tool changed something in the game."""
    return dict(Counter(one.tool for each in writes.values() for one in each))
