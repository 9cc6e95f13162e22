"""/prompts with their versions, /providers, and /accounts of the game.

The key of a provider can be written here, never read; of an account's password there is
nothing at all.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from django.db import transaction
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions
from agents.api.turns import RowName, caller_name, read_changes
from agents.llm.endpoints import find_key_destination
from agents.models import Account, Prompt, PromptVersion, Provider
from memory.api.parameters import (
    FROM_JSON,
    Body,
    Name,
    Page,
    Rows,
    Text,
    Window,
    build_example,
    build_page,
    get_row,
)
from memory.api.policies import check_row
from memory.problems import make_invalid

prompts_router = Router(tags=["prompts"])

EXAMPLE_TEXT = "You fly a ship in the game SpaceMolt."
PromptReference = Annotated[
    str, Field(description="Number or name.", examples=["captain"])
]

providers_router = Router(tags=["providers"])

Kind = Literal["openai", "anthropic", "ollama", "pilot"]
ProviderReference = Annotated[
    str, Field(description="Number or name.", examples=["local"])
]

accounts_router = Router(tags=["accounts"])


class VersionOut(Schema):
    """One edit of a prompt."""

    id: int = Field(examples=[9])
    number: int = Field(examples=[3])
    text: str = Field(examples=[EXAMPLE_TEXT])
    author: str = Field(examples=["operator:grace"])
    note: str = Field(examples=["shorter"])
    created_at: datetime


class PromptOut(Schema):
    """A prompt with its current text."""

    id: int
    name: str = Field(examples=["captain"])
    version: int | None = Field(examples=[3])
    text: str = Field(examples=[EXAMPLE_TEXT])
    created_at: datetime

    @staticmethod
    def resolve_version(row: Prompt) -> int | None:
        return row.current.number if row.current else None

    @staticmethod
    def resolve_text(row: Prompt) -> str:
        return row.current.text if row.current else ""


class VersionIn(Body):
    """A new version."""

    model_config = build_example(text="You trade, and never at a loss.", note="safer")

    text: Text
    note: Annotated[str, Field(max_length=300)] = ""


class PromptIn(VersionIn):
    """A new prompt with its first version."""

    model_config = build_example(name="trader", text="You trade.", note="first try")

    name: Name


class RollbackIn(Body):
    """Which version becomes current again."""

    model_config = build_example(number=1)

    number: Annotated[int, Field(ge=1, le=2**31 - 1), FROM_JSON]


def _get_prompt(reference: str) -> Prompt:
    return get_row(Prompt.objects.all(), reference, "prompt")


@prompts_router.get("/prompts", response=Page[PromptOut])
def list_prompts(request: HttpRequest, window: Query[Window]) -> Rows:
    """All prompts."""
    return build_page(Prompt.objects.all(), window)


@prompts_router.post("/prompts", response={201: PromptOut})
def create_prompt(request: HttpRequest, body: PromptIn) -> Status[Prompt]:
    """Make a prompt."""
    prompt = Prompt(name=body.name)
    check_row(prompt)
    with transaction.atomic():
        prompt.save()
        actions.save_prompt(
            prompt=prompt, text=body.text, by=caller_name(request), note=body.note
        )
    return Status(201, prompt)


@prompts_router.get("/prompts/{reference}", response=PromptOut)
def read_prompt(request: HttpRequest, reference: PromptReference) -> Prompt:
    """One prompt, by number or name."""
    return _get_prompt(reference)


@prompts_router.get("/prompts/{reference}/versions", response=Page[VersionOut])
def list_versions(
    request: HttpRequest, reference: PromptReference, window: Query[Window]
) -> Rows:
    """All versions of a prompt, oldest first."""
    return build_page(
        PromptVersion.objects.filter(prompt=_get_prompt(reference)), window
    )


@prompts_router.post("/prompts/{reference}/versions", response={201: VersionOut})
def create_version(
    request: HttpRequest, reference: PromptReference, body: VersionIn
) -> Status[PromptVersion]:
    """Add a version; the next call of every Mysis with this prompt is sent it."""
    version = actions.save_prompt(
        prompt=_get_prompt(reference),
        text=body.text,
        by=caller_name(request),
        note=body.note,
    )
    return Status(201, version)


@prompts_router.post("/prompts/{reference}/rollback", response=VersionOut)
def rollback(
    request: HttpRequest, reference: PromptReference, body: RollbackIn
) -> PromptVersion:
    """Make an old version current again, as a new version."""
    return actions.rollback_prompt(
        prompt=_get_prompt(reference), number=body.number, by=caller_name(request)
    )


class ProviderOut(Schema):
    """An endpoint; ``window`` is null where the endpoint is asked for it."""

    name: str = Field(examples=["local"])
    kind: Kind = Field(examples=["ollama"])
    base_url: str = Field(examples=["http://127.0.0.1:11434"])
    default_model: str = Field(examples=["qwen3"])
    window: int | None = Field(examples=[32768])
    has_key: bool

    @staticmethod
    def resolve_base_url(row: Provider) -> str:
        return row.shown_address

    @staticmethod
    def resolve_has_key(row: Provider) -> bool:
        return bool(row.sealed_key)


class ProviderChange(Body):
    """What may change; an empty ``api_key`` removes the key."""

    model_config = build_example(window=32768, api_key="sk-...")

    name: Name | None = None
    kind: Kind | None = None
    base_url: Annotated[str, Field(max_length=500)] | None = None
    default_model: Annotated[str, Field(max_length=200)] | None = None
    window: Annotated[int, Field(ge=1, le=2**31 - 1), FROM_JSON] | None = None
    api_key: Annotated[str, Field(max_length=4000)] | None = None


class ProviderIn(ProviderChange):
    """A new endpoint."""

    model_config = build_example(
        name="local",
        kind="ollama",
        base_url="http://127.0.0.1:11434",
        default_model="qwen3",
    )

    name: Name
    kind: Kind


@providers_router.get("/providers", response=Page[ProviderOut])
def list_providers(request: HttpRequest, window: Query[Window]) -> Rows:
    """All configured endpoints, without those that the environment brings."""
    return build_page(Provider.objects.all(), window)


@providers_router.post("/providers", response={201: ProviderOut})
def create_provider(request: HttpRequest, body: ProviderIn) -> Status[Provider]:
    """Add an endpoint; it wins over one of that name in the environment."""
    return Status(201, _change_provider(Provider(), body))


@providers_router.get("/providers/{reference}", response=ProviderOut)
def read_provider(request: HttpRequest, reference: ProviderReference) -> Provider:
    """One endpoint, by name or number."""
    return get_row(Provider.objects.all(), reference, "provider")


@providers_router.patch("/providers/{reference}", response=ProviderOut)
def update_provider(
    request: HttpRequest, reference: ProviderReference, body: ProviderChange
) -> Provider:
    """Change what is given; a key that is left out stays where it was given for.

    With another kind, scheme, host or port it must be given again, or removed.
    """
    provider = get_row(Provider.objects.all(), reference, "provider")
    return _change_provider(provider, body)


@transaction.atomic
def _change_provider(provider: Provider, body: ProviderChange) -> Provider:
    """Apply the given fields and store; raises a 422 Problem."""
    values = read_changes(body, "window")
    before = find_key_destination(provider.kind, provider.base_url)
    for field, value in values.items():
        setattr(provider, field, value)
    check_row(provider)
    moved = find_key_destination(provider.kind, provider.base_url) != before
    if moved and provider.sealed_key and "api_key" not in values:
        raise make_invalid(
            "api_key",
            "the stored key was given for another address or kind; give the key "
            'again, or "" to remove it.',
        )
    return actions.save_provider(provider=provider)


class AccountOut(Schema):
    """A game account; ``assigned_to`` is the name of the Mysis that owns it."""

    id: int
    username: str = Field(examples=["VoidWanderer"])
    empire: str = Field(examples=["solarian"])
    player_id: str = Field(examples=["p_81"])
    assigned_to: RowName = Field(examples=["Ada"])
    created_at: datetime


@accounts_router.get("/accounts", response=Page[AccountOut])
def list_accounts(request: HttpRequest, window: Query[Window]) -> Rows:
    """All game accounts."""
    return build_page(Account.objects.select_related("assigned_to"), window)
