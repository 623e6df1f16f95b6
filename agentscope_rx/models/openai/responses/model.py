"""`OpenAIResponsesModel`: OpenAI's Responses API, and servers that speak it, as a `ChatModel`.

messages, tools, options -- format_request --> Transport -- ResponseParser --> increments
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.checks import check_one_of
from agentscope_rx.models.http_model import Exchange, HttpChatModel
from agentscope_rx.models.openai.endpoint import RESPONSES, Endpoint
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.responses.parser import LAST_EVENT, ResponseParser
from agentscope_rx.models.openai.responses.request import Settings, Summary, check_options, format_request
from agentscope_rx.models.openai.responses.request import reasons as reasons_by_name
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.json_codec import encode_json


class OpenAIResponsesModel(HttpChatModel):
    """A model behind the Responses API. One object works in any number of event loops, and for any number of calls.

    `api_key`, `base_url` and `profile` are those of `OpenAIChatModel`; of the profile only address and key count.
    `summary` asks for the thinking in words ("auto", "concise", "detailed"); without it only its encrypted form comes,
    and goes back. `reasons` says whether the model is one that thinks; unless given, its name tells. `store=True` lets
    the server keep answers (for 30 days), which nothing here needs. `native_output` says whether `response_format`
    holds answers to a JSON schema. What the API has besides goes by `additional_body_params`: `prompt_cache_key`,
    `truncation`, `service_tier`, `text={"verbosity": "low"}`, ...
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
        self.endpoint = Endpoint.of(base_url, api_key, profile=profile, model=model_name, path=RESPONSES)
        self.provider = "openai" if self.endpoint.profile.name == "generic" else self.endpoint.profile.name
        check_one_of("summary", summary, get_args(Summary))
        self._settings = Settings(reasons_by_name(model_name) if reasons is None else reasons, summary, store)
        if native_output:
            self.output_modes = frozenset(("native", "tool", "prompted"))

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        wanted = self.wants_stream(options)
        body = format_request(self.model_name, messages, tools, options, stream=wanted, settings=self._settings)
        request = HttpRequest(
            self.endpoint.url_with(options.additional_query_params),
            encode_json(body).encode("utf-8", "replace"),
            self.endpoint.headers_with(options.additional_headers),
        )
        return Exchange(request, ResponseParser, streams=bool(body.get("stream")), until=LAST_EVENT)
