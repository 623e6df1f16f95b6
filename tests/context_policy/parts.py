"""What the tests of the context policy share: long conversations, requests, and a model that summarises."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agentscope_rx import Msg, TextBlock
from agentscope_rx.context_policy import ContextPolicy, StrategyContext
from agentscope_rx.context_policy.compacting import sent_view
from agentscope_rx.context_policy.rounds import visible
from agentscope_rx.context_policy.strategy import oldest_first
from agentscope_rx.events import EventSource
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory.short_forms import shortened
from agentscope_rx.messages import COMPRESSED, ChatUsage, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.models.tokens import EstimatedTokens
from agentscope_rx.parts import PartStates
from agentscope_rx.reactive import Flow, from_iterable
from agentscope_rx.testing import run_virtual

COUNT = EstimatedTokens()
FACT = re.compile(r"FACT (\w+) = (\w+)")


def conversation(rounds: int, *, words: int = 30, question: str = "Look at every room.") -> list[Msg]:
    """A question, and rounds of one call with its result."""
    messages = [Msg.user(question, "Ann").replace(id="q")]
    for number in range(rounds):
        call = ToolUseBlock(f"c{number}", "look", {"room": number})
        messages.append(Msg.assistant([TextBlock(f"Room {number}."), call], "Friday").replace(id=f"a{number}"))
        text = f"FACT room{number} = value{number} " + "word " * words
        messages.append(Msg.tool(ToolResultBlock(call.id, "look", (TextBlock(text),))).replace(id=f"r{number}"))
    return messages


class Summariser(ChatModel):
    """Writes down the facts that its prompt contains, and nothing else; by headings or, if it is native, as JSON."""

    provider = "summariser"

    def __init__(
        self, *, state: str = "Looking.", change: Callable[[int, str], object] | None = None, usage: int = 0
    ) -> None:
        super().__init__("summariser", execution_config=ExecutionConfig(max_attempts=1))
        self.prompts: list[str] = []
        self.requests: list[Sequence[Msg]] = []
        self.options_of: list[GenerateOptions] = []
        self._state = state
        self._change = change
        self._usage = usage

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        prompt = messages[-1].text
        self.prompts.append(prompt)
        self.requests.append(messages)
        self.options_of.append(options)
        answer = self._change(len(self.prompts), prompt) if self._change else None
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Flow):
            return answer
        if isinstance(answer, ChatResponse):
            return from_iterable([answer])
        text = answer if isinstance(answer, str) else self.written(prompt)
        usage = ChatUsage(self._usage, 10) if self._usage else None
        return from_iterable([ChatResponse((TextBlock(text),), usage=usage, finish_reason=FinishReason.STOP)])

    def written(self, prompt: str) -> str:
        part = prompt[prompt.index("<conversation>") :]
        facts = "\n".join(f"- FACT {name} = {value}" for name, value in FACT.findall(part))
        return f"## Goal\nLook at every room.\n## State\n{self._state}\n## Facts to keep\n{facts}"


class Shorten:
    """Shortens results to their first ten characters, the oldest first."""

    def __init__(self, name: str = "shorten") -> None:
        self.name = name
        self.contexts: list[StrategyContext] = []

    def apply(self, context: StrategyContext) -> Sequence[Msg]:
        self.contexts.append(context)
        return oldest_first(context, self._short)

    def _short(self, message: Msg) -> Msg | None:
        forms = {
            at: block.replace(output=block.text[:10])
            for at, block in enumerate(message.content)
            if isinstance(block, ToolResultBlock) and len(block.text) > 10
        }
        return shortened(message, forms) if forms else None


def asked(
    history: Sequence[Msg],
    *,
    parts: PartStates | None = None,
    model: ChatModel | None = None,
    why: str = "round",
    **fields: object,
) -> CompactionRequest:
    """The request of a round with this memory."""
    values = {"system_message": Msg.system("Be brief.").replace(id="s"), **fields}
    return CompactionRequest(
        why=why,  # pyright: ignore[reportArgumentType]
        source=EventSource("run", "Friday", parts=parts or PartStates()),
        model=model or Summariser(),
        history=history,
        messages=sent_view(history),
        **values,  # pyright: ignore[reportArgumentType]
    )


def compacted(policy: ContextPolicy, request: CompactionRequest) -> Compaction:
    """What the policy gives; an empty compaction if there is nothing to do."""
    running = policy.compact(request)
    if running is None:
        return Compaction()

    async def first() -> Compaction:
        return ([each async for each in running] or [Compaction()])[0]

    return run_virtual(first())


def written(history: Sequence[Msg], compaction: Compaction) -> list[Msg]:
    """The memory after the compaction."""
    new = {message.id: message for message in compaction.replaced}
    return [new.get(message.id, message) for message in history]


def sent_tokens(history: Sequence[Msg]) -> int:
    return COUNT.count(sent_view(history))


def hidden_ids(history: Sequence[Msg]) -> set[str]:
    return {each.id for each in history} - {each.id for each in visible(history)}


def marked(history: Sequence[Msg]) -> list[str]:
    return [message.id for message in history if COMPRESSED in message.marks]
