"""/prompts: system prompts with their versions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions
from agents.models import Prompt, PromptVersion
from memory.api.fields import FROM_JSON, Body, Name, Text, example
from memory.api.pages import Page, Rows, Window, page_of
from memory.api.policies import refusal

from . import lookup

router = Router(tags=["prompts"])

TEXT = "You fly a ship in the game SpaceMolt."
PromptReference = Annotated[
    str, Field(description="Number or name.", examples=["captain"])
]


class VersionOut(Schema):
    """One edit of a prompt."""

    id: int = Field(examples=[9])
    number: int = Field(examples=[3])
    text: str = Field(examples=[TEXT])
    author: str = Field(examples=["operator:grace"])
    note: str = Field(examples=["shorter"])
    created_at: datetime


class PromptOut(Schema):
    """A prompt with its current text."""

    id: int
    name: str = Field(examples=["captain"])
    version: int | None = Field(examples=[3])
    text: str = Field(examples=[TEXT])
    created_at: datetime

    @staticmethod
    def resolve_version(row: Prompt) -> int | None:
        """The number of the current version."""
        return row.current.number if row.current else None

    @staticmethod
    def resolve_text(row: Prompt) -> str:
        """The text that the next call is sent."""
        return row.current.text if row.current else ""


class VersionIn(Body):
    """A new version."""

    model_config = example(text="You trade, and never at a loss.", note="safer")

    text: Text
    note: Annotated[str, Field(max_length=300)] = ""


class PromptIn(VersionIn):
    """A new prompt with its first version."""

    model_config = example(name="trader", text="You trade.", note="first try")

    name: Name


class RollbackIn(Body):
    """Which version becomes current again."""

    model_config = example(number=1)

    number: Annotated[int, Field(ge=1, le=2**31 - 1), FROM_JSON]


def prompt_of(reference: str) -> Prompt:
    """The prompt of a name or number; raises a 404 Problem."""
    return lookup.get(Prompt.objects.all(), reference, "prompt")


@router.get("/prompts", response=Page[PromptOut])
def list_prompts(request: HttpRequest, window: Query[Window]) -> Rows:
    """All prompts."""
    return page_of(Prompt.objects.all(), window)


@router.post("/prompts", response={201: PromptOut})
def create_prompt(request: HttpRequest, body: PromptIn) -> Status[Prompt]:
    """Make a prompt."""
    return Status(201, make(body, lookup.by(request)))


@transaction.atomic
def make(body: PromptIn, by: str) -> Prompt:
    """Store a prompt with its first version; raises a 422 Problem."""
    prompt = Prompt(name=body.name)
    try:
        prompt.full_clean()
    except ValidationError as error:
        raise refusal(error) from error
    prompt.save()
    actions.save_prompt(prompt=prompt, text=body.text, by=by, note=body.note)
    return prompt


@router.get("/prompts/{reference}", response=PromptOut)
def read_prompt(request: HttpRequest, reference: PromptReference) -> Prompt:
    """One prompt, by number or name."""
    return prompt_of(reference)


@router.get("/prompts/{reference}/versions", response=Page[VersionOut])
def list_versions(
    request: HttpRequest, reference: PromptReference, window: Query[Window]
) -> Rows:
    """All versions of a prompt, oldest first."""
    return page_of(PromptVersion.objects.filter(prompt=prompt_of(reference)), window)


@router.post("/prompts/{reference}/versions", response={201: VersionOut})
def create_version(
    request: HttpRequest, reference: PromptReference, body: VersionIn
) -> Status[PromptVersion]:
    """Add a version; the next call of every Mysis with this prompt is sent it."""
    version = actions.save_prompt(
        prompt=prompt_of(reference),
        text=body.text,
        by=lookup.by(request),
        note=body.note,
    )
    return Status(201, version)


@router.post("/prompts/{reference}/rollback", response=VersionOut)
def rollback(
    request: HttpRequest, reference: PromptReference, body: RollbackIn
) -> PromptVersion:
    """Make an old version current again, as a new version."""
    return actions.rollback_prompt(
        prompt=prompt_of(reference), number=body.number, by=lookup.by(request)
    )
