"""How many memories the disk holds, and what a prune says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import large
from bench.soak.large import MEMORY_BYTES, SPARE_BYTES, Size, fit_rows


def test_there_are_as_many_memories_as_the_disk_holds_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "KEPT", tmp_path)
    size = Size(1_000_000, 200)
    room = SPARE_BYTES + 1_000_000 * MEMORY_BYTES
    assert fit_rows(size, 2 * room) == size
    assert fit_rows(size, room) == Size(500_000, 200)
    size.folder.mkdir()
    assert fit_rows(size, room) == size, "the first copy is there already"
    with pytest.raises(RuntimeError, match="no room"):
        fit_rows(size, SPARE_BYTES)


def test_what_a_prune_removed_is_read_from_its_words() -> None:
    said = "turns: 120 removed\nold versions of notes: 0 removed\nsomething: else\n"
    assert large.read_removed(said) == {"turns": 120, "old versions of notes": 0}
