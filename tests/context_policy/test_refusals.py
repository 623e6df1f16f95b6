"""Refusals of requests that are too long, as providers word them: typed, and with the sizes that they name."""

from __future__ import annotations

import json

import pytest

from agentscope_rx.context_policy.sizes import refused
from agentscope_rx.errors import ContextOverflowError, ModelHTTPError, RateLimitError
from agentscope_rx.models.transport.status import answered_error, http_error

# status, message, limit of the request, tokens of the request
REFUSALS: list[tuple[int, str, int | None, int | None]] = [
    # OpenAI, also for a request above the tokens of a minute; Groq
    (400, "Your input exceeds the context window of this model. Please adjust your input.", None, None),
    (429, "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 50000. "
     "The input or output tokens must be reduced in order to run successfully.", 30000, None),
    (413, "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Requested 12000, "
     "please reduce your message size and try again.", 6000, None),
    # Anthropic
    (400, "prompt is too long: 210000 tokens > 200000 maximum", 200000, 210000),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or "
     "`max_tokens` and try again", 180000, 190000),
    (413, "Request exceeds the maximum size", None, None),
    # Gemini, Vertex AI
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1048576, 1200000),
    (400, "Unable to submit request because the input token count is 1300000 but model only supports up to 1048576.",
     1048576, 1300000),
    (400, "Request payload size exceeds the limit: 20971520 bytes.", None, None),
    # Model Studio, Mistral, DeepSeek
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", 129024, None),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
     32768, 40000),
    (400, "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the "
     "messages, 4000 in the completion).", 61536, 66000),
    # vLLM, SGLang
    (400, "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum context length is 4096 "
     "tokens and your request has 3500 input tokens (1000 > 4096 - 3500).", 3096, 3500),
    (400, "You passed 5000 input tokens and requested 1000 output tokens. However, the model's context length is only "
     "4096 tokens, resulting in a maximum input length of 3096 tokens.", 3096, 5000),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096, 5000),
    (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4096, 5000),
    (400, "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
     "5000 tokens: 4000 tokens from the input messages and 1000 tokens for the completion.", 3096, 4000),
    # Text Generation Inference
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and "
     "20 `max_new_tokens`", 4076, 5000),
    (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000", 4095, None),
    # llama.cpp, Ollama, LM Studio
    (400, "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096, 5000),
    (500, "the request exceeds the available context size. try increasing the context size", None, None),
    (500, "Context size has been exceeded.", None, None),
    (500, "input length exceeds maximum context length", None, None),
    (400, "the input length exceeds the context length", None, None),
    (400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
     "length of only 4096 tokens, which is not enough.", 4096, None),
    # OpenRouter, Copilot, Cerebras, Fireworks, xAI, SiliconFlow
    (400, "This endpoint's maximum context length is 128000 tokens. However, you requested about 150000 tokens (140000 "
     "of text input, 10000 in the output).", 118000, 140000),
    (400, "prompt token count of 150000 exceeds the limit of 128000 (model_max_prompt_tokens_exceeded)",
     128000, 150000),
    (400, "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
     8192, 9000),
    (400, "The prompt is too long: 140000, model maximum context length: 131071", 131071, 140000),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072, 537812),
    (400, "length of prompt_tokens (40000) must be less than max_seq_len (32768).", 32768, 40000),
    # Moonshot, Z.ai, Volcano Engine, MiniMax
    (400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", 262144, 300000),
    (400, "Prompt exceeds max length", None, None),
    (400, "Prompt 超长", None, None),
    (400, "Total tokens of image and text exceed max message tokens.", None, None),
    (400, "invalid params, context window exceeds limit (2013)", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "text", "limit", "tokens"), REFUSALS)
def test_a_refusal_is_typed_and_names_its_sizes(status: int, text: str, limit: int | None, tokens: int | None) -> None:
    error = http_error(status, json.dumps({"error": {"message": text}}))
    assert type(error) is ContextOverflowError and error.status == status and not error.retryable
    assert refused(error) == (limit, tokens)


@pytest.mark.parametrize(("status", "text"), [each[:2] for each in REFUSALS if each[0] != 413])
def test_a_refusal_in_a_stream_is_typed(status: int, text: str) -> None:
    error = answered_error({"error": {"message": text, "code": status}})
    assert type(error) is ContextOverflowError and not error.retryable


def test_a_refusal_behind_a_gateway_is_typed() -> None:
    upstream = {"type": "error", "error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}
    about = {"raw": json.dumps(upstream), "provider_name": "Anthropic"}
    error = http_error(400, json.dumps({"error": {"message": "Provider returned error", "metadata": about}}))
    assert type(error) is ContextOverflowError and refused(error) == (200000, 210000)


def test_an_answer_as_long_as_the_window_names_no_limit() -> None:
    """A request of no tokens is none: this would be learned as the limit of the model."""
    text = "maximum context length is 4096 tokens and your request has 500 input tokens (4096 > 4096 - 500)."
    assert refused(http_error(400, json.dumps({"error": {"message": text}}))) == (None, 500)


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
         RateLimitError),
        (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens", ModelHTTPError),
        (500, "The server had an error while processing your request", ModelHTTPError),
    ],
)  # fmt: skip
def test_other_refusals_are_not_taken_for_it(status: int, text: str, kind: type[ModelHTTPError]) -> None:
    error = http_error(status, json.dumps({"error": {"message": text}}))
    assert isinstance(error, kind) and not isinstance(error, ContextOverflowError)
