"""Refusals as real servers sent them: status, body, and what they mean.

Names of organisations and ids of requests are changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """One recorded answer; ``limit`` is the window that it names."""

    name: str
    status: int
    body: dict[str, Any]
    limit: int | None = None
    anthropic: bool = False

    def __str__(self) -> str:
        return self.name


def _openai(message: str, **more: Any) -> dict[str, Any]:
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, **more}}


def _vllm(message: str) -> dict[str, Any]:
    kind = "BadRequestError"
    return {
        "object": "error",
        "message": message,
        "type": kind,
        "param": None,
        "code": 400,
    }


def _litellm(message: str, **more: Any) -> dict[str, Any]:
    """As its proxy 1.110 answered, in front of a server that refused."""
    kind = "invalid_request_error"
    return {
        "error": {"message": message, "type": kind, "param": None, "code": "400"} | more
    }


def _anthropic(kind: str, message: str) -> dict[str, Any]:
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": "req_011"}


_RAW = (
    '{"type":"error","error":{"type":"invalid_request_error","message":'
    '"prompt is too long: 208310 tokens > 200000 maximum"}}'
)

OVERFLOWS = (
    Refusal(
        "openai",
        400,
        _openai(
            "This model's maximum context length is 128000 tokens. However, your "
            "messages resulted in 204308 tokens. Please reduce the length of the "
            "messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        128_000,
    ),
    Refusal(
        "openai-2023",
        400,
        _openai(
            "This model's maximum context length is 4097 tokens, however you requested "
            "4322 tokens (4066 in your prompt; 256 for the completion). Please reduce "
            "your prompt; or completion length.",
            code=None,
        ),
        4_097,
    ),
    Refusal(
        "openai-gpt-5",
        400,
        _openai(
            "Your input exceeds the context window of this model. Please adjust your "
            "input and try again.",
            param="input",
            code="context_length_exceeded",
        ),
    ),
    Refusal(
        "groq",
        400,
        _openai(
            "Please reduce the length of the messages or completion.",
            code="context_length_exceeded",
        ),
    ),
    Refusal(
        "vllm",
        400,
        _vllm(
            "This model's maximum context length is 16384 tokens. However, you "
            "requested 122946 tokens (112946 in the messages, 10000 in the completion). "
            "Please reduce the length of the messages or completion. None"
        ),
        16_384,
    ),
    Refusal(
        "vllm-output",
        400,
        _vllm(
            "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's "
            "maximum context length is 1000 tokens and your request has 203 input "
            "tokens (1000 > 1000 - 203). None"
        ),
        1_000,
    ),
    Refusal(
        "llama.cpp-2025",
        500,
        {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size. try "
                "increasing the context size or enable context shift",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 1407,
                "n_ctx": 256,
            }
        },
        256,
    ),
    Refusal(
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "request (131168 tokens) exceeds the available context size "
                "(131072 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 131168,
                "n_ctx": 131072,
            }
        },
        131_072,
    ),
    Refusal(
        "llama-cpp-python",
        400,
        _openai("Requested tokens (2285) exceed context window of 2048", code=None),
        2_048,
    ),
    Refusal("ollama", 400, {"error": "the input length exceeds the context length"}),
    Refusal(
        "ollama-chat",
        400,
        _openai("the input length exceeds the context length", code=None),
    ),
    Refusal(
        "openrouter",
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. "
                "However, you requested about 141607 tokens (10535 of text input, "
                "131072 in the output). Please reduce the length of either one, or use "
                'the "middle-out" transform to compress your prompt automatically.',
                "code": 400,
                "metadata": {"provider_name": "Chutes"},
            }
        },
        131_072,
    ),
    Refusal(
        "openrouter-passed-on",
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": _RAW, "provider_name": "Anthropic"},
            }
        },
        200_000,
    ),
    Refusal(
        "anthropic",
        400,
        _anthropic(
            "invalid_request_error",
            "prompt is too long: 208310 tokens > 200000 maximum",
        ),
        200_000,
        anthropic=True,
    ),
    Refusal(
        "anthropic-with-answer",
        400,
        _anthropic(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > "
            "200000, decrease input length or `max_tokens` and try again",
        ),
        200_000,
        anthropic=True,
    ),
    Refusal(
        "anthropic-bytes",
        413,
        _anthropic("request_too_large", "Request exceeds the maximum size"),
        anthropic=True,
    ),
    Refusal(
        "litellm",
        400,
        _litellm(
            "litellm.ContextWindowExceededError: litellm.BadRequestError: "
            "ContextWindowExceededError: OpenAIException - This model's maximum context "
            "length is 8192 tokens. However, your messages resulted in 20430 tokens. "
            "Please reduce the length of the messages.\nmodel=small. "
            "context_window_fallbacks=None. fallbacks=None.\n\nSet "
            "'context_window_fallback' - https://docs.litellm.ai/docs/routing#fallbacks"
            "\n\nLiteLLM: model group 'small' failed with the error above. No fallback "
            "was attempted."
        ),
        8_192,
    ),
    Refusal(
        "litellm-anthropic",
        400,
        _litellm(
            "litellm.ContextWindowExceededError: litellm.BadRequestError: "
            'AnthropicError - {"type": "error", "error": {"type": '
            '"invalid_request_error", "message": "prompt is too long: 208310 tokens > '
            '200000 maximum"}}\nmodel=claude. context_window_fallbacks=None. '
            "fallbacks=None."
        ),
        200_000,
    ),
    Refusal(
        "litellm-before-the-call",
        400,
        _litellm(
            "litellm.ContextWindowExceededError: litellm.BadRequestError: "
            "litellm._pre_call_checks: Context Window exceeded for given call. No models "
            "have context window large enough for this call."
        ),
    ),
    Refusal(
        "sglang",
        400,
        _vllm(
            "The input (61709 tokens) is longer than the model's context length (40960 "
            "tokens)."
        ),
        40_960,
    ),
    Refusal(
        "openai-configured",
        400,
        _openai(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages "
            "resulted in 300000 tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        272_000,
    ),
    Refusal(
        "lm-studio",
        400,
        {
            "error": "Trying to keep the first 9000 tokens when context the overflows. "
            "However, the model is loaded with context length of only 4096 tokens, which "
            "is not enough. Try to load the model with a larger context length, or "
            "provide a shorter input"
        },
        4_096,
    ),
)

MISSING = (
    Refusal(
        "openai",
        404,
        _openai(
            "The model `gpt-99` does not exist or you do not have access to it.",
            code="model_not_found",
        ),
    ),
    Refusal(
        "litellm",
        400,
        _litellm(
            "/chat/completions: Invalid model name passed in model=gpt-99. Call "
            "`/v1/models` to view available models for your key.",
            provider_specific_fields={
                "error": "/chat/completions: Invalid model name passed in model=gpt-99. "
                "Call `/v1/models` to view available models for your key."
            },
        ),
    ),
    Refusal(
        "litellm-behind-it",
        404,
        _litellm(
            "litellm.NotFoundError: NotFoundError: OpenAIException - The model `gpt-99` "
            "does not exist or you do not have access to it.\n\nLiteLLM: model group "
            "'gone' failed with the error above. No fallback was attempted.",
            code="404",
        ),
    ),
    Refusal(
        "vllm",
        404,
        {
            "object": "error",
            "message": "The model `gpt-99` does not exist.",
            "type": "NotFoundError",
            "param": None,
            "code": 404,
        },
    ),
    Refusal(
        "openrouter",
        400,
        {"error": {"message": "gpt-99 is not a valid model ID", "code": 400}},
    ),
    Refusal(
        "openrouter-without-endpoints",
        404,
        {"error": {"message": "No endpoints found for gpt/gpt-99.", "code": 404}},
    ),
    Refusal("ollama", 404, {"error": 'model "gpt-99" not found, try pulling it first'}),
    Refusal(
        "mistral",
        400,
        {
            "object": "error",
            "message": "Invalid model: gpt-99",
            "type": "invalid_model",
            "param": None,
            "code": "1500",
        },
    ),
    Refusal("deepseek", 400, _openai("Model Not Exist", code="invalid_request_error")),
    Refusal(
        "anthropic",
        404,
        _anthropic("not_found_error", "model: claude-99"),
        anthropic=True,
    ),
)

OTHERS = (
    Refusal(
        "openai-tokens-per-minute",
        429,
        _openai(
            "Request too large for gpt-4o in organization org-x on tokens per min "
            "(TPM): Limit 30000, Requested 36278. The input or output tokens must be "
            "reduced in order to run successfully. Visit "
            "https://platform.openai.com/account/rate-limits to learn more.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    Refusal(
        "groq-tokens-per-minute",
        413,
        _openai(
            "Request too large for model `llama-3.3-70b-versatile` in organization "
            "`org_x` service tier `on_demand` on tokens per minute (TPM): Limit 12000, "
            "Requested 13211, please reduce your message size and try again.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    Refusal(
        "openai-quota",
        429,
        _openai(
            "You exceeded your current quota, please check your plan and billing "
            "details.",
            code="insufficient_quota",
        ),
    ),
    Refusal(
        "openai-key",
        401,
        _openai("Incorrect API key provided: sk-test.", code="invalid_api_key"),
    ),
    Refusal(
        "openai-output",
        400,
        _openai(
            "max_tokens is too large: 100000. This model supports at most 16384 "
            "completion tokens, whereas you provided 100000.",
            param="max_tokens",
            code="invalid_value",
        ),
    ),
    Refusal(
        "openai-model",
        404,
        _openai("The model `gpt-99` does not exist.", code="model_not_found"),
    ),
    Refusal(
        "anthropic-tokens-per-minute",
        429,
        _anthropic(
            "rate_limit_error",
            "This request would exceed the rate limit for your organization of 20,000 "
            "input tokens per minute. For details, refer to: "
            "https://docs.anthropic.com/en/api/rate-limits. You can see the response "
            "headers for current usage. Please reduce the prompt length or the maximum "
            "tokens requested, or try again later.",
        ),
        anthropic=True,
    ),
    Refusal(
        "anthropic-overloaded",
        529,
        _anthropic("overloaded_error", "Overloaded"),
        anthropic=True,
    ),
    Refusal(
        "anthropic-key",
        401,
        _anthropic("authentication_error", "invalid x-api-key"),
        anthropic=True,
    ),
    Refusal(
        "ollama-tools",
        400,
        _openai(
            "registry.ollama.ai/library/gemma:2b does not support tools",
            type="api_error",
            code=None,
        ),
    ),
)
