"""The template with which summaries are asked for: a prompt that authors edit.

It says what a summary is to hold. The rules of the answer (its tags, that the record
is data) are added by the context core, so that no edit can break them.
"""

from __future__ import annotations

from django.db import transaction

from memory.context.summary_prompt import SUMMARY_HEADINGS

from .models import Prompt, PromptVersion

SUMMARY_PROMPT_NAME = "summarization"


@transaction.atomic
def install() -> None:
    """Make the template with the built-in text where there is none."""
    prompt, made = Prompt.objects.get_or_create(name=SUMMARY_PROMPT_NAME)
    if made:
        PromptVersion.objects.create(
            prompt=prompt,
            number=1,
            text=SUMMARY_HEADINGS,
            author="system",
            note="installed",
        )
