"""The request around the messages: tools and settings, and the answer's way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agents.llm.failures import as_model_error
from agents.llm.replies import completion_of
from agents.llm.types import Completion, Endpoint, Tool

_RENAMED = {"reasoning_effort": "openai_reasoning_effort"}


def parameters_of(tools: Sequence[Tool]) -> ModelRequestParameters:
    """The tools, with their schemas as they are: never strict, never deferred."""
    definitions = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.parameters,
            strict=False,
        )
        for tool in tools
    ]
    return ModelRequestParameters(function_tools=definitions)


def settings_of(settings: Mapping[str, Any]) -> ModelSettings:
    """Our settings under pydantic-ai's names. The runtime retries, not the client."""
    named = {_RENAMED.get(key, key): value for key, value in settings.items()}
    return cast(ModelSettings, {**named, "max_retries": 0})


async def ask(
    endpoint: Endpoint,
    model: Model[Any],
    messages: list[ModelMessage],
    tools: Sequence[Tool],
    settings: Mapping[str, Any],
) -> Completion:
    """Make the call through a pydantic-ai model; raises ModelError."""
    try:
        response = await model.request(
            messages, settings_of(settings), parameters_of(tools)
        )
        return completion_of(endpoint, response)
    except Exception as error:
        # A broken answer may fail anywhere in two libraries. Without its cause:
        # that one holds the request with its headers.
        raise as_model_error(endpoint, error) from None
