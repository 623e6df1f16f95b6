"""`OpenAIChatModel`: OpenAI, and every server that speaks Chat Completions, as a `ChatModel`.

messages -- read_files --> format_request --> Transport --> ChunkParser --> increments
           (on a worker,      (pure)          (one POST)      (pure)
            if there are any)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentscope_rx.errors import ModelError, ProtocolError
from agentscope_rx.message.msg import Msg
from agentscope_rx.model.chat_model import ChatModel
from agentscope_rx.model.openai.endpoint import Endpoint
from agentscope_rx.model.openai.formatter import Dialect, encode_json
from agentscope_rx.model.openai.media import has_files, read_files
from agentscope_rx.model.openai.parser import ChunkParser, decode
from agentscope_rx.model.openai.request import check_options, format_request
from agentscope_rx.model.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.model.response import ChatResponse
from agentscope_rx.model.transport import HttpRequest, ServerEvent, Transport
from agentscope_rx.model.transport.status import answered_error
from agentscope_rx.reactive import Flow, catch, concat, concat_map, defer, fail, from_iterable, just, on_worker

_DONE = "[DONE]"


class OpenAIChatModel(ChatModel):
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
        super().__init__(model_name, options=options, execution_config=execution_config)
        check_options(self.options)
        self.endpoint = Endpoint.of(base_url, api_key)
        if self.endpoint.official if native_output is None else native_output:
            self.output_modes = frozenset(("native", "tool", "prompted"))
        self._streams = stream
        self._dialect = Dialect(official=self.endpoint.official, reasoning=send_reasoning)
        self._transport = transport or Transport()

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt: one POST.

        Signals: increments; then completion when the answer is whole, or one `ModelError` with the model's name;
        `InvalidInputError` or `ConfigurationError` for what cannot be asked, before anything is sent.
        Cancels: the reading of files, the request or the reading of its answer; the response is closed.
        """
        ready = on_worker(lambda: read_files(messages)) if has_files(messages) else just(messages)
        answer: Flow[ChatResponse] = ready.pipe(concat_map(lambda read: self._exchange(read, tools, options)))
        return answer.pipe(catch(self._named))

    def _exchange(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        wanted = self._streams if options.stream is None else options.stream
        body = format_request(self.model_name, messages, tools, options, stream=wanted, dialect=self._dialect)
        request = HttpRequest(
            self.endpoint.url_with(options.additional_query_params),
            encode_json(body).encode("utf-8", "replace"),
            self.endpoint.headers_with(options.additional_headers),
        )
        parser = ChunkParser(asyncio.get_running_loop().time)
        if body.get("stream"):
            events = self._transport.stream(request, until=_DONE)
            answer = events.pipe(concat_map(lambda event: from_iterable(_read(event, parser))))
        else:
            answer = self._transport.request(request).pipe(
                concat_map(lambda whole: from_iterable(parser.feed_whole(whole)))
            )
        return concat(answer, defer(lambda: from_iterable(parser.end())))

    def _named(self, error: Exception) -> Flow[ChatResponse]:
        if isinstance(error, ModelError):
            error.model = error.model or self.model_name
            error.provider = error.provider or self.provider
        return fail(error)


def _read(event: ServerEvent, parser: ChunkParser) -> Iterable[ChatResponse]:
    """The increments of one server-sent event."""
    if event.data.strip() == _DONE:
        parser.done()
        return ()
    try:
        chunk = decode(event.data)
    except ProtocolError as error:
        if event.cut:
            # half an event at the end: whether the answer is whole without it is for the parser to say
            return ()
        if event.event == "error":
            raise _told(event.data) from error
        raise
    if event.event == "error":
        raise _told(chunk)
    return parser.feed_whole(chunk) if event.whole else parser.feed(chunk)


def _told(complaint: object) -> ModelError:
    """The error that an event named `error` carries, whatever its data looks like."""
    given = cast("Mapping[str, object]", complaint if isinstance(complaint, Mapping) else {"error": complaint})
    told = answered_error(given) or answered_error({"error": given})
    return told or ProtocolError("The server sent an error event without saying more.", body=str(given))
