"""A worker's way through a queue of few jobs; nothing here judges time."""

from __future__ import annotations

import pytest

from bench import job_queue


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("queues", [None, ["turns-0"]])
def test_jobs_are_handed_out_and_queued_again(
    queues: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "WARM", 2)
    monkeypatch.setattr(job_queue, "HANDED_OUT", 3)
    job_queue.fill_queue(64)
    found = job_queue.hand_out_jobs(queues)
    assert found["fetch"] > 0 and found["end"] > 0 and found["rows"] > 0
    [waiting] = job_queue.run_statement(
        "SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'"
    )
    assert waiting == 64
