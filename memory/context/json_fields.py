"""Read the fields of a JSON object with strict types; each error names its key."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar, cast

from memory.context.text import clean_text

_Choice = TypeVar("_Choice", bound=str)
_LONGEST = 600


class DocumentError(ValueError):
    """A document of the wrong form; one printable line names the key and the remedy."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(clean_text(text)[:_LONGEST].split()))


def require_object(value: object, where: str) -> dict[str, Any]:
    """The value, if it is a JSON object."""
    if not isinstance(value, dict):
        raise DocumentError(f"{where}: must be an object, not {_name_type(value)}")
    return value


class JsonFields:
    """One object of a document; `known` are the keys that it may have."""

    def __init__(
        self, values: dict[str, Any], where: str, known: Collection[str]
    ) -> None:
        self.values = values
        self.where = where
        for key in values:
            if key not in known:
                names = ", ".join(sorted(known))
                raise DocumentError(f"{self.at(key)}: unknown key; known are {names}")

    def at(self, key: str) -> str:
        """The path of a key, for errors."""
        shown = key if key.strip() else f'"{key}"'
        return f"{self.where}.{shown}" if self.where else shown

    def optional_text(self, key: str) -> str | None:
        """A text, or None where it is missing or null."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a text or null")
        return value

    def required_text(self, key: str) -> str:
        """A text that must be there."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def text(self, key: str, default: str) -> str:
        """A text that is not empty, or the default where the key is missing."""
        if key not in self.values:
            return default
        value = self.required_text(key)
        if not value:
            raise self.wrong(key, "a text that is not empty")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty where it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(t, str) for t in value):
            raise self.wrong(key, "a list of texts")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where it is missing or null."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return bool(value)

    def optional_whole(self, key: str) -> int | None:
        """A whole number from 0, or None where it is missing or null."""
        return None if self.values.get(key) is None else self.required_whole(key)

    def required_whole(self, key: str) -> int:
        """A whole number from 0 that must be there."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(key, "a whole number from 0")
        return value

    def whole(self, key: str, default: int) -> int:
        """A whole number from 0, or the default where it is missing or null."""
        value = self.optional_whole(key)
        return default if value is None else value

    def choice(self, key: str, known: tuple[_Choice, ...], default: _Choice) -> _Choice:
        """One of a closed set, or the default where it is missing."""
        value = self.values.get(key, default)
        if value in known:
            return cast("_Choice", value)
        raise self.wrong(key, f"one of {', '.join(known)}")

    def mapping(self, key: str) -> dict[str, Any]:
        """An object with any keys; empty where it is missing or null."""
        value = self.values.get(key)
        return {} if value is None else require_object(value, self.at(key))

    def optional_object(self, key: str, known: Collection[str]) -> JsonFields | None:
        """An object with known keys, or None where it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return None
        return read_object(value, self.at(key), known)

    def wrong(self, key: str, wanted: str) -> DocumentError:
        """The error for a value of the wrong kind."""
        if key not in self.values:
            return DocumentError(f"{self.at(key)}: missing; it must be {wanted}")
        found = _name_type(self.values[key])
        return DocumentError(f"{self.at(key)}: must be {wanted}, not {found}")


def read_object(value: object, where: str, known: Collection[str]) -> JsonFields:
    """The fields of a value, if it is a JSON object with known keys only."""
    return JsonFields(require_object(value, where), where, known)


def _name_type(value: object) -> str:
    words = {
        type(None): "null",
        bool: "true or false",
        str: "a text",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return words.get(type(value), type(value).__name__)
