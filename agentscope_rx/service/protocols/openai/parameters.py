"""The parameters of OpenAI's requests: which the endpoint uses, leaves to the agent, and refuses.

The sampling of an agent's model is the agent's own, so its parameters are accepted and have no effect: clients send
them with every request. What would change the shape of the answer is refused, by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from agentscope_rx.agent import StructuredOutput
from agentscope_rx.errors import AgentScopeError, ConfigurationError, InvalidInputError
from agentscope_rx.service.bodies import read_json, validated
from agentscope_rx.service.protocols.openai.failures import UnsupportedParameterError
from agentscope_rx.tools import ClientTools

JsonObject = dict[str, object]
P = TypeVar("P", bound="Parameters")
ListOfObjects = Annotated[list[JsonObject], Field(max_length=10_000)]

_LEFT_TO_THE_AGENT = frozenset({
    "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "max_tokens", "max_completion_tokens",
    "max_output_tokens", "reasoning_effort", "reasoning", "verbosity", "user", "metadata", "service_tier",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "parallel_tool_calls",
    "logit_bias", "stop", "include", "truncation", "max_tool_calls",
})  # fmt: skip

_NOT_HERE = {
    "n": "an agent gives one answer to a request. Leave it out, or send 1.",
    "logprobs": "an agent has no log probabilities.",
    "top_logprobs": "an agent has no log probabilities.",
    "functions": "it is an older form. Send 'tools'.",
    "function_call": "it is an older form. Send 'tool_choice'.",
    "modalities": "answers are text.",
    "audio": "answers are text.",
    "prediction": "an agent does not take a predicted answer.",
    "web_search_options": "the tools of the agent are its own.",
    "moderation": "an agent's checks are its own.",
    "conversation": "send 'previous_response_id'.",
    "prompt": "stored prompts are not here. Send 'instructions'.",
    "background": "a response is made while its request is open.",
    "context_management": "the context of an agent is its own.",
}
_HARMLESS: Mapping[str, tuple[object, ...]] = {
    "n": (1,), "logprobs": (False,), "modalities": (["text"],), "background": (False,), "top_logprobs": (0,),
}  # fmt: skip


async def read_parameters(request: Request, kind: type[P]) -> P:
    """The body of a request, without what is left to the agent; `UnsupportedParameterError` for what is not here."""
    given = await read_json(request)
    if isinstance(given, dict):
        body = cast("JsonObject", given)
        for name, why in _NOT_HERE.items():
            if body.get(name) is not None and body[name] not in _HARMLESS.get(name, ()):
                raise UnsupportedParameterError(name, why)
        given = {k: v for k, v in body.items() if k not in _LEFT_TO_THE_AGENT and k not in _NOT_HERE}
    return validated(given, kind)


class Parameters(BaseModel):
    """What both kinds of requests have."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    model: str
    stream: bool = False
    store: bool | None = None
    tools: ListOfObjects | None = None
    tool_choice: str | JsonObject | None = None

    def client_tools(self) -> ClientTools | None:
        """The tools of the client, unless it wants no call of them."""
        if self.tool_choice not in (None, "auto", "none"):
            raise UnsupportedParameterError("tool_choice", "the agent decides about calls. Send 'auto' or 'none'.")
        for place, each in enumerate(self.tools or ()):
            if each.get("type") != "function":
                raise UnsupportedParameterError(f"tools[{place}].type", "tools of a client are functions.")
        if not self.tools or self.tool_choice == "none":
            return None
        try:
            return ClientTools(*self.tools)
        except ConfigurationError as error:
            raise InvalidInputError(f"tools has one that cannot be offered to a model: {error}") from error


def output_of(format: Mapping[str, object] | None, param: str) -> StructuredOutput | None:
    """The output that a `response_format` or a `text.format` asks for.

    `{"type": "json_schema", "json_schema": {"name", "schema"}}`, or the same flat in Responses.
    """
    kind = None if format is None else format.get("type")
    if format is None or kind == "text":
        return None
    if kind == "json_object":
        return StructuredOutput({"type": "object"})
    if kind != "json_schema":
        raise UnsupportedParameterError(param, "send the type 'text', 'json_object' or 'json_schema'.")
    inner = format.get("json_schema", format)
    schema = cast("Mapping[str, object]", inner).get("schema") if isinstance(inner, Mapping) else None
    if not isinstance(schema, Mapping):
        raise InvalidInputError(f"{param} must have a 'schema', a JSON schema.")
    try:
        return StructuredOutput(cast("Mapping[str, object]", schema))
    except AgentScopeError as error:
        raise InvalidInputError(f"{param} has a schema that cannot be used: {error}") from error
