"""Few contexts are put together at a time, whoever asks to see them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Semaphore
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents import context_inputs, mcp_server
from agents.actions import get_default_prompt
from agents.models import Mysis
from memory.models import ContextPolicy
from memory.problems import find_busy
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db
REFUSED = "Other contexts are being put together: not shown. Try again in 5 s."


@pytest.fixture
def ada() -> Mysis:
    mysis = make_mysis(name="Ada", prompt=get_default_prompt())
    make_memory(mysis, content="Mine.")
    return mysis


Door = Callable[[Client, Mysis], tuple[int, str]]


def page(address: Callable[[Mysis], str], *, post: Any = None) -> Door:
    def ask(admin: Client, mysis: Mysis) -> tuple[int, str]:
        url = address(mysis)
        answer = admin.get(url) if post is None else admin.post(url, post)
        return answer.status_code, answer.content.decode()

    return ask


def call_tool(_: Client, mysis: Mysis) -> tuple[int, str]:
    guest = mcp_server.Guest("token:x", "viewer", may_send=False, throttle=lambda: 0)
    try:
        found = mcp_server._call_tool(
            "zoea_preview_context", {"mysis_id": mysis.name}, guest
        )
    except Exception as error:
        problem = find_busy(error)
        assert problem is not None
        return problem.status, problem.detail
    return 200, str(found.value)


def name_message(mysis: Mysis) -> str:
    [message] = mysis.memories.all()
    return f"/myses/{mysis.name}/messages/{message.pk}/inspect/"


def name_policies(mysis: Mysis) -> str:
    other, _ = ContextPolicy.objects.get_or_create(name="b")
    return f"/policies/?mysis={mysis.pk}&b={other.pk}"


def name_policy(_: Mysis) -> str:
    return reverse("admin:memory_contextpolicy_preview_new")


def name_prompt(mysis: Mysis) -> str:
    return reverse("admin:agents_prompt_preview", args=[mysis.prompt_id])


def name_preview(mysis: Mysis) -> str:
    return reverse("admin:agents_mysis_preview", args=[mysis.pk])


DOORS: dict[str, Door] = {
    "context page": page(lambda mysis: f"/myses/{mysis.name}/context/"),
    "pane": page(name_message),
    "policies": page(name_policies),
    "admin's preview": page(name_preview),
    "draft of a prompt": page(name_prompt, post={"name": "x", "text": "Fly."}),
    "draft of a policy": page(
        name_policy,
        post={
            "name": "tight", "strategy": "window", "options": "{}",
            "budget_tokens": 9000, "budget_reserve": 1000,
        },
    ),
    "REST": page(lambda mysis: f"/api/v1/myses/{mysis.pk}/context"),
    "REST, two": page(
        lambda mysis: f"/api/v1/myses/{mysis.pk}/context/diff?a=window&b=tiered"
    ),
    "MCP": call_tool,
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_every_door_needs_one_place(
    door: str, admin: Client, ada: Mysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.raise_request_exception = False
    places = context_inputs.previews
    # Nobody waits; one that asked for two places would find none.
    monkeypatch.setattr(places, "seconds", 0)
    monkeypatch.setattr(places, "_free", Semaphore(0))
    status, text = DOORS[door](admin, ada)
    assert status == 503
    assert REFUSED in text
    monkeypatch.setattr(places, "_free", Semaphore(1))
    status, text = DOORS[door](admin, ada)
    assert status == 200
    assert "errorlist" not in text
    assert places._free.acquire(timeout=0)
