"""From a model's name to where it is reached, and with which window.

A name is ``pilot``, ``<provider>:<model>`` or ``<provider>`` for its default model.
Providers are the rows of the admin; where there is no row of that name, ``openai``,
``anthropic``, ``ollama`` and ``pilot`` come from the environment. What a row leaves empty
is the kind's own default; a key is never used for an address it was not given for.

Endpoints are asked for the windows of their models by the worker before it assembles,
never by a page: one request for all turns that wait, bounded in time and size.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

import httpx2
from django.conf import settings

from agents import db, statements
from agents.encryption import SecretUnreadableError
from agents.llm.context_windows import (
    Found,
    find_window,
    names_windows,
    read_default_window,
    read_entry_window,
    read_listed_window,
    read_running_window,
    store_window,
)
from agents.llm.model_types import Endpoint, Kind, ModelError, UnknownProviderError
from agents.llm.wires import http
from agents.models import ErrorCode, Provider
from memory.secret_patterns import has_query

LOCAL_OLLAMA = "http://127.0.0.1:11434/v1"
PILOT = "pilot"
#: The pilot's other way to fly; any other name of a model means the pilot itself.
FORGETFUL = "forgetful"
_KINDS: tuple[Kind, ...] = ("openai", "anthropic", "ollama", "pilot")
log = logging.getLogger(__name__)
SECONDS = 4.0
_under_way: dict[tuple[str, str, str], asyncio.Task[None]] = {}


@dataclass(frozen=True, slots=True)
class _Account:
    kind: Kind
    base_url: str = ""
    key: str = ""
    row: Provider = field(default_factory=Provider)


def resolve(model: str, rows: Iterable[Provider] | None = None) -> Endpoint:
    """Find the endpoint of a model's name; ``rows`` are its `list_provider_candidates`.

    Raises UnknownProviderError, and ModelError where the model or the key is missing.
    """
    name = model.strip()
    return _endpoint(name, *_find_account(name, rows))


def resolve_in(provider: str, model: str = "") -> Endpoint:
    """Find the endpoint of a provider's model, else its default; raises as `resolve`."""
    row = Provider.objects.filter(name=provider).first()
    if row is not None:
        account = _from_row(row)
    elif provider in _KINDS:
        account = _from_environment(provider)
    else:
        raise _unknown(provider)
    name = f"{provider}:{model}" if model else provider
    return _endpoint(name, account, model)


def resolve_row(row: Provider) -> Endpoint:
    """Find the endpoint of the default model of a row, saved or not; raises ModelError."""
    return _endpoint(row.name, _from_row(row), "")


def list_providers() -> list[Endpoint]:
    """Every provider that can be asked for its models, as an endpoint without one.

    Rows first, then what the environment gives an address or a key; not the pilot, nor
    one whose key is missing or lost.
    """
    found = {}
    for row in Provider.objects.order_by("name"):
        with suppress(ModelError):
            found[row.name] = _from_row(row)
    set_up = {
        "openai": settings.OPENAI_API_KEY or settings.OPENAI_BASE_URL,
        "anthropic": settings.ANTHROPIC_API_KEY,
        "ollama": settings.OLLAMA_BASE_URL,
    }
    for kind in _KINDS:
        if set_up.get(kind) and kind not in found:
            found[kind] = _from_environment(kind)
    return [
        Endpoint(name, account.kind, "", 0, account.base_url, account.key)
        for name, account in found.items()
        if account.kind != "pilot" and (account.key or account.base_url)
    ]


async def resolve_with_window(
    model: str, rows: Iterable[Provider] | None = None
) -> Endpoint:
    """`resolve` a model's name, after asking its endpoint for the window where due.

    Raises what `resolve` raises; an endpoint that does not answer is no error.
    """
    endpoint = await db.run_in_db(resolve, model, rows)
    if not endpoint.window_due:
        return endpoint
    await _ask_once(endpoint)
    return await db.run_in_db(resolve, model)


def _endpoint(name: str, account: _Account, wanted: str) -> Endpoint:
    kind = account.kind
    model = wanted or account.row.default_model
    if kind == "pilot" and model != FORGETFUL:
        model = PILOT
    if not model:
        raise ModelError(
            f'"{name}" names a provider but no model.',
            f'Write "{name}:<model>", or give the provider a default model.',
            code=ErrorCode.MODEL,
        )
    if kind != "pilot":
        _check_key(name, account)
    window = find_window(kind, account.base_url, model, account.row)
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


def _find_account(name: str, rows: Iterable[Provider] | None) -> tuple[_Account, str]:
    candidates = list_provider_candidates(name)
    if rows is None:
        rows = Provider.objects.raw(statements.PROVIDERS_NAMED, [candidates])
    named = {row.name: row for row in rows}
    for head in candidates:
        rest = name[len(head) + 1 :].strip()
        if head in named:
            return _from_row(named[head]), rest
        if head in _KINDS:
            return _from_environment(head), rest
    raise _unknown(name.partition(":")[0])


def _unknown(provider: str) -> UnknownProviderError:
    known = sorted({*_KINDS, *Provider.objects.values_list("name", flat=True)})
    return UnknownProviderError(
        f'No provider is named "{provider}".',
        f'Write "<provider>:<model>" with one of: {", ".join(known)}.',
        code=ErrorCode.MODEL,
    )


def list_provider_candidates(name: str) -> list[str]:
    """What of a model's name may be its provider's, longest first; both may hold colons."""
    cuts = [index for index, sign in enumerate(name) if sign == ":"]
    return [name, *(name[:cut] for cut in reversed(cuts))]


def _from_row(row: Provider) -> _Account:
    kind: Kind = next(kind for kind in _KINDS if kind == row.kind)
    if has_query(row.base_url):
        raise ModelError(
            f'The address of provider "{row.name}" goes on after ? or #.',
            "Take that part out in the admin. A key has a field of its own.",
        )
    try:
        key = row.api_key
    except SecretUnreadableError as error:
        # Another worker may have the key.
        raise ModelError(
            f'The key of provider "{row.name}" is lost.',
            str(error),
            retryable=True,
            code=ErrorCode.KEY,
        ) from None
    defaults = _from_environment(kind)
    base_url = _address(kind, row.base_url)
    if not base_url or base_url == defaults.base_url:
        base_url, key = defaults.base_url, key or defaults.key
    return _Account(kind, base_url, key, row)


def _from_environment(kind: Kind) -> _Account:
    if kind == "openai":
        base_url = _address(kind, settings.OPENAI_BASE_URL)
        return _Account(kind, base_url, settings.OPENAI_API_KEY)
    if kind == "anthropic":
        return _Account(kind, key=settings.ANTHROPIC_API_KEY)
    if kind == "ollama":
        return _Account(kind, _address(kind, settings.OLLAMA_BASE_URL) or LOCAL_OLLAMA)
    return _Account(kind)


def _address(kind: Kind, base_url: str) -> str:
    """Ollama's own address has no path; its OpenAI-compatible API is at /v1."""
    url = base_url.strip().rstrip("/")
    if kind == "ollama" and url and not urlsplit(url).path:
        return f"{url}/v1"
    return url


def _check_key(name: str, account: _Account) -> None:
    """Refuse a missing key: only a server of one's own may do without."""
    if account.key or account.base_url:
        return
    variable = f"{account.kind.upper()}_API_KEY"
    raise ModelError(
        f'There is no API key for "{name}".',
        f"Set {variable}, or add the provider with its key in the admin.",
        code=ErrorCode.KEY,
    )


def find_key_destination(kind: str, base_url: str) -> tuple[str, str, str, int | None]:
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


async def _ask_once(endpoint: Endpoint) -> None:
    key = (endpoint.kind, endpoint.base_url, endpoint.model)
    task = _under_way.get(key)
    if task is None or task.get_loop() is not asyncio.get_running_loop():
        task = asyncio.create_task(_ask_if_due(endpoint))
        _under_way[key] = task
        task.add_done_callback(lambda _: _under_way.pop(key, None))
    # A turn that is stopped meanwhile must not end the question of the others.
    await asyncio.shield(task)


async def _ask_if_due(endpoint: Endpoint) -> None:
    """Ask, unless somebody was answered meanwhile; no answer is kept too."""
    now = await db.run_in_db(resolve, endpoint.name)
    if not now.window_due:
        return
    await db.run_in_db(store_window, endpoint, await ask_window(endpoint))


def build_key_headers(endpoint: Endpoint) -> dict[str, str]:
    """The headers with which its kind is asked about its models."""
    if endpoint.kind == "anthropic":
        key = {"x-api-key": endpoint.key} if endpoint.key else {}
        return {"anthropic-version": "2023-06-01"} | key
    return {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}


async def ask_window(endpoint: Endpoint) -> Found | None:
    """The window as the endpoint names it, with the field; None where it does not."""
    if not names_windows(endpoint.kind, endpoint.base_url):
        return None
    try:
        async with asyncio.timeout(SECONDS), http.open_client() as client:
            client.headers.update(build_key_headers(endpoint))
            return await _read_window(client, endpoint)
    except Exception as error:
        # Whatever a stranger's list may hold: the catalogue or 8,192 stand in.
        log.info("%s did not tell its window: %r", endpoint.name, type(error).__name__)
        return None


async def _read_window(client: httpx2.AsyncClient, endpoint: Endpoint) -> Found | None:
    url, model = endpoint.base_url, endpoint.model
    if endpoint.kind == "ollama":
        root = url.removesuffix("/v1")
        loaded = await client.get(f"{root}/api/ps")
        if loaded.is_success and (found := read_running_window(loaded.json(), model)):
            return found
        answer = await client.post(f"{root}/api/show", json={"model": model})
        return read_default_window(answer.json()) if answer.is_success else None
    if endpoint.kind == "anthropic":
        answer = await client.get(f"{url}/v1/models/{quote(model, safe='')}")
        return read_entry_window(answer.json()) if answer.is_success else None
    answer = await client.get(f"{url}/models")
    return read_listed_window(answer.json(), model) if answer.is_success else None
