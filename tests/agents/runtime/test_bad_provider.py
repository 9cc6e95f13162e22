"""A provider out of its mind: every answer becomes a result, or a reason with a remedy."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async
from pytest_django import Settings

from agents import actions, events
from agents.models import Delivery, ModelCall, Mysis
from memory.models import Memory
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.fakes.openai import FakeProvider, Reply, call, completion

in_db = database_sync_to_async


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("<html><body>Sign in to the hotel</body></html>", "no completion"),
        ("x" * 10_000_000, "bytes"),
        ("", ""),
    ],
    ids=["html", "10 MB", "nothing"],
)
async def test_an_answer_that_is_none_ends_errored_with_reason_and_remedy(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider, settings: Settings,
    body: Any, says: str,
):  # fmt: skip
    settings.ZOEA_ERRORED_AFTER = 2
    for _ in range(2):
        provider.answer(body)
        after = await fly(eve, "retry")
    assert after.state == "errored"
    assert says in after.last_error
    assert "check" in after.last_error.lower()
    assert len(provider.requests) == 2
    kept = await in_db(
        lambda: list(ModelCall.objects.values_list("error", flat=True))
    )()
    assert set(kept) == {after.last_error}
    provider.answer(completion("Aye."))
    await in_db(actions.start_mysis)(mysis=eve, by="test")
    assert (await fly(eve)).last_error == ""


@pytest.mark.parametrize(
    ("reason", "says"),
    [("length", "max_tokens"), ("content_filter", "filter"), ("stop", "neither")],
)
async def test_an_answer_without_words_or_calls_has_a_reason_and_an_end(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider, reason: str, says: str
):
    body = completion("")
    body["choices"][0]["finish_reason"] = reason
    await in_db(actions.send_message)(mysis=eve, text="Well?", by="operator:x")
    for state in ("running", "running", "idle"):
        provider.answer(body)
        after = await fly(eve)
        assert after.state == state
        assert says in after.last_error
    turn = await in_db(after.turns.latest)("pk")
    assert (turn.outcome, turn.error) == ("done", after.last_error)
    told = await in_db(events.read_after)(0, kinds=["error"])
    assert [one["data"]["code"] for one in told] == ["empty_answer"] * 3
    # Nobody has answered the message.
    assert not await in_db(Delivery.objects.exclude(done_at=None).exists)()
    await in_db(actions.send_message)(mysis=eve, text="Still there?", by="operator:x")
    provider.answer(completion("Aye."))
    assert (await fly(eve)).last_error == ""
    assert not await in_db(Delivery.objects.filter(done_at=None).exists)()


async def test_an_end_without_words_after_calls_is_a_good_one(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    provider.answer(completion(None, tool_calls=[call("get_version")]))
    provider.answer(completion(""))
    assert (await fly(eve)).last_error == ""


async def test_a_provider_that_says_nothing_is_given_up(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    """The deadline is that of the settings; without one it is five minutes."""
    settings = {"timeout": 0.2}
    await in_db(actions.update_mysis)(mysis=eve, by="x", model_settings=settings)
    gate = provider.arrived.__class__()
    provider.answers.append(Reply(body=completion("Late."), wait=gate))
    after = await fly(eve)
    gate.set()
    assert (after.state, after.failures) == ("running", 1)
    assert "within 0.2 seconds" in after.last_error
    assert "timeout" in after.last_error


async def test_bad_calls_become_results_and_the_next_request_is_good(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    bad = [
        call("travel", '{"target_poi": ', "a"),
        call("travel", "[1]", "b"),
        call("travel", '{"target_poi": 7}', "c"),
        call("fly to <Sol>", "{}", "d"),
        call("", "null", "e"),
        call("get_version", "{}", "a"),
    ]
    provider.answer(completion(None, tool_calls=bad))
    provider.answer(completion("I see."))
    await fly(eve)
    row = await refreshed(eve)
    assert (row.state, row.last_error) == ("running", "")
    # The strict provider has taken the history with all of it.
    assert len(provider.requests) == 2
    results = await in_db(
        lambda: list(Memory.objects.filter(mysis=eve, role="tool").order_by("pk"))
    )()
    assert [one.is_error for one in results] == [True] * 5 + [False]
    assert all(one.content.startswith("Error: ") for one in results[:5])
