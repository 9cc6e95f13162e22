"""From a model's name to where it is reached.

A name is ``pilot``, ``<provider>:<model>`` or ``<provider>`` for its default
model. Providers are the rows of the admin; where there is no row of that name,
``openai``, ``anthropic``, ``ollama`` and ``pilot`` come from the environment.
What a row leaves empty is the kind's own default, and its key is never used for
an address that it was not given for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

import httpx2
from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.conf import settings

from agents.encryption import SecretUnreadableError
from agents.llm.context_windows import (
    Found,
    Told,
    in_entry,
    in_list,
    keep,
    running,
    shown,
    tells,
    window_of,
)
from agents.llm.model_types import (
    Endpoint,
    Kind,
    ModelError,
    NoKeyError,
    NoModelError,
    UnknownProviderError,
)
from agents.llm.wires import http
from agents.models import Provider

LOCAL_OLLAMA = "http://127.0.0.1:11434/v1"
PILOT = "pilot"
_NAMED = "SELECT * FROM agents_provider WHERE name = ANY(%s)"
_KINDS: tuple[Kind, ...] = ("openai", "anthropic", "ollama", "pilot")


@dataclass(frozen=True, slots=True)
class _Account:
    """A provider's access, from a row or from the environment."""

    kind: Kind
    base_url: str = ""
    key: str = ""
    default_model: str = ""
    told: Told = field(default_factory=Told)


def resolve(model: str) -> Endpoint:
    """Find the endpoint of a model's name.

    Raises UnknownProviderError for a provider that is not configured, ModelError
    where the model's name or the key is missing.
    """
    name = model.strip()
    return _endpoint(name, *_find(name))


def resolve_in(provider: str, model: str = "") -> Endpoint:
    """Find the endpoint of a provider's model, of its default one if none is given.

    Here the provider's name is the whole name. Raises what `resolve` raises.
    """
    row = Provider.objects.filter(name=provider).first()
    kind = next((kind for kind in _KINDS if kind == provider), None)
    if row is not None:
        account = _from_row(row)
    elif kind is not None:
        account = _from_environment(kind)
    else:
        raise _unknown(provider)
    name = f"{provider}:{model}" if model else provider
    return _endpoint(name, account, model)


def resolve_row(row: Provider) -> Endpoint:
    """Find the endpoint of a provider's default model; it need not be saved yet.

    Raises ModelError where the model's name or the key is missing.
    """
    return _endpoint(row.name, _from_row(row), "")


def _endpoint(name: str, account: _Account, wanted: str) -> Endpoint:
    kind = account.kind
    model = PILOT if kind == "pilot" else wanted or account.default_model
    if not model:
        raise NoModelError(
            f'"{name}" names a provider but no model.',
            f'Write "{name}:<model>", or give the provider a default model.',
        )
    if kind != "pilot":
        _check_key(name, account)
    window = window_of(kind, account.base_url, model, account.told)
    return Endpoint(
        name,
        kind,
        model,
        window.tokens,
        account.base_url,
        account.key,
        window.source,
        window.due,
    )


def _find(name: str) -> tuple[_Account, str]:
    """The provider that a name begins with, and the rest of the name."""
    found = Provider.objects.raw(_NAMED, [heads(name)])
    rows = {row.name: row for row in found}
    for head in heads(name):
        rest = name[len(head) + 1 :].strip()
        if head in rows:
            return _from_row(rows[head]), rest
        if head in _KINDS:
            return _from_environment(head), rest
    raise _unknown(name.partition(":")[0])


def _unknown(provider: str) -> UnknownProviderError:
    known = sorted({*_KINDS, *Provider.objects.values_list("name", flat=True)})
    return UnknownProviderError(
        f'No provider is named "{provider}".',
        f'Write "<provider>:<model>" with one of: {", ".join(known)}.',
    )


def heads(name: str) -> list[str]:
    """What of a model's name may be its provider's, longest first.

    Both parts may hold colons.
    """
    cuts = [index for index, sign in enumerate(name) if sign == ":"]
    return [name, *(name[:cut] for cut in reversed(cuts))]


def _from_row(row: Provider) -> _Account:
    kind: Kind = next(kind for kind in _KINDS if kind == row.kind)
    try:
        key = row.api_key
    except SecretUnreadableError as error:
        raise ModelError(
            f'The key of provider "{row.name}" is lost.', str(error)
        ) from None
    defaults = _from_environment(kind)
    base_url = _address(kind, row.base_url)
    if not base_url or base_url == defaults.base_url:
        base_url, key = defaults.base_url, key or defaults.key
    told = Told(row.window, row.changed_at)
    return _Account(kind, base_url, key, row.default_model, told)


def _from_environment(kind: Kind) -> _Account:
    if kind == "openai":
        base_url = _address(kind, settings.OPENAI_BASE_URL)
        return _Account(kind, base_url, settings.OPENAI_API_KEY)
    if kind == "anthropic":
        return _Account(kind, key=settings.ANTHROPIC_API_KEY)
    if kind == "ollama":
        return _Account(kind, _address(kind, settings.OLLAMA_BASE_URL) or LOCAL_OLLAMA)
    return _Account(kind)


def goes_to(kind: str, base_url: str) -> tuple[str, str, str, int | None]:
    """Where the key of such a provider is sent: kind, scheme, host and port.

    The host is empty where it is the kind's own.
    """
    known = next((one for one in _KINDS if one == kind), None)
    address = base_url.strip()
    if known is not None:
        address = _address(known, address) or _from_environment(known).base_url
    try:
        parts = urlsplit(address.lower())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return kind, parts.scheme, parts.hostname or "", port
    except ValueError:
        # No address of anything: equal to itself alone.
        return kind, "", address, None


def _address(kind: Kind, base_url: str) -> str:
    """Ollama's own address has no path; its OpenAI-compatible API is at /v1."""
    url = base_url.strip().rstrip("/")
    if kind == "ollama" and url and not urlsplit(url).path:
        return f"{url}/v1"
    return url


def _check_key(name: str, account: _Account) -> None:
    """A provider's public address needs a key; a server of one's own may not."""
    if account.key or account.base_url:
        return
    variable = f"{account.kind.upper()}_API_KEY"
    raise NoKeyError(
        f'There is no API key for "{name}".',
        f"Set {variable}, or add the provider with its key in the admin.",
    )


# SECTION Asks endpoints for the windows of their models, where that is due.
#
# The worker does it before it assembles, never a page. However many turns wait for the
# same answer, one request is made, and it is bounded in time and size.

log = logging.getLogger(__name__)

SECONDS = 4.0
_VERSION = {"anthropic-version": "2023-06-01"}

Key = tuple[str, str, str]
_under_way: dict[Key, asyncio.Task[None]] = {}


async def resolve_with_window(model: str) -> Endpoint:
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
    found = await ask_window(endpoint)
    tokens, source = found or (None, "")
    # Its own thread: that of the turn that asked first may end before.
    async with ThreadSensitiveContext():
        await database_sync_to_async(keep)(endpoint, tokens, source)


async def ask_window(endpoint: Endpoint) -> Found | None:
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
