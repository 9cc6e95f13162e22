"""A Mysis named on a command line."""

from __future__ import annotations

from django.core.management import CommandError

from memory.owners import Owner, find_owner

BAD_INPUT = 2


def refuse(text: str) -> CommandError:
    """The error of input that cannot be used: one line, exit status 2."""
    return CommandError(" ".join(text.split()), returncode=BAD_INPUT)


def owner_named(reference: str) -> Owner:
    """The Mysis of a number or a name; raises CommandError with status 2."""
    found = find_owner(reference)
    if found is None:
        raise refuse(
            f"There is no Mysis {reference[:100]!r}: name one by its number or name."
        )
    return found
