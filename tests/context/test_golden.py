"""Every strategy on a few small logs, compared with what was looked at and agreed.

A case gives options by strategy in `options_of`. After a change that is meant: UPDATE_GOLDEN=1 pytest tests/context/test_golden.py, and
read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from memory.context import registry
from memory.context.assemble import assemble
from memory.context.documents import build_result_document, parse_request

FOLDER = Path(__file__).parents[1] / "golden" / "context"
CASES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("strategy", registry.list_names())
@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, strategy: str) -> None:
    document = json.loads((FOLDER / f"{case}.json").read_text())
    options = document.pop("options_of", {}).get(strategy, {})
    result = build_result_document(
        assemble(parse_request({**document, "strategy": strategy, "options": options}))
    )
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    path = FOLDER / strategy / f"{case}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_there_are_cases_and_no_leftovers() -> None:
    assert CASES
    for folder in FOLDER.iterdir():
        if folder.is_dir():
            assert folder.name in registry.list_names()
            assert sorted(path.stem for path in folder.iterdir()) == CASES
