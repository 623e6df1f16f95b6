"""`OpenAIResponsesModel`: OpenAI's Responses API, and servers that speak it, as a `ChatModel`.

messages, tools, options -- format_request --> Transport -- ResponseParser --> increments
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.checks import check_one_of
from agentscope_rx.models.http_model import WITH_NATIVE_OUTPUT, Exchange, HttpChatModel
from agentscope_rx.models.openai.endpoint import RESPONSES, endpoint_of
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.responses.parser import LAST_EVENT, ResponseParser
from agentscope_rx.models.openai.responses.request import ResponsesSettings, Summary, check_options, format_request
from agentscope_rx.models.openai.responses.request import reasons as reasons_by_name
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.transport import Transport
from agentscope_rx.models.wire.endpoint import Endpoint


class OpenAIResponsesModel(HttpChatModel):
    """A model of OpenAI's Responses API. One object serves any number of event loops and calls.

    `api_key`, `base_url` and `profile` are as for `OpenAIChatModel`; a profile gives address and key only.
    `summary` asks for readable thinking ("auto", "concise", "detailed"); without it only the encrypted form is used.
    `reasons` is True for a model that thinks; if not given, its name decides. `store=True` lets the server
    keep answers (for 30 days), which the engine does not need. With `native_output` a `response_format` holds answers
    to a JSON schema. Other fields of the API are sent by `additional_body_params`: `prompt_cache_key`, `truncation`,
    `service_tier`, `text={"verbosity": "low"}`, ...
    """

    provider = "openai"

    def __init__(
        self,
        model_name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        profile: Profile | str | None = None,
        stream: bool = True,
        summary: Summary | None = None,
        reasons: bool | None = None,
        store: bool = False,
        native_output: bool = True,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, stream=stream, options=options, execution_config=execution_config, transport=transport
        )
        check_options(self.options)
        endpoint, found = endpoint_of(base_url, api_key, profile=profile, model=model_name, path=RESPONSES)
        self.endpoint: Endpoint = endpoint
        self.provider: str = "openai" if found.name == "generic" else found.name
        check_one_of("summary", summary, get_args(Summary))
        self._settings = ResponsesSettings(reasons_by_name(model_name) if reasons is None else reasons, summary, store)
        if native_output:
            self.output_modes = WITH_NATIVE_OUTPUT

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        """The request and the reader of its answer."""
        wanted = self.wants_stream(options)
        body = format_request(self.model_name, messages, tools, options, stream=wanted, settings=self._settings)
        request = self.post(body, options)
        return Exchange(request, ResponseParser, streams=bool(body.get("stream")), until=LAST_EVENT)
