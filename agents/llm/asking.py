"""Asks endpoints for the windows of their models, where that is due.

The worker does it before it assembles, never a page. However many turns wait for the
same answer, one request is made, and it is bounded in time and size.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import httpx2
from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async

from agents.llm.endpoints import resolve
from agents.llm.model_lists import Found, in_entry, in_list, running, shown
from agents.llm.types import Endpoint
from agents.llm.windows import keep, tells
from agents.llm.wires import http

log = logging.getLogger(__name__)

SECONDS = 4.0
_VERSION = {"anthropic-version": "2023-06-01"}

Key = tuple[str, str, str]
_under_way: dict[Key, asyncio.Task[None]] = {}


async def ready(model: str) -> Endpoint:
    """`resolve` a model's name, after asking its endpoint for the window where due.

    Raises what `resolve` raises; an endpoint that does not answer is no error.
    """
    endpoint: Endpoint = await database_sync_to_async(resolve)(model)
    if not endpoint.window_due:
        return endpoint
    await _asked_once(endpoint)
    found: Endpoint = await database_sync_to_async(resolve)(model)
    return found


async def _asked_once(endpoint: Endpoint) -> None:
    key = (endpoint.kind, endpoint.base_url, endpoint.model)
    task = _under_way.get(key)
    if task is None or task.get_loop() is not asyncio.get_running_loop():
        task = asyncio.create_task(_ask_if_due(endpoint))
        _under_way[key] = task
        task.add_done_callback(lambda _: _under_way.pop(key, None))
    # A turn that is stopped meanwhile must not end the question of the others.
    await asyncio.shield(task)


async def _ask_if_due(endpoint: Endpoint) -> None:
    """Ask, unless somebody was answered between our look and now."""
    async with ThreadSensitiveContext():
        now: Endpoint = await database_sync_to_async(resolve)(endpoint.name)
    if now.window_due:
        await ask_and_keep(endpoint)


async def ask_and_keep(endpoint: Endpoint) -> None:
    """Ask now, and keep what is answered; also that there was no answer."""
    found = await ask(endpoint)
    tokens, source = found or (None, "")
    # Its own thread: that of the turn that asked first may end before.
    async with ThreadSensitiveContext():
        await database_sync_to_async(keep)(endpoint, tokens, source)


async def ask(endpoint: Endpoint) -> Found | None:
    """The window as the endpoint tells it, with the field; None where it does not."""
    if not tells(endpoint.kind, endpoint.base_url):
        return None
    try:
        async with asyncio.timeout(SECONDS), http.client() as client:
            client.headers.update(_headers(endpoint))
            return await _QUESTIONS[endpoint.kind](client, endpoint)
    except Exception as error:
        # Whatever a stranger's list may hold: the catalogue or 8,192 stand in.
        log.info("%s did not tell its window: %r", endpoint.name, type(error).__name__)
        return None


def _headers(endpoint: Endpoint) -> dict[str, str]:
    signed = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    return {**signed, **_VERSION} if endpoint.kind == "anthropic" else signed


async def _ask_openai(client: httpx2.AsyncClient, endpoint: Endpoint) -> Found | None:
    answer = await client.get(f"{endpoint.base_url}/models")
    return in_list(answer.json(), endpoint.model) if answer.is_success else None


async def _ask_anthropic(
    client: httpx2.AsyncClient, endpoint: Endpoint
) -> Found | None:
    name = quote(endpoint.model, safe="")
    answer = await client.get(f"{endpoint.base_url}/v1/models/{name}")
    return in_entry(answer.json()) if answer.is_success else None


async def _ask_ollama(client: httpx2.AsyncClient, endpoint: Endpoint) -> Found | None:
    root = endpoint.base_url.removesuffix("/v1")
    loaded = await client.get(f"{root}/api/ps")
    if loaded.is_success and (found := running(loaded.json(), endpoint.model)):
        return found
    answer = await client.post(f"{root}/api/show", json={"model": endpoint.model})
    return shown(answer.json()) if answer.is_success else None


_QUESTIONS: dict[
    str, Callable[[httpx2.AsyncClient, Endpoint], Awaitable[Found | None]]
] = {"openai": _ask_openai, "anthropic": _ask_anthropic, "ollama": _ask_ollama}
