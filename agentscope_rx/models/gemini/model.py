"""`GeminiChatModel`: Gemini, of the Developer API or Vertex AI, as a `ChatModel`.

messages, tools, options -- format_request --> Transport -- ContentParser --> increments
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.checks import check_objects
from agentscope_rx.models.gemini.endpoint import endpoint_of
from agentscope_rx.models.gemini.formatter import is_old
from agentscope_rx.models.gemini.parser import ContentParser
from agentscope_rx.models.gemini.request import GeminiSettings, check_options, format_request
from agentscope_rx.models.http_model import WITH_NATIVE_OUTPUT, Exchange, HttpChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.transport import Transport
from agentscope_rx.models.wire.endpoint import Endpoint
from agentscope_rx.reactive import Flow, concat_map, on_worker


class GeminiChatModel(HttpChatModel):
    """A model of Gemini's generateContent API. One object serves any number of event loops and calls.

    `api_key` comes from GEMINI_API_KEY or GOOGLE_API_KEY when not given. With `project` (and `location`, else
    GOOGLE_CLOUD_LOCATION or "global") requests go to Vertex AI, signed with `token`: a bearer, or a function that
    returns one and is called before each attempt, on a worker thread. `include_thoughts` shows the model's thinking; if
    not given, it is shown where the options ask for thinking. `safety_settings` and `server_tools` are sent as they
    are, such as {"category": ..., "threshold": ...} and {"googleSearch": {}}. With `native_output` a `response_format`
    holds answers to a JSON schema, with and without tools; if not given, that is the case from Gemini 3 on.
    """

    provider = "gemini"

    def __init__(
        self,
        model_name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        project: str | None = None,
        location: str | None = None,
        token: str | Callable[[], str] | None = None,
        stream: bool = True,
        include_thoughts: bool | None = None,
        safety_settings: Sequence[Mapping[str, object]] = (),
        server_tools: Sequence[Mapping[str, object]] = (),
        native_output: bool | None = None,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, stream=stream, options=options, execution_config=execution_config, transport=transport
        )
        check_options(self.options)
        self.endpoint: Endpoint = endpoint_of(model_name, base_url, api_key, project, location)
        if project is not None and not (token or self.endpoint.api_key) and base_url is None:
            raise ConfigurationError(
                "Vertex AI needs a token: pass token=..., best a function that returns a fresh one (google-auth)."
            )
        self._token = token
        self._settings = GeminiSettings(
            include_thoughts,
            check_objects("safety_settings", safety_settings),
            check_objects("server_tools", server_tools),
        )
        if not is_old(model_name) if native_output is None else native_output:
            self.output_modes = WITH_NATIVE_OUTPUT

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt: the token, if one is given, and one POST.

        Signals: as `ChatModel.do_stream`; the exception of the function for the token.
        Cancels: the wait for the token; the request or the reading of its answer.
        """
        token = self._token
        if token is None:
            return super().do_stream(messages, tools, options)
        if isinstance(token, str):
            return super().do_stream(messages, tools, _signed(options, token))
        ask = super().do_stream
        return on_worker(token).pipe(concat_map(lambda given: ask(messages, tools, _signed(options, given))))

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        """The request and the reader of its answer."""
        wanted = self.wants_stream(options)
        body = format_request(self.model_name, messages, tools, options, self._settings)
        path, query = (":streamGenerateContent", {"alt": "sse"}) if wanted else (":generateContent", {})
        request = self.post(body, options, path=path, query=query)
        return Exchange(request, ContentParser, streams=wanted)


def _signed(options: GenerateOptions, token: str) -> GenerateOptions:
    return replace(options, additional_headers={"authorization": f"Bearer {token}", **options.additional_headers})
