"""`AnthropicChatModel`: Claude, and servers that speak Anthropic's Messages, as a `ChatModel`.

messages, tools, options -- format_request --> Transport -- MessageParser --> increments
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.anthropic.endpoint import ANTHROPIC_DOMAIN, endpoint_of
from agentscope_rx.models.anthropic.parser import LAST_EVENT, MessageParser
from agentscope_rx.models.anthropic.request import (
    MAX_TOKENS,
    AnthropicSettings,
    Cache,
    check_options,
    format_request,
    version_for,
)
from agentscope_rx.models.checks import check_objects, check_one_of
from agentscope_rx.models.http_model import WITH_NATIVE_OUTPUT, Exchange, HttpChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.transport import Transport
from agentscope_rx.models.wire.endpoint import Endpoint

_WITHOUT_NATIVE = (
    "claude-2", "claude-3", "claude-instant", "claude-opus-4-0", "claude-opus-4-2025", "claude-sonnet-4-0",
    "claude-sonnet-4-2025",
)  # fmt: skip
"""Models from before structured output."""


class AnthropicChatModel(HttpChatModel):
    """A model of Anthropic's Messages API. One object serves any number of event loops and calls.

    `api_key` (or `auth_token`, a bearer) and `base_url` come from ANTHROPIC_API_KEY (ANTHROPIC_AUTH_TOKEN) and
    ANTHROPIC_BASE_URL when not given. `max_tokens` limits an answer unless the options do: the API requires a limit.
    `thinking` is sent unchanged, such as {"type": "adaptive", "display": "summarized"}; a `thinking_budget` wins.
    `cache` marks tools, system and the end of the conversation for the prompt cache ("auto": five minutes); a message's
    metadata {"cache_control": True} marks its own end. `server_tools` run at Anthropic, such as {"type":
    "web_search_20250305", "name": "web_search"}. `version` is the API's; if not given, the newest that has all options
    of the request. With `native_output` a `response_format` holds answers to a JSON schema; if not given, that is the
    case for Anthropic's own models but the old ones.
    """

    provider = "anthropic"

    def __init__(
        self,
        model_name: str,
        *,
        api_key: str | None = None,
        auth_token: str | None = None,
        base_url: str | None = None,
        stream: bool = True,
        max_tokens: int = MAX_TOKENS,
        thinking: Mapping[str, object] | None = None,
        cache: Cache | None = None,
        server_tools: Sequence[Mapping[str, object]] = (),
        betas: Sequence[str] = (),
        version: str | None = None,
        native_output: bool | None = None,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, stream=stream, options=options, execution_config=execution_config, transport=transport
        )
        self.endpoint: Endpoint = endpoint_of(base_url, api_key, auth_token, betas)
        official = self.endpoint.is_at(ANTHROPIC_DOMAIN)
        check_one_of("cache", cache, get_args(Cache))
        self._settings = AnthropicSettings(
            max_tokens,
            thinking,
            cache,
            check_objects("server_tools", server_tools),
            tuple(betas),
            version,
            official=official,
        )
        check_options(self.options, self._settings)
        native = official and not model_name.startswith(_WITHOUT_NATIVE) if native_output is None else native_output
        if native:
            self.output_modes = WITH_NATIVE_OUTPUT

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        """The request and the reader of its answer."""
        wanted = self.wants_stream(options)
        settings = self._settings
        body = format_request(self.model_name, messages, tools, options, settings, stream=wanted)
        request = self.post(body, options, headers={"anthropic-version": version_for(options, settings)})
        return Exchange(request, MessageParser, streams=bool(body.get("stream")), until=LAST_EVENT)
