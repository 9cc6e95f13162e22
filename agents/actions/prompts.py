"""Prompts and their versions."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Max

from agents import events, summarizing
from agents.events import Kind
from agents.llm.prompts import DEFAULT_PROMPT
from agents.models import Prompt, PromptVersion

from .errors import ActionError, clean_text

DEFAULT_PROMPT_NAME = "captain"


@transaction.atomic
def save_prompt(*, prompt: Prompt, text: str, by: str, note: str = "") -> PromptVersion:
    """Add a version; views use it from the next call on (A10)."""
    Prompt.objects.select_for_update().get(pk=prompt.pk)
    newest = prompt.versions.aggregate(n=Max("number"))["n"] or 0
    version = PromptVersion.objects.create(
        prompt=prompt,
        number=newest + 1,
        text=clean_text(text, "The prompt"),
        author=by,
        note=note.replace("\x00", "")[:300],
    )
    events.append(
        Kind.PROMPT_CHANGED, data={"prompt": prompt.name, "version": version.number}
    )
    return version


def rollback_prompt(*, prompt: Prompt, number: int, by: str) -> PromptVersion:
    """Make an old version current again, as a new version."""
    old = prompt.versions.filter(number=number).first()
    if old is None:
        raise ActionError(
            f"{prompt.name} has no version {number}.", code="not_found", status=404
        )
    return save_prompt(
        prompt=prompt, text=old.text, by=by, note=f"rolled back to version {number}"
    )


@transaction.atomic
def default_prompt() -> Prompt:
    """The prompt of a Mysis that names none; made when it is first needed.

    With it comes the template for summaries, so that an author finds it to edit.
    """
    summarizing.install()
    prompt, made = Prompt.objects.get_or_create(name=DEFAULT_PROMPT_NAME)
    if made:
        save_prompt(prompt=prompt, text=DEFAULT_PROMPT, by="system", note="installed")
    return prompt
