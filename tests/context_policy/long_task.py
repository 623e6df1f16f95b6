"""A task of many rounds, a model that knows only what its request contains, and a check of every request.

The model looks at one room after the other. At the end it must say what was in room 3. It searches the text of its
request; if a short form there says how to read the result, it does that; if there is nothing, it says so.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence

from agentscope_rx import Hook, Msg, ReActAgent, tool
from agentscope_rx.context_policy import CompactionHook
from agentscope_rx.memory.short_forms import restored
from agentscope_rx.messages import (
    COMPRESSED,
    Base64Source,
    ChatUsage,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, FinishReason
from agentscope_rx.models.tokens import EstimatedTokens
from agentscope_rx.reactive import Flow, from_iterable
from tests.context_policy.parts import FACT

COUNT = EstimatedTokens()
UNKNOWN = "I do not know."
_READ = re.compile(r"call read_result with call_id='([^']+)'(?: and block=(\d+))?")


class Explorer(ChatModel):
    """Looks at `rooms` rooms, then answers from the text of its request, or by reading a result back."""

    provider = "explorer"

    def __init__(
        self,
        rooms: int,
        *,
        sought: str = "room3",
        scale: float = 0.0,
        call: Callable[[int], ToolUseBlock] | None = None,
        on_request: Callable[[int, Sequence[Msg]], object] | None = None,
    ) -> None:
        super().__init__("explorer", execution_config=ExecutionConfig(max_attempts=1))
        self.rooms = rooms
        self.sought = sought
        self.scale = scale
        self.sizes: list[int] = []
        """The tokens of each request, as the provider counts them."""
        self.summaries = 0
        self.read_back: list[str] = []
        self.last_request: Sequence[Msg] = ()
        self._call = call or (lambda number: ToolUseBlock(f"c{number}", "look", {"room": number}))
        self._on_request = on_request
        self._next = 0

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        size = round((self.scale or 1.0) * COUNT.count(messages, tools))
        self.sizes.append(size)
        if self._on_request is not None:
            self._on_request(len(self.sizes), messages)
        block = self._block(messages, {tool.name for tool in tools})
        usage = ChatUsage(size, 10) if self.scale else None
        return from_iterable([ChatResponse((block,), usage=usage, finish_reason=FinishReason.STOP)])

    def _block(self, messages: Sequence[Msg], tools: set[str]) -> TextBlock | ToolUseBlock:
        prompt = messages[-1].text
        if "<conversation>" in prompt:
            self.summaries += 1
            return TextBlock(summary_of(prompt))
        if self._next < self.rooms:
            self._next += 1
            return self._call(self._next - 1)
        self.last_request = messages
        found = dict(FACT.findall("\n".join(shown(message) for message in messages)))
        if self.sought in found:
            return TextBlock(found[self.sought])
        again = self._how_to_read(messages) if "read_result" in tools else None
        if again is None or again.id in self.read_back:
            return TextBlock(UNKNOWN)
        self.read_back.append(again.id)
        return again

    def _how_to_read(self, messages: Sequence[Msg]) -> ToolUseBlock | None:
        """The call that a short form asks for, for the room that is sought."""
        wanted = {each.id for message in messages for each in message.tool_calls if each.input.get("room") == 3}
        for message in messages:
            for found in _READ.finditer(shown(message)):
                if found[1] in wanted:
                    more = {"block": int(found[2])} if found[2] else {"pattern": "FACT"}
                    return ToolUseBlock(f"again-{found[1]}", "read_result", {"call_id": found[1], **more})
        return None


def summary_of(prompt: str) -> str:
    """What a model that sees this prompt only can write down."""
    part = prompt[prompt.index("<conversation>") :]
    # (what was in some of the rooms is of no further interest)
    facts = [f"- FACT {name} = {value}" for name, value in FACT.findall(part) if name in ("room3", "room77")]
    return "\n".join(["## Goal", "Look at every room.", "## State", "Looking.", "## Facts to keep", *facts])


def shown(message: Msg) -> str:
    """All that a model sees of a message."""
    return "\n".join(_seen(block) for block in message.content)


def _seen(block: ContentBlock) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolUseBlock):
        return json.dumps(dict(block.input), default=str)
    if isinstance(block, ToolResultBlock):
        return "\n".join(_seen(each) for each in block.output)
    if isinstance(block, ImageBlock) and isinstance(block.source, Base64Source):
        return base64.b64decode(block.source.data).decode("latin-1")
    return ""


def rooms_tool(text: Callable[[int], object]):
    """The tool `look`, whose results are made by `text`."""

    @tool
    def look(room: int, note: str = "") -> object:
        """Look at a room."""
        return text(room)

    return look


def plain(room: int) -> str:
    return f"FACT room{room} = value{room} " + "word " * 25


def picture(room: int) -> ImageBlock:
    return ImageBlock(Base64Source.of(f"FACT room{room} = value{room}".encode("latin-1"), "image/png"))


def explorer(model: ChatModel, hook: CompactionHook, look: object, *hooks: Hook, **options) -> ReActAgent:
    return ReActAgent("Friday", model, "You explore.", tools=[look], hooks=[hook, *hooks], max_iters=10_000, **options)


async def explored(agent: ReActAgent) -> str:
    """The answer; memory has every message, whole, and once."""
    reply = await agent.call(Msg.user("Look at every room. What was in room 3?", "Ann"))
    messages = [message async for message in agent.memory.read()]
    originals = [restored(each).unmarked(COMPRESSED) for each in messages]
    rooms = [each.input["room"] for message in originals for each in message.tool_calls if "room" in each.input]
    assert rooms == list(range(len(rooms)))
    results = [each for message in originals for each in message.tool_results]
    assert len({each.id for each in results}) == len(results) == sum(len(m.tool_calls) for m in originals)
    assert messages[-1].text == reply.text
    return reply.text
