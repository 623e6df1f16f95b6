"""`HttpChatModel`: a provider behind one POST. Providers differ in pure parts only: an exchange and a parser.

messages -- read_files --> exchange(messages, tools, options) --> Transport --> AnswerParser --> increments
           (on a worker,    what to send, and who reads the       (one POST)    (pure)
            if there are any)   answer (pure)
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from agentscope_rx.errors import ModelError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel, OutputSupport
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.rates import RateHeaders, read_rates
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.transport import Framing, HttpRequest, ServerEvent, Transport
from agentscope_rx.models.transport.http import drain, is_last
from agentscope_rx.models.wire.endpoint import Endpoint
from agentscope_rx.models.wire.kept_turns import KeptMessages, KeptTurns
from agentscope_rx.models.wire.media import has_files, read_files
from agentscope_rx.models.wire.pieces import Envelope, body_text
from agentscope_rx.models.wire.tool_names import WireNames, is_wire_name
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    concat_map,
    from_async_iterable,
    on_worker,
)

Clock = Callable[[], float]

WITH_NATIVE_OUTPUT: Final[frozenset[OutputSupport]] = frozenset(("native", "tool", "prompted"))
"""`output_modes` of a model that holds its answers to a JSON schema by itself."""


class AnswerParser(Protocol):
    """Reads one answer, in the order of the wire. Pure: it depends on the events alone."""

    def read(self, event: ServerEvent) -> Iterable[ChatResponse]:
        """The increments of one event of a streamed answer; `ModelError` for an invalid one, or one with an error."""
        ...

    def read_whole(self, answer: object) -> Iterable[ChatResponse]:
        """The increments of an answer that came in one piece, as JSON."""
        ...

    def end(self) -> Iterable[ChatResponse]:
        """The content held back until the end; a `ModelError` if the answer is not whole."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, and how its answer is read: as a stream that ends with the event named `until`, or whole.

    `parser` makes the reader of one answer; its clock, in seconds, times the usage. `until` may be the event's data.
    """

    request: HttpRequest
    parser: Callable[[Clock], AnswerParser]
    streams: bool = True
    until: str | None = None
    framing: Framing = "sse"


class HttpChatModel(ChatModel):
    """A model behind an HTTP API. One object works in any number of event loops, and for any number of calls.

    `stream=False` asks for the answer in one piece; a call's own option wins. `transport` sets a proxy or certificates:
    `Transport(HttpConfig(proxy=...))`.
    """

    endpoint: Endpoint

    def __init__(
        self,
        model_name: str,
        *,
        stream: bool = True,
        options: GenerateOptions | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(model_name, options=options, execution_config=execution_config)
        self._streams = stream
        self._transport = transport or Transport()
        self._kept = KeptTurns()

    def post(
        self,
        body: Mapping[str, object],
        options: GenerateOptions,
        *,
        path: str = "",
        query: Mapping[str, str] = EMPTY,  # pyright: ignore[reportArgumentType]
        headers: Mapping[str, str] = EMPTY,  # pyright: ignore[reportArgumentType]
    ) -> HttpRequest:
        """The request that sends this body to the endpoint. The options' query parameters and headers win over all."""
        return HttpRequest(
            self.endpoint.url_with({**query, **options.additional_query_params}, path),
            body_text(Envelope(body)).encode("utf-8", "replace"),
            self.endpoint.headers_with({**headers, **options.additional_headers}),
        )

    @property
    def server_address(self) -> tuple[str, int] | None:
        parts = self.endpoint.parts
        if parts.hostname is None:
            return None
        return parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)

    @abstractmethod
    def exchange(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Exchange:
        """The request and the reader of its answer. Local files of the messages have been read into base64.

        `InvalidInputError` or `ConfigurationError` for content or options that this provider does not take.
        """

    def advice(self, error: ModelError) -> str | None:
        """Advice on this error, where the provider's own message has none; it is appended to the message."""
        return None

    def instead(self, error: ModelError, messages: Sequence[Msg], tools: Sequence[ToolSchema]) -> ChatResponse | None:
        """An answer in place of this error, for the agent to continue with; None: the error stands (default)."""
        return None

    def wants_stream(self, options: GenerateOptions) -> bool:
        """True if the answer is to be streamed."""
        return self._streams if options.stream is None else options.stream

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt: one POST.

        Signals: increments; then completion when the answer is whole, or one `ModelError` with the model's name;
        `InvalidInputError` or `ConfigurationError` before anything is sent, as `exchange` raises them.
        Cancels: the reading of files, the request or the reading of its answer; the response is closed.
        """
        prepared = self._kept.prepared(messages)

        def ask(read: KeptMessages) -> Flow[ChatResponse]:
            return from_async_iterable(lambda: self._increments(read, tools, options))

        if prepared.is_plain or not has_files(messages):
            return ask(prepared)
        reading = on_worker(lambda: self._kept.prepared(read_files(messages)), ENGINE_WORKERS)
        return reading.pipe(concat_map(ask))

    async def _increments(
        self, messages: KeptMessages, tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> AsyncGenerator[ChatResponse]:
        # one generator from the response to the increments: an operator a step would cost more than the parsing
        rates: list[RateHeaders] = []
        transport, ended = self._transport, False
        try:
            names = _names(messages, tools)
            if names is None:
                exchange = self.exchange(messages, tools, options)
            else:
                exchange = self.exchange(names.messages(messages), names.tools(tools), names.options(options))
            request, until = exchange.request, exchange.until
            clock = asyncio.get_running_loop().time
            parser, heard = exchange.parser(clock), partial(_hear, rates, clock)
            with transport.hiding(request):
                if exchange.streams:
                    received = transport.batches(request, framing=exchange.framing, on_headers=heard)
                    async with aclosing(received) as batches:
                        async for batch in batches:
                            for event in batch:
                                for increment in parser.read(event):
                                    yield _finished(increment, rates, names) if rates or names else increment
                                if until is not None and is_last(event, until):
                                    ended = True
                                    break
                            if ended:
                                await drain(batches)
                                break
                else:
                    for increment in parser.read_whole(await transport.answer(request, on_headers=heard)):
                        yield _finished(increment, rates, names)
                for increment in parser.end():
                    yield _finished(increment, rates, names)
        except ModelError as error:
            if rates:
                yield ChatResponse(rates=rates.pop())
            answer = self.instead(error, messages, tools)
            if answer is None:
                self._complete(error)
                raise
            yield answer

    def _complete(self, error: ModelError) -> None:
        """Add who failed, and advice."""
        error.model = error.model or self.model_name
        error.provider = error.provider or self.provider
        advice = self.advice(error)
        if advice:
            error.args = (f"{error} {advice}",)


def _names(messages: KeptMessages, tools: Sequence[ToolSchema]) -> WireNames | None:
    if messages.is_plain and all(is_wire_name(tool.name) for tool in tools):
        return None
    return WireNames.of(messages, tools)


def _finished(increment: ChatResponse, rates: list[RateHeaders], names: WireNames | None) -> ChatResponse:
    """The increment with the tools' own names; the first one takes along what the headers say of limits."""
    if names is not None:
        increment = names.back(increment)
    return replace(increment, rates=rates.pop()) if rates else increment


def _hear(rates: list[RateHeaders], clock: Clock, headers: Mapping[str, str]) -> None:
    """Keep what the headers of an answer say of limits, until an increment takes it along."""
    found = read_rates(headers, clock())
    if found is not None:
        rates.append(found)
