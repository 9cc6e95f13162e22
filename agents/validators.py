"""What names and settings must be like, checked wherever they are saved."""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator

from memory.secret_patterns import has_login, has_query

NAME = RegexValidator(
    r"^(?!\d+$)[^\s/?#%\x00-\x1f][^/?#%\x00-\x1f]*$",
    "A name may not be a bare number, start with a space, or hold a control "
    "character, a slash, a question mark, a hash or a percent sign.",
)

# It travels in a header.
KEY = RegexValidator(
    r"^[\x21-\x7e]*$",
    "A key holds plain letters, digits and signs, and no space: copy it again.",
)

# Joiners shape letters in many scripts; the rest of their class only deceives.
JOINERS = "\u200c\u200d"
INVISIBLE = ("Cf", "Zl", "Zp")
NUMBERS = ("temperature", "top_p", "timeout", "max_tokens", "seed")


def check_visible(name: str) -> None:
    """Refuse characters that cannot be seen: two names could look alike."""
    for character in name:
        if character not in JOINERS and unicodedata.category(character) in INVISIBLE:
            raise ValidationError(
                "Take out the invisible character U+%(code)s.",
                params={"code": f"{ord(character):04X}"},
            )


def check_tag(tag: str) -> None:
    """Refuse a tag with spaces around it, a comma, or what cannot be seen."""
    if tag != tag.strip() or "," in tag or not tag.isprintable():
        raise ValidationError(
            "A tag is a word or some, without commas, line ends and spaces around it."
        )
    check_visible(tag)


def check_no_secret(address: str) -> None:
    """Refuse a login or a query in a web address: addresses are shown and logged."""
    try:
        refused = "the name and the password" if has_login(address) else ""
    except ValueError:
        return  # what is no address is refused as such
    if not refused and has_query(address):
        refused = "the part after ? or #"
    if refused:
        raise ValidationError(
            f"Take {refused} out of the address: it is shown in many places. A key has "
            "a field of its own."
        )


def check_model_settings(settings: object) -> None:
    """Refuse what no model call could use: it must be an object of known types."""
    if not isinstance(settings, dict):
        raise ValidationError('Give a JSON object, for example {"temperature": 0.2}.')
    for key in NUMBERS:
        value = settings.get(key)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float)
        ):
            raise ValidationError("%(key)s: give a number.", params={"key": key})
