"""A conversation as the chat APIs take it: turns in a legal order, for thin encoders. Pure.

| in the messages                                  | in the turns                                                      |
|--------------------------------------------------|-------------------------------------------------------------------|
| calls and results                                | together (`models.wire.pairing`); a result is a turn of its own   |
| media of an assistant or of a result             | in a user turn after the run of results, where APIs take media    |
| a message with nothing to say                    | none                                                              |
| a speaker whom the role does not name            | the name before the words (see `names`)                           |

What cannot be said is `InvalidInputError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.wire.json_codec import NOTHING
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pairing import paired
from agentscope_rx.models.wire.speaker_names import SpeakerNames

Said = TextBlock | MediaBlock

MEDIA_FOLLOW = "(The result is the media in the next user message.)"
"""What stands for a result that is media alone."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one role says in one go. A tool's is the text of its `result`; an assistant's may end in `calls`.

    `metadata` is that of the message whose last turn it is.
    """

    role: MsgRole
    content: tuple[Said, ...] = ()
    calls: tuple[ToolUseBlock, ...] = ()
    thinking: tuple[ThinkingBlock, ...] = ()
    result: ToolResultBlock | None = None
    metadata: Mapping[str, object] = EMPTY

    @property
    def text(self) -> str:
        """The words, blocks joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def media(self) -> tuple[MediaBlock, ...]:
        """The media, in order."""
        return tuple(block for block in self.content if isinstance(block, MediaBlock))


def turns_of(messages: Sequence[Msg]) -> list[Turn]:
    """The turns of a conversation, in order."""
    conversation = _Conversation(SpeakerNames(messages))
    for message in paired(messages):
        conversation.add(message)
    conversation.promote()
    return conversation.turns


def sendable_turns(messages: Sequence[Msg]) -> list[Turn]:
    """The turns of a conversation in which something is said; `InvalidInputError` if nothing is."""
    turns = turns_of(messages)
    if not turns:
        raise InvalidInputError(NOTHING)
    return turns


class _Conversation:
    """The turns so far, and the media that wait for the end of a run of results."""

    __slots__ = ("_names", "_promoted", "turns")

    def __init__(self, names: SpeakerNames) -> None:
        self._names = names
        self._promoted: list[Said] = []
        self.turns: list[Turn] = []

    def add(self, message: Msg) -> None:
        before = len(self.turns)
        self._add(message)
        if message.metadata and len(self.turns) > before:
            self.turns[-1] = replace(self.turns[-1], metadata=message.metadata)

    def _add(self, message: Msg) -> None:
        said = [block for block in message.content if not isinstance(block, (ToolResultBlock, ThinkingBlock))]
        if message.role is MsgRole.ASSISTANT:
            self._assistant(message, said)
            return
        self._results(message.tool_results)
        if not said:
            return
        self.promote()
        content = tuple(_sayable(said, message.role))
        if any(not isinstance(block, TextBlock) or block.text for block in content):
            self.turns.append(Turn(message.role, self._spoken(message, content)))

    def promote(self) -> None:
        """Say the media that wait, as the user."""
        if self._promoted:
            self.turns.append(Turn(MsgRole.USER, tuple(self._promoted)))
            self._promoted = []

    def _assistant(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        calls = message.tool_calls
        words = tuple(block for block in said if isinstance(block, TextBlock) and block.text)
        if words or calls:
            self.promote()
            turn = Turn(message.role, self._spoken(message, words), calls, message.blocks(ThinkingBlock))
            self.turns.append(turn)
        media = [block for block in said if isinstance(block, MediaBlock)]
        self._put_off(media, "Media of the assistant's message:")

    def _results(self, results: Iterable[ToolResultBlock]) -> None:
        for result in results:
            media = [block for block in result.output if isinstance(block, MediaBlock)]
            text = result.text or (MEDIA_FOLLOW if media else "")
            self.turns.append(_answer(result, text))
            self._put_off(media, f"Media of the result of {result.name} ({result.id}):")

    def _put_off(self, media: Sequence[MediaBlock], title: str) -> None:
        if media:
            self._promoted += [TextBlock(title), *media]

    def _spoken(self, message: Msg, content: tuple[Said, ...]) -> tuple[Said, ...]:
        name = self._names.of(message)
        if name is None or not content:
            return content
        first = content[0]
        if isinstance(first, TextBlock):
            return (TextBlock(f"{name}: {first.text}"), *content[1:])
        return (TextBlock(f"{name}:"), *content)


def _answer(result: ToolResultBlock, text: str) -> Turn:
    return Turn(MsgRole.TOOL, (TextBlock(text),), result=result)


def _sayable(said: Sequence[ContentBlock], role: MsgRole) -> Iterator[Said]:
    for block in said:
        if role is MsgRole.TOOL:
            raise InvalidInputError(f"A tool message holds tool results only, not a {block.type} block.")
        if isinstance(block, TextBlock):
            yield block
        elif not isinstance(block, MediaBlock):
            raise InvalidInputError(f"A {role.value} message cannot hold a {block.type} block.")
        elif role is MsgRole.SYSTEM:
            raise InvalidInputError(f"A system message can hold text only, not a {block.type} block.")
        else:
            yield block
