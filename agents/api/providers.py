"""/providers: LLM endpoints. A key can be written here, never read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents.llm.endpoints import goes_to
from agents.models import Provider
from memory.api.fields import FROM_JSON, Body, Name, example
from memory.api.pages import Page, Rows, Window, page_of
from memory.api.policies import refusal
from memory.problems import invalid

from . import lookup

router = Router(tags=["providers"])

Kind = Literal["openai", "anthropic", "ollama", "pilot"]
ProviderReference = Annotated[
    str, Field(description="Number or name.", examples=["local"])
]


class ProviderOut(Schema):
    """An endpoint; ``window`` is null where the endpoint is asked for it."""

    name: str = Field(examples=["local"])
    kind: str = Field(examples=["ollama"])
    base_url: str = Field(examples=["http://127.0.0.1:11434"])
    default_model: str = Field(examples=["qwen3"])
    window: int | None = Field(examples=[32768])
    has_key: bool

    @staticmethod
    def resolve_has_key(row: Provider) -> bool:
        """Whether a key is stored; nothing more of it leaves the server."""
        return bool(row.sealed_key)


class ProviderChange(Body):
    """What may change; an empty ``api_key`` removes the key."""

    model_config = example(window=32768, api_key="sk-...")

    name: Name | None = None
    kind: Kind | None = None
    base_url: Annotated[str, Field(max_length=500)] | None = None
    default_model: Annotated[str, Field(max_length=200)] | None = None
    window: Annotated[int, Field(ge=1, le=2**31 - 1), FROM_JSON] | None = None
    api_key: Annotated[str, Field(max_length=4000)] | None = None


class ProviderIn(ProviderChange):
    """A new endpoint."""

    model_config = example(
        name="local",
        kind="ollama",
        base_url="http://127.0.0.1:11434",
        default_model="qwen3",
    )

    name: Name
    kind: Kind


@router.get("/providers", response=Page[ProviderOut])
def list_providers(request: HttpRequest, window: Query[Window]) -> Rows:
    """All configured endpoints, without those that the environment brings."""
    return page_of(Provider.objects.all(), window)


@router.post("/providers", response={201: ProviderOut})
def create_provider(request: HttpRequest, body: ProviderIn) -> Status[Provider]:
    """Add an endpoint; it wins over one of that name in the environment."""
    return Status(201, change(Provider(), body.model_dump(exclude_unset=True)))


@router.get("/providers/{reference}", response=ProviderOut)
def read_provider(request: HttpRequest, reference: ProviderReference) -> Provider:
    """One endpoint, by name or number."""
    return lookup.get(Provider.objects.all(), reference, "provider")


@router.patch("/providers/{reference}", response=ProviderOut)
def update_provider(
    request: HttpRequest, reference: ProviderReference, body: ProviderChange
) -> Provider:
    """Change what is given; a key that is left out stays where it was given for.

    With another kind, scheme, host or port it must be given again, or removed.
    """
    provider = lookup.get(Provider.objects.all(), reference, "provider")
    return change(provider, body.model_dump(exclude_unset=True))


@transaction.atomic
def change(provider: Provider, values: dict[str, Any]) -> Provider:
    """Apply the given fields and store; raises a 422 Problem."""
    before = goes_to(provider.kind, provider.base_url)
    for field, value in values.items():
        if value is None and field != "window":
            raise invalid(field, "cannot be null; leave it out to keep it.")
        setattr(provider, field, value)
    try:
        provider.full_clean()
    except ValidationError as error:
        raise refusal(error) from error
    moved = goes_to(provider.kind, provider.base_url) != before
    if moved and provider.sealed_key and "api_key" not in values:
        raise invalid(
            "api_key",
            "the stored key was given for another address or kind; give the key "
            'again, or "" to remove it.',
        )
    provider.save()
    return provider
