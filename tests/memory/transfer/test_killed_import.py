"""An import whose process is killed: what was stored stays, and the rest comes later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command

from agents.models import Event
from bench.processes import ROOT, database_url
from memory.transfer import in_out
from tests.factories import make_mysis

# It stands where a batch says that it was stored, and commits next.
WAITING = """
SELECT pid FROM pg_locks
WHERE relation = 'agents_event'::regclass AND NOT granted
"""
GONE = "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = %s"
TRIES = 1200


def wait_for(other: psycopg.Connection, query: str, *values: object) -> object:
    """The first true answer of a question that is asked for a minute."""
    for _ in range(TRIES):
        row = other.execute(query.encode(), values).fetchone()
        if row and row[0]:
            return row[0]
        other.execute("SELECT pg_sleep(0.05)")
    raise AssertionError(f"It never came: {query}")


@pytest.mark.usefixtures("transactional_db")
def test_an_import_that_is_killed_loses_nothing_and_stores_nothing_twice(
    tmp_path: Path,
) -> None:
    ada = make_mysis(name="Ada")
    texts = [f"said {n % 700}" for n in range(3 * in_out.BATCH + 7)]
    lines = [json.dumps({"role": "assistant", "content": text}) for text in texts]
    path = tmp_path / "chat.jsonl"
    path.write_text("\n".join(lines[: 2 * in_out.BATCH]))
    call_command("import_history", str(path), mysis="Ada", stdout=StringIO())
    path.write_text("\n".join(lines))
    with psycopg.connect(database_url()) as holder:
        holder.execute("LOCK TABLE agents_event IN SHARE MODE")
        with psycopg.connect(database_url(), autocommit=True) as other:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "import_history", str(path),
                 "--mysis", "Ada"],
                cwd=ROOT,
                env=os.environ | {"DATABASE_URL": database_url()},
            )  # fmt: skip
            try:
                backend = wait_for(other, WAITING)
            finally:
                process.kill()
                killed = process.wait()
            holder.rollback()
            wait_for(other, GONE, backend)
    assert killed == -signal.SIGKILL
    assert ada.memories.count() == 2 * in_out.BATCH
    out = StringIO()
    call_command("import_history", str(path), mysis="Ada", stdout=out)
    assert f"{in_out.BATCH + 7} messages imported into Ada" in out.getvalue()
    stored = ada.memories.order_by("pk").values_list("content", flat=True)
    assert list(stored) == texts
    told = Event.objects.filter(kind="memory.added").values_list("data", flat=True)
    assert sum(data["imported"] for data in told) == len(texts)
