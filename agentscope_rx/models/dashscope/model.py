"""`DashScopeChatModel`: Qwen and others by DashScope's own wire format, as a `ChatModel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import get_args

from agentscope_rx.errors import BadRequestError, ModelError
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.checks import check_one_of
from agentscope_rx.models.dashscope.endpoint import PATHS, EndpointChoice, endpoint_of, kind_of, request_headers
from agentscope_rx.models.dashscope.formatter import format_turns, has_media, has_uploads
from agentscope_rx.models.dashscope.parser import DashScopeParser
from agentscope_rx.models.dashscope.request import DashScopeSettings, check_options, format_parameters
from agentscope_rx.models.http_model import WITH_NATIVE_OUTPUT, Exchange, HttpChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.transport import Transport
from agentscope_rx.models.wire.chat_turns import sendable_turns
from agentscope_rx.models.wire.endpoint import Endpoint
from agentscope_rx.models.wire.pieces import Envelope


class DashScopeChatModel(HttpChatModel):
    """A model of DashScope's native API. One object serves any number of event loops and calls.

    `api_key` and `base_url` come from DASHSCOPE_API_KEY and DASHSCOPE_BASE_URL when not given. The default is
    Beijing; for Singapore give https://dashscope-intl.aliyuncs.com/api/v1. `endpoint` is "text" or "multimodal"; "auto"
    decides by the model's name and the content of the messages: the look-up page "Providers" has the rules.

    `enable_thinking` defaults to the model's own default; a `thinking_budget` in the options turns it on. With
    `enable_thinking=True` the answer is streamed even if `stream=False`: the API requires it. `send_reasoning` sends
    earlier thinking back, for models with `preserve_thinking`. `enable_search` and `search_options` let the model
    search the web; the results are in the chunks' metadata as `search_info`. `native_output` is for the models
    that hold answers to a JSON schema in `response_format`.
    """

    provider = "dashscope"

    def __init__(
        self,
        model_name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        workspace: str | None = None,
        endpoint: EndpointChoice = "auto",
        stream: bool = True,
        enable_thinking: bool | None = None,
        enable_search: bool | None = None,
        search_options: Mapping[str, object] | None = None,
        send_reasoning: bool = False,
        native_output: bool = False,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, stream=stream, options=options, execution_config=execution_config, transport=transport
        )
        check_one_of("endpoint", endpoint, get_args(EndpointChoice), optional=False)
        check_one_of("enable_thinking", enable_thinking, (True, False))
        check_one_of("enable_search", enable_search, (True, False))
        self._settings = DashScopeSettings(enable_thinking, enable_search, search_options or EMPTY, send_reasoning)
        check_options(self.options, self._settings)
        self.endpoint: Endpoint = endpoint_of(base_url, api_key, workspace)
        self._kind: EndpointChoice = endpoint
        if native_output:
            self.output_modes = WITH_NATIVE_OUTPUT

    def wants_stream(self, options: GenerateOptions) -> bool:
        """True if the answer is streamed: always with `enable_thinking=True`."""
        return self._settings.enable_thinking is True or super().wants_stream(options)

    def advice(self, error: ModelError) -> str | None:
        """Advice on this error, which is appended to its message."""
        if isinstance(error, BadRequestError) and "url error" in str(error):
            return (
                "(This model has the other endpoint. Give endpoint='multimodal' or endpoint='text'; "
                f"this request had endpoint={self._kind!r}.)"
            )
        return None

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        """The request and the reader of its answer."""
        stream = self.wants_stream(options)
        turns = sendable_turns(messages)
        kind = kind_of(self.model_name, media=has_media(turns)) if self._kind == "auto" else self._kind
        parameters = format_parameters(tools, options, self._settings, stream=stream)
        wire = format_turns(turns, kind, reasoning=self._settings.reasoning)
        body = {"model": self.model_name, "input": Envelope(messages=wire), "parameters": parameters}
        headers = request_headers(stream=stream, uploads=has_uploads(turns))
        request = self.post(body, options, path=PATHS[kind], headers=headers)
        # without increments each event holds the whole answer so far
        incremental = not stream or parameters.get("incremental_output") is True
        return Exchange(request, partial(DashScopeParser, incremental=incremental), streams=stream)
