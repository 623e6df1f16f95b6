"""`LocalChatModel`: a small language model on this machine, without key and without network.

messages, tools -- next_turn --> prompt, JSON schema --> OpenAIChatModel --> wire increments -- Reply --> increments
                    (pure)                               (the server on       (JSON text)     (pure)
                                                          loopback)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel, OutputSupport
from agentscope_rx.models.local.grounded import Grounded
from agentscope_rx.models.local.prompt import Turn, next_turn
from agentscope_rx.models.local.reply import Reply
from agentscope_rx.models.local.server import SERVER, LocalServer, Served
from agentscope_rx.models.local.weights import MODEL_NAME, check_installed
from agentscope_rx.models.openai.model import OpenAIChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.transport import HttpConfig, Transport
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, concat_map, defer, flat_map_iterable, on_worker

_DEFAULTS = GenerateOptions(temperature=0.0, seed=1, max_tokens=256)
"""The same answer each time, and an end to one that goes round in circles."""

_FREE = {"repeat_penalty": 1.1}
"""Where the model writes freely; where it quotes, it has to repeat."""


class LocalChatModel(ChatModel):
    """SmolLM2-135M-Instruct on this machine: for trying everything without a key, not for judging answers.

    It needs the extra `local` and its weights: `agentscope-rx setup-local`; `MissingExtraError` otherwise. The server
    starts with the first request and ends with the program; all models of a process share it. A turn is a call of an
    offered tool with valid arguments, or an answer, in which a number that the conversation does not hold is told as
    "[?]", except in a `response_format` of your own; tools serve better if their schemas give `examples`. System
    messages count in plain talk only. Images, audio and video are passed over.
    """

    provider = "local"
    # a grammar holds calls to their schema; what is asked for in words alone it does not take in
    output_modes: frozenset[OutputSupport] = frozenset(("tool",))

    def __init__(
        self,
        model_name: str = MODEL_NAME,
        *,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        server: LocalServer = SERVER,
    ) -> None:
        super().__init__(model_name, options=options, execution_config=execution_config)
        check_installed()
        self._server = server

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt: one request to the server, which is started first if it does not run.

        Signals: increments; then completion when the answer is whole, or one `ModelError`; `SetupError` if the
        server does not start.
        Cancels: the request, which ends the generation; a server that is starting goes on and serves the next one.
        """
        choice = options.tool_choice
        if choice is not None:
            choice.check(tools)
        turn = next_turn(messages, tools, choice)
        asked = _options(turn, options)
        served = on_worker(self._server.address, ENGINE_WORKERS)
        answer: Flow[ChatResponse] = served.pipe(
            concat_map(lambda at: self._client(at).do_stream(turn.messages, (), asked))
        )
        if turn.schema is not None:
            return defer(
                lambda: answer.pipe(flat_map_iterable(Reply().feed), flat_map_iterable(Grounded(turn.held).feed))
            )
        # text in a form of the caller's own is theirs: its numbers may be its structure
        own = options.response_format is not None
        return answer if own else defer(lambda: answer.pipe(flat_map_iterable(Grounded(turn.held).feed)))

    def _client(self, at: Served) -> OpenAIChatModel:
        # never through a proxy: it is this machine
        transport = Transport(HttpConfig(trust_env=False))
        return _Client(self.model_name, base_url=at.base_url, api_key=at.key, transport=transport)


class _Client(OpenAIChatModel):
    """Chat Completions of our own server."""

    provider = "local"


def _options(turn: Turn, given: GenerateOptions) -> GenerateOptions:
    """What to ask of the server: the caller's options, the turn's schema in place of tools."""
    asked = replace(given, tool_choice=None, parallel_tool_calls=None, stream=True).over(_DEFAULTS)
    if turn.free:
        asked = replace(asked, additional_body_params={**_FREE, **asked.additional_body_params})
    if turn.schema is None:
        return asked
    shape = {"type": "json_schema", "json_schema": {"name": "turn", "strict": True, "schema": turn.schema}}
    return replace(asked, response_format=shape)
