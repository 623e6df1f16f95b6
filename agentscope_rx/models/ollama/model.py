"""`OllamaChatModel`: models that Ollama serves, by its own wire format, as a `ChatModel`."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import ModelConnectionError, ModelError, NotFoundError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.checks import check_one_of
from agentscope_rx.models.http_model import WITH_NATIVE_OUTPUT, Exchange, HttpChatModel
from agentscope_rx.models.ollama.endpoint import endpoint_of
from agentscope_rx.models.ollama.formatter import format_turns
from agentscope_rx.models.ollama.parser import OllamaParser
from agentscope_rx.models.ollama.request import OllamaSettings, Think, check_options, format_request
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.transport import Transport
from agentscope_rx.models.wire.chat_turns import sendable_turns
from agentscope_rx.models.wire.endpoint import Endpoint


class OllamaChatModel(HttpChatModel):
    """A model of an Ollama server. One object serves any number of event loops and calls.

    `base_url` has the form of OLLAMA_HOST, which is its default: `box`, `:5000`, `https://ollama.com`. Without both it
    is port 11434 of this machine.
    `api_key`, or OLLAMA_API_KEY, is for ollama.com. `think` turns thinking on or off, or sets its effort ("low",
    "medium", "high"), for models that can think; `keep_alive` is how long the model stays loaded ("10m", seconds, -1).

    Ollama's options (num_ctx, min_p, ...) go into `GenerateOptions.additional_body_params`. Set num_ctx: the server
    cuts a conversation that is longer than its default, and reports no error.

    `native_output=True` asks for structured output by `format`. The whole answer then fits the schema, so the model
    cannot call tools.
    """

    provider = "ollama"

    def __init__(
        self,
        model_name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        think: Think | None = None,
        keep_alive: float | str | None = None,
        native_output: bool = False,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, stream=stream, options=options, execution_config=execution_config, transport=transport
        )
        check_options(self.options)
        self.endpoint: Endpoint = endpoint_of(base_url, api_key)
        if not isinstance(think, str):
            check_one_of("think", think, (True, False, "low", "medium", "high"))
        self._settings = OllamaSettings(think, keep_alive)
        if native_output:
            self.output_modes = WITH_NATIVE_OUTPUT

    def advice(self, error: ModelError) -> str | None:
        """Advice on this error, which is appended to its message: `ollama pull`, `ollama serve`."""
        if isinstance(error, NotFoundError) and "model" in str(error):
            return f"(The server does not have this model. Get it with: ollama pull {self.model_name})"
        if isinstance(error, ModelConnectionError) and str(error).startswith("No connection"):
            return "(Is Ollama running there? Start it with: ollama serve)"
        return None

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        """The request and the reader of its answer."""
        wanted = self.wants_stream(options)
        wire = format_turns(sendable_turns(messages))
        body = format_request(self.model_name, wire, tools, options, self._settings, stream=wanted)
        request = self.post(body, options)
        return Exchange(request, OllamaParser, streams=body.get("stream", True) is not False, framing="ndjson")
