"""The names of the OpenTelemetry semantic conventions that spans and metrics use, by one version.

The `gen_ai` names are in development: each version may change them. In version 1.44.0 they are as they were when they
moved to a repository of their own (semantic-conventions-genai), which has no release yet. The names are written here,
and not imported: the package of names drops those that are deprecated. A test compares them.

Names that begin with `agentscope.` are this library's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from agentscope_rx.errors import ModelHTTPError
from agentscope_rx.messages.redaction import redact_secrets

SEMCONV_VERSION: Final = "1.44.0"
"""The version of the semantic conventions."""
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{SEMCONV_VERSION}"
"""The schema of the spans and metrics."""
SCOPE: Final = "agentscope_rx"
"""The name of the instrumentation."""

# --- operations and who takes part ----------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"

# --- model calls --------------------------------------------------------------------------------------------------

REQUEST_MODEL: Final = "gen_ai.request.model"
TEMPERATURE: Final = "gen_ai.request.temperature"
TOP_P: Final = "gen_ai.request.top_p"
TOP_K: Final = "gen_ai.request.top_k"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
SEED: Final = "gen_ai.request.seed"
STOP: Final = "gen_ai.request.stop_sequences"
STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# --- tool calls ---------------------------------------------------------------------------------------------------

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_TYPE: Final = "gen_ai.tool.type"

# --- errors -------------------------------------------------------------------------------------------------------

ERROR_TYPE: Final = "error.type"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

# --- other conventions ----------------------------------------------------------------------------------------------

SPAN_KIND: Final = "openinference.span.kind"
"""Of OpenInference: what Phoenix and Langfuse show a span as. For spans that the GenAI conventions have no name for."""
CHAIN: Final = "CHAIN"

# --- this library's -----------------------------------------------------------------------------------------------

RUN_ID: Final = "agentscope.run.id"
REASON: Final = "agentscope.generate_reason"
PENDING: Final = "agentscope.pending_calls"
RESUMES: Final = "agentscope.resumes_run_id"
QUEUED: Final = "agentscope.queued"
ITERATION: Final = "agentscope.iteration"
STAGE: Final = "agentscope.stage"
ATTEMPT: Final = "agentscope.attempt"
ATTEMPTS: Final = "agentscope.model_attempts"
TOOL_CALLS: Final = "agentscope.tool_calls"
RESULT: Final = "agentscope.tool.result"
CANCELLED: Final = "agentscope.cancelled"

MOST_CHARS: Final = 1_024
"""The most characters of a name or a description."""

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}


def provider_name(provider: str) -> str:
    """The provider's name in the conventions, or its own if they have none."""
    return _PROVIDERS.get(provider, provider)


@lru_cache(1024)
def shown(text: str) -> str:
    """A name or a description as it is exported: without secrets, and cut. A model can make up the name of a tool."""
    return redact_secrets(text[: 4 * MOST_CHARS])[:MOST_CHARS]


def error_type(error: BaseException) -> str:
    """The value of `error.type`: the HTTP status of a provider's answer, `timeout`, or the name of the class."""
    if isinstance(error, ModelHTTPError):
        return str(error.status)
    if isinstance(error, TimeoutError):
        return "timeout"
    return class_name(error)


def class_name(error: BaseException) -> str:
    """The name of the error's class, with its module unless it is a builtin one."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
