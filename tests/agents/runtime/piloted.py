"""Strict providers whose model is the scripted pilot: its calls pass the wire's checks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from agents.llm.model_types import Completion, CompletionRequest, Endpoint, OfferedTool
from agents.llm.wires import pilot
from tests.fakes import anthropic, openai

Json = dict[str, Any]
ENDPOINT = Endpoint("pilot", "pilot", "pilot", 200_000)


def ask_pilot(messages: list[Json], tools: list[Json], key: str) -> Completion:
    """Its answer to the messages of OpenAI's form; ``key`` holds a tool's schema."""
    offered = [
        OfferedTool(tool["name"], tool.get("description", ""), tool[key])
        for tool in tools
    ]
    request = CompletionRequest(ENDPOINT, messages, tools=offered)
    return asyncio.run(pilot.send(request))


class PilotedOpenAI(openai.FakeProvider):
    """The pilot behind OpenAI's format."""

    def reply(self, body: Json) -> openai.Reply:
        tools = [tool["function"] for tool in body["tools"]]
        answer = ask_pilot(body["messages"], tools, "parameters")
        calls = [openai.call(c.name, c.arguments, c.id) for c in answer.tool_calls]
        more = {"tool_calls": calls} if calls else {}
        return openai.Reply(body=openai.completion(answer.text or None, **more))


class PilotedAnthropic(anthropic.FakeAnthropic):
    """The pilot behind Anthropic's format."""

    def reply(self, body: Json) -> anthropic.Answer:
        messages = [{"role": "system", "content": body.get("system", "")}]
        for message in body["messages"]:
            messages += _split_message(message)
        answer = ask_pilot(messages, body["tools"], "input_schema")
        said = [{"type": "text", "text": answer.text}] if answer.text else []
        calls = [
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": json.loads(call.arguments),
            }
            for call in answer.tool_calls
        ]
        stop = "tool_use" if calls else "end_turn"
        return 200, anthropic.message(*said, *calls, stop=stop), {}


def _split_message(message: Json) -> Iterator[Json]:
    """A message of blocks as those of OpenAI's form."""
    content = message["content"]
    blocks = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    texts = [block for block in blocks if block["type"] == "text"]
    calls = [
        openai.call(block["name"], json.dumps(block["input"]), block["id"])
        for block in blocks
        if block["type"] == "tool_use"
    ]
    for block in blocks:
        if block["type"] == "tool_result":
            result = {"role": "tool", "tool_call_id": block["tool_use_id"]}
            yield {**result, "content": block.get("content", "")}
    # The end of a turn and the calls of the next one stand in one message.
    yield from ({"role": message["role"], "content": [text]} for text in texts)
    if calls:
        yield {"role": "assistant", "content": None, "tool_calls": calls}
