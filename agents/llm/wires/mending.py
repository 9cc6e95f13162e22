"""What servers that call themselves OpenAI-compatible do differently.

Some answer 200 with an error inside, some write a call's arguments as an object or
leave out its id. The first is a refusal like any other; of the second no call is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from openai.types.chat import ChatCompletion
from pydantic_ai.exceptions import ModelHTTPError

FAULT = 500
"""The status of an error that came with 200 and names none itself."""


def raise_hidden_error(response: ChatCompletion, model: str) -> None:
    """Raise ModelHTTPError for an error in the body of a good answer."""
    error = (response.model_extra or {}).get("error")
    for choice in response.choices or ():
        if getattr(choice, "finish_reason", None) == "error":
            error = error or (choice.model_extra or {}).get("error")
        elif getattr(choice, "message", None) is not None:
            return
    if error:
        raise ModelHTTPError(_status(error), model, {"error": error})


def _status(error: object) -> int:
    code = str(error.get("code")) if isinstance(error, Mapping) else ""
    number = int(code) if code.isascii() and code.isdecimal() else FAULT
    return number if 400 <= number < 600 else FAULT


def mend_calls(response: ChatCompletion) -> None:
    """Give every tool call the types that the format asks for."""
    for call in _calls(response):
        call.id = call.id if isinstance(call.id, str) else ""
        function = getattr(call, "function", None)
        if function is None:
            continue
        function.name = str(function.name or "")
        if function.arguments is None:
            function.arguments = ""
        elif not isinstance(function.arguments, str):
            function.arguments = json.dumps(function.arguments, ensure_ascii=False)


def _calls(response: ChatCompletion) -> Iterator[Any]:
    for choice in response.choices or ():
        message = getattr(choice, "message", None)
        yield from getattr(message, "tool_calls", None) or ()
