"""From a model's name to where it is reached.

A name is ``pilot``, ``<provider>:<model>`` or ``<provider>`` for its default
model. Providers are the rows of the admin; where there is no row of that name,
``openai``, ``anthropic``, ``ollama`` and ``pilot`` come from the environment.
What a row leaves empty is the kind's own default, and its key is never used for
an address that it was not given for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.conf import settings

from agents.llm.types import Endpoint, Kind, ModelError, UnknownProviderError
from agents.llm.windows import Told, window_of
from agents.models import Provider
from agents.vault import SecretUnreadableError

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
        raise ModelError(
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
    raise ModelError(
        f'There is no API key for "{name}".',
        f"Set {variable}, or add the provider with its key in the admin.",
    )
