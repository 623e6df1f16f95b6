"""A conversation as the chat APIs take it: turns in a legal order, for thin encoders. Pure.

| in the messages                                  | in the turns                                                      |
|--------------------------------------------------|-------------------------------------------------------------------|
| what was said between a call and its result      | after the result                                                  |
| a result, in whatever message                    | a turn of its own; an assistant's come after its calls            |
| a call without a result, such as another agent's | followed by a result that says so: APIs refuse a call without one |
| media of an assistant or of a result             | in a user turn after the run of results, where APIs take media    |
| a message with nothing to say                    | none                                                              |
| several speakers in one role, and no name field  | `named`: the name stands before the words                         |

What cannot be said is `InvalidInputError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.message import (
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    results_first,
)
from agentscope_rx.message.frozen import EMPTY
from agentscope_rx.model.media import MediaBlock
from agentscope_rx.model.wire import NO_RESULT

Said = TextBlock | MediaBlock

_SPEAK = (MsgRole.USER, MsgRole.ASSISTANT)

MEDIA_FOLLOW = "(The result is the media in the next user message.)"
"""What stands for a result that is media alone."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one role says in one go. A tool's is the text of its `result`; an assistant's may end in `calls`.

    `name` is the speaker's where it says more than the role does, `metadata` that of the message it comes from.
    `promoted`: nobody said it; these are media from another place.
    """

    role: MsgRole
    content: tuple[Said, ...] = ()
    calls: tuple[ToolUseBlock, ...] = ()
    thinking: tuple[ThinkingBlock, ...] = ()
    result: ToolResultBlock | None = None
    name: str | None = None
    metadata: Mapping[str, object] = EMPTY
    promoted: bool = False

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
    conversation = _Conversation({result.id for message in messages for result in message.tool_results})
    for message in results_first(messages):
        conversation.add(message)
    conversation.promote()
    return conversation.turns


def named(turns: Sequence[Turn]) -> list[Turn]:
    """The turns for a wire that has no field for names: `Ann: ...` where several speak in one role.

    One speaker in a role is who the role says; the words are left alone then.
    """
    speakers: dict[MsgRole, set[str | None]] = {}
    for turn in turns:
        if turn.role in _SPEAK and not turn.promoted:
            speakers.setdefault(turn.role, set()).add(turn.name)
    return [_spoken(turn) if len(speakers.get(turn.role, ())) > 1 else turn for turn in turns]


def _spoken(turn: Turn) -> Turn:
    if turn.name is None or not turn.content:
        return turn
    first = turn.content[0]
    if isinstance(first, TextBlock):
        return replace(turn, content=(TextBlock(f"{turn.name}: {first.text}"), *turn.content[1:]))
    return replace(turn, content=(TextBlock(f"{turn.name}:"), *turn.content))


class _Conversation:
    """The turns so far, and the media that wait for the end of a run of results."""

    __slots__ = ("_answered", "_promoted", "turns")

    def __init__(self, answered: Collection[str]) -> None:
        self._answered = answered
        self._promoted: list[Said] = []
        self.turns: list[Turn] = []

    def add(self, message: Msg) -> None:
        said = [block for block in message.content if not isinstance(block, (ToolResultBlock, ThinkingBlock))]
        if message.role is MsgRole.ASSISTANT:
            self._assistant(message, said)
            self._results(message.tool_results, message)
            return
        self._results(message.tool_results, message)
        if not said:
            return
        self.promote()
        content = tuple(_sayable(said, message.role))
        if any(not isinstance(block, TextBlock) or block.text for block in content):
            self._append(message, Turn(message.role, content))

    def promote(self) -> None:
        """Say the media that wait, as the user."""
        if self._promoted:
            self.turns.append(Turn(MsgRole.USER, tuple(self._promoted), promoted=True))
            self._promoted = []

    def _assistant(self, message: Msg, said: Sequence[ContentBlock]) -> None:
        calls = message.tool_calls
        words = tuple(block for block in said if isinstance(block, TextBlock) and block.text)
        if words or calls:
            self.promote()
            self._append(message, Turn(message.role, words, calls, message.blocks(ThinkingBlock)))
        for call in calls:
            if call.id not in self._answered:
                self._append(message, _answer(ToolResultBlock.of(call, NO_RESULT), NO_RESULT))
        media = [block for block in said if isinstance(block, MediaBlock)]
        self._put_off(media, "Media of the assistant's message:")

    def _results(self, results: Iterable[ToolResultBlock], message: Msg) -> None:
        for result in results:
            media = [block for block in result.output if isinstance(block, MediaBlock)]
            text = result.text or (MEDIA_FOLLOW if media else "")
            self._append(message, _answer(result, text))
            self._put_off(media, f"Media of the result of {result.name} ({result.id}):")

    def _put_off(self, media: Sequence[MediaBlock], title: str) -> None:
        if media:
            self._promoted += [TextBlock(title), *media]

    def _append(self, message: Msg, turn: Turn) -> None:
        name = message.name.strip()
        speaker = None if turn.result is not None or name in (message.role.value, "") else name
        self.turns.append(replace(turn, name=speaker, metadata=message.metadata))


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
