"""`OpenAIChatModel`: OpenAI, and every server that speaks Chat Completions, as a `ChatModel`.

messages, tools, options -- format_request --> Transport -- AnswerReader --> increments
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.message.msg import Msg
from agentscope_rx.model.http_model import Exchange, HttpChatModel
from agentscope_rx.model.openai.endpoint import Endpoint
from agentscope_rx.model.openai.formatter import Dialect
from agentscope_rx.model.openai.reader import DONE, AnswerReader
from agentscope_rx.model.openai.request import check_options, format_request
from agentscope_rx.model.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.model.transport import HttpRequest, Transport
from agentscope_rx.model.wire import encode_json


class OpenAIChatModel(HttpChatModel):
    """A model behind Chat Completions. One object works in any number of event loops, and for any number of calls.

    `api_key` and `base_url` come from OPENAI_API_KEY and OPENAI_BASE_URL when not given; see `Endpoint.of` for what
    is made of a base URL. Only OpenAI itself must have a key. `stream=False` asks for the answer in one piece.
    `send_reasoning` gives earlier thinking back to servers that want it (DeepSeek, OpenRouter); OpenAI refuses it.
    `native_output` says whether `response_format` holds answers to a JSON schema; unless given, only OpenAI itself is
    taken to do so. `transport` brings one's own proxy or certificates: `Transport(HttpConfig(proxy=...))`.
    """

    provider = "openai"

    def __init__(
        self,
        model_name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        stream: bool = True,
        send_reasoning: bool = False,
        native_output: bool | None = None,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, stream=stream, options=options, execution_config=execution_config, transport=transport
        )
        check_options(self.options)
        self.endpoint = Endpoint.of(base_url, api_key)
        if self.endpoint.official if native_output is None else native_output:
            self.output_modes = frozenset(("native", "tool", "prompted"))
        self._dialect = Dialect(official=self.endpoint.official, reasoning=send_reasoning)

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        wanted = self.wants_stream(options)
        body = format_request(self.model_name, messages, tools, options, stream=wanted, dialect=self._dialect)
        request = HttpRequest(
            self.endpoint.url_with(options.additional_query_params),
            encode_json(body).encode("utf-8", "replace"),
            self.endpoint.headers_with(options.additional_headers),
        )
        return Exchange(request, AnswerReader, streams=bool(body.get("stream")), until=DONE)
