"""What an answer says in its calls, as a text that can be searched and shown.

Entries of a log, chat and orders are said in the arguments of calls, often beside an
empty content. The text holds them as they were meant: without the escapes of JSON,
which would glue letters to words, and without secrets (A11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.db import models

from .gamestate.parse import clean_text as storable
from .redaction import HIDDEN, clean_text

_ESCAPES = re.compile(r'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))+')


def calls_said(calls: Iterable[Mapping[str, Any]], secret: Collection[str] = ()) -> str:
    """A line for each call; those of ``secret`` tools without their arguments."""
    return "\n".join(_said(call["function"], secret) for call in calls)


def _said(function: Mapping[str, Any], secret: Collection[str]) -> str:
    name, arguments = function["name"], function["arguments"]
    if name in secret:
        return f"[called {name} with {HIDDEN}]"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    plain = _ESCAPES.sub(_meant, clean_text(arguments))
    return storable(f"[called {name} with {plain}]")


def _meant(escapes: re.Match[str]) -> str:
    """What escapes stand for; together, because some are halves of one character."""
    text: str = json.loads(f'"{escapes[0]}"')
    return text


class CallsText(models.TextField[str, str]):
    """Holds what a row's calls say, of whichever calls it is stored with."""

    def pre_save(self, model_instance: Any, add: bool) -> str:
        """The text of the calls that are stored now."""
        text = calls_said(model_instance.tool_calls)
        setattr(model_instance, self.attname, text)
        return text
