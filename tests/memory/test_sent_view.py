"""Ledgers as they are kept, and read again."""

from __future__ import annotations

import json
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from memory.assembly.sent_view import COLUMNS, pack_ledger, unpack_ledger
from memory.context.types import Disposition, LedgerLine

lines = st.builds(
    LedgerLine,
    id=st.integers(1, 2**60),
    disposition=st.sampled_from(get_args(Disposition)),
    by=st.one_of(st.none(), st.integers(1, 99), st.sampled_from(["mask", "budget"])),
    reason=st.sampled_from(["Sent as stored.", "No room was left for it.", "Old."]),
    tokens_in=st.integers(0, 10**9),
    tokens_out=st.integers(0, 10**9),
    handle=st.none(),
)


@given(st.lists(lines, max_size=30))
def test_what_is_kept_is_read_again(ledger: list[LedgerLine]):
    kept = json.loads(json.dumps(pack_ledger(ledger)))
    found = unpack_ledger(kept, 7)
    assert [[row[c] for c in COLUMNS] for row in found] == [
        [getattr(line, c) for c in COLUMNS] for line in ledger
    ]
    for row in found:
        whole = row["disposition"] == "kept"
        assert row["handle"] == (None if whole else f"ctx://7/{row['id']}")


def test_a_ledger_from_before_is_read_too():
    """Migrations and upgrades lose nothing: old calls show their ledgers."""
    found = unpack_ledger([[5, "masked", "mask", "Old.", 9, 3]], 7)
    assert found == [
        {
            "id": 5,
            "disposition": "masked",
            "by": "mask",
            "reason": "Old.",
            "tokens_in": 9,
            "tokens_out": 3,
            "handle": "ctx://7/5",
        }
    ]


def test_a_long_ledger_is_small():
    told = LedgerLine(1, "kept", None, "Sent as stored.", 90, 90, None)
    plain = [[getattr(told, c) for c in COLUMNS]] * 1000
    assert len(json.dumps(pack_ledger([told] * 1000))) * 3 < len(json.dumps(plain))
