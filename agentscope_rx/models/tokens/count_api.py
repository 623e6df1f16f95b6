"""`asked_tokens`: the token count of a request by the vendor's own API, which Anthropic and Gemini have.

| provider              | endpoint                    | body                                                |
|-----------------------|-----------------------------|-----------------------------------------------------|
| Anthropic             | `/messages/count_tokens`    | the request, without the options of the answer      |
| Gemini, Developer API | `models/<name>:countTokens` | the request, as `generateContentRequest`            |
| others                | none                        | `ConfigurationError`: use a tokenizer or an estimate |

Each count is a request, so use it for measurements, not in each turn: `TruncatingModel` counts locally.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from agentscope_rx.errors import ConfigurationError, ProtocolError
from agentscope_rx.messages import Msg
from agentscope_rx.models.attempts import attempts
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.http_model import HttpChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.transport import HttpRequest
from agentscope_rx.models.wire.json_codec import JsonObject, decode_json, encode_json, integer
from agentscope_rx.models.wire.media import has_files, read_files
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    concat_map,
    on_worker,
)

# the fields of `anthropic.types.MessageCountTokensParams`
_ANTHROPIC = frozenset(("messages", "model", "output_config", "speed", "system", "thinking", "tool_choice", "tools"))


def asked_tokens(
    model: ChatModel,
    messages: Sequence[Msg],
    tools: Sequence[ToolSchema] = (),
    options: GenerateOptions | None = None,
) -> Flow[int]:
    """Ask the model's vendor for the number of input tokens; no answer is generated.

    Signals: one number; a `ModelError` after the model's own number of attempts; `ConfigurationError` for a model
    whose vendor has no such API.
    Cancels: the request, or the wait before the next one.
    """
    if not isinstance(model, HttpChatModel) or model.provider not in ("anthropic", "gemini"):
        raise ConfigurationError(
            f"The vendor of {model!r} has no API to count tokens. Use OpenAITokens, FileTokens or EstimatedTokens."
        )
    merged = replace((options or model.options).over(model.options), stream=False)

    def ask(read: Sequence[Msg]) -> Flow[int]:
        request = _counting(model, model.exchange(read, tools, merged).request)

        def number(answer: object) -> int:
            with model._transport.hiding(request):
                return _number(answer)

        return model._transport.request(request).pipe(concat_map(number))

    def attempt() -> Flow[int]:
        if has_files(messages):
            return on_worker(lambda: read_files(messages), ENGINE_WORKERS).pipe(concat_map(ask))
        return ask(messages)

    config = (merged.execution_config or ExecutionConfig()).over(model.execution_config)
    return attempts(attempt, config, model.model_name, model.provider)


def _counting(model: ChatModel, request: HttpRequest) -> HttpRequest:
    """The request for an answer, converted to the request for its token count."""
    parts = urlsplit(request.url)
    body = cast("JsonObject", decode_json(request.body.decode()))
    if model.provider == "anthropic":
        path = f"{parts.path}/count_tokens"
        body = {name: value for name, value in body.items() if name in _ANTHROPIC}
    else:
        path, _, _ = parts.path.rpartition(":")
        if "/publishers/" in path or "/projects/" in path:
            raise ConfigurationError(
                "Vertex AI counts tokens by another API; use the Developer API or EstimatedTokens."
            )
        name = path[path.rindex("/", 0, path.rindex("/")) + 1 :]
        path = f"{path}:countTokens"
        body = {"generateContentRequest": {"model": name, **body}}
    url = urlunsplit(parts._replace(path=path))
    return HttpRequest(url, encode_json(body).encode("utf-8", "replace"), request.headers)


def _number(answer: object) -> int:
    fields: JsonObject = cast("JsonObject", answer) if isinstance(answer, Mapping) else {}
    for name in ("input_tokens", "totalTokens"):
        if name in fields:
            return integer(fields, name)
    raise ProtocolError("The answer has no token count.", body=f"{cast('object', answer)!r:.500}")
