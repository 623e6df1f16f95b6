"""`OpenAIChatModel`: OpenAI, and every server that speaks Chat Completions, as a `ChatModel`.

messages, tools, options -- format_request --> Transport -- ChunkParser --> increments
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from agentscope_rx.errors import ModelError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.http_model import WITH_NATIVE_OUTPUT, Exchange, HttpChatModel
from agentscope_rx.models.openai.endpoint import endpoint_of
from agentscope_rx.models.openai.parser import ChunkParser
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.refused_call import refused_call
from agentscope_rx.models.openai.request import format_request, special_fields
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.transport import Transport
from agentscope_rx.models.wire.answers import DONE
from agentscope_rx.models.wire.endpoint import Endpoint


class OpenAIChatModel(HttpChatModel):
    """A model of the Chat Completions API. One object serves any number of event loops and calls.

    `profile` is the name of a known server's profile ("deepseek", "groq", ...: see `get_model`) or a `Profile` of
    `agentscope_rx.models.openai.profile`; if not given, it is guessed from the host of `base_url`, and an unknown
    server is "generic". `base_url` and `api_key` default to the profile's address and environment variable; with
    OpenAI, and with a server that has no profile, to OPENAI_BASE_URL and OPENAI_API_KEY. Requests go to `base_url` +
    `/chat/completions`; no version is added. `stream=False` asks for the answer in one piece. `send_reasoning` (earlier
    thinking goes back) and `native_output` (`response_format` holds answers to a JSON schema) override the profile.
    `transport` sets a proxy or certificates: `Transport(HttpConfig(proxy=...))`.
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
        send_reasoning: bool | None = None,
        native_output: bool | None = None,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, stream=stream, options=options, execution_config=execution_config, transport=transport
        )
        endpoint, found = endpoint_of(base_url, api_key, profile=profile, model=model_name)
        self.endpoint: Endpoint = endpoint
        self.profile: Profile = overridden(found, send_reasoning, native_output)
        special_fields(self.options, self.profile)
        self.provider: str = "openai" if self.profile.name == "generic" else self.profile.name
        if self.profile.native_output:
            self.output_modes = WITH_NATIVE_OUTPUT

    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        """The request and the reader of its answer."""
        wanted = self.wants_stream(options)
        body = format_request(self.model_name, messages, tools, options, stream=wanted, profile=self.profile)
        request = self.post(body, options)
        parser = partial(ChunkParser, audio=_audio_format(body)) if "audio" in body else ChunkParser
        return Exchange(request, parser, streams=bool(body.get("stream")), until=DONE)

    def instead(self, error: ModelError, messages: Sequence[Msg], tools: Sequence[ToolSchema]) -> ChatResponse | None:
        """A call that the server could not read, as an unreadable call in place of the error; None for other errors."""
        return refused_call(error, messages, tools)


def _audio_format(body: Mapping[str, object]) -> str | None:
    """The audio format that the request asks for."""
    audio = body.get("audio")
    form = cast("Mapping[str, object]", audio).get("format") if isinstance(audio, Mapping) else None
    return form if isinstance(form, str) else None


def overridden(profile: Profile, send_reasoning: bool | None, native_output: bool | None) -> Profile:
    """The profile, with the fields that the caller sets."""
    if send_reasoning is not None:
        profile = profile.but(reasoning="always" if send_reasoning else "never")
    return profile if native_output is None else profile.but(native_output=native_output)
