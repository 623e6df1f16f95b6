"""A conversation as turns in an order that every chat API takes. All providers encode these turns. Pure.

| in the messages                            | in the turns                                                           |
|--------------------------------------------|------------------------------------------------------------------------|
| calls and results                          | together (`models.wire.pairing`); each result is a turn of its own     |
| media of an assistant or of a result       | in a user turn after the run of results, unless the rules keep them    |
| audio of an assistant, with text beside it | left out where media are moved: the text says the same                 |
| thinking of a user, text without content   | left out, and a message that holds nothing else                        |
| a speaker whom the role does not name      | `Alice: ` before the text (see `speaker_names`), or a field of its own |

Content that no API takes in that role is an `InvalidInputError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import takewhile
from typing import TypeVar, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import (
    AudioBlock,
    ContentBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.pairing import paired
from agentscope_rx.models.wire.speaker_names import SpeakerNames

F = TypeVar("F")
V = TypeVar("V")

CACHE = "cache_control"
"""The key of a message's metadata that asks for a cache mark at its end: True, or the mark as the API writes it."""

NOTHING = "There is nothing to send: a model needs at least one message with content."
"""The error for a conversation without content; servers refuse it with an error that explains less."""

MEDIA_FOLLOW = "(The result is the media in the next user message.)"
"""The text of a result that holds media alone, where these move to a user turn."""


def no_media(block: MediaBlock) -> bool:
    """For `TurnRules.result_media`: a result holds text only."""
    return False


def all_media(block: MediaBlock) -> bool:
    """For `TurnRules.result_media`: a result holds every kind of media."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRules:
    """How a wire format differs from the plainest one, which takes text and calls.

    | field           | meaning                                                               |
    |-----------------|-----------------------------------------------------------------------|
    | wire_id         | a call's id as it is sent; of two that become equal one changes       |
    | names           | messages have a field for the speaker, so the text need not name them |
    | blank           | the roles in which text of white space alone is sent                  |
    | assistant_media | an assistant's turn may hold media                                    |
    | result_media    | the media that a result may hold                                      |
    """

    wire_id: Callable[[str], str] = str
    names: bool = False
    blank: Collection[MsgRole] = tuple(MsgRole)
    assistant_media: bool = False
    result_media: Callable[[MediaBlock], bool] = no_media


PLAIN = TurnRules()


class WireForm:
    """The form of a turn on the wire, kept by `formed`, and its media."""

    __slots__ = ("made", "media")

    def __init__(self) -> None:
        self.made: tuple[object, object] | None = None
        self.media: tuple[MediaBlock, ...] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """The blocks that one role sends at once, in order. A tool's turn is one `result`, with the `call` it answers.

    `author` is the name of the author of an assistant's, user's or system's turn; None for media that were moved.
    `said` is an assistant's text, `speaker` the name that the text must give. `metadata` is the message's, on its last
    turn only. A turn holds no message, so that it may be kept beside one without keeping it alive.
    """

    role: MsgRole
    blocks: tuple[ContentBlock, ...]
    author: str | None = None
    said: str | None = None
    speaker: str | None = None
    result: ToolResultBlock | None = None
    call: ToolUseBlock | None = None
    metadata: Mapping[str, object] = EMPTY
    form: WireForm = field(default_factory=WireForm, compare=False, repr=False)

    @property
    def named(self) -> tuple[ContentBlock, ...]:
        """The blocks, with the speaker's name before the first text or media."""
        if self.speaker is None:
            return self.blocks
        blocks = list(self.blocks)
        for at, block in enumerate(blocks):
            if isinstance(block, TextBlock):
                blocks[at] = TextBlock(f"{self.speaker}: {block.text}")
                break
            if isinstance(block, MediaBlock):
                blocks.insert(at, TextBlock(f"{self.speaker}:"))
                break
        return tuple(blocks)

    @property
    def content(self) -> tuple[TextBlock | MediaBlock, ...]:
        """Text and media in order, with the speaker's name."""
        return tuple(block for block in self.named if isinstance(block, TextBlock | MediaBlock))

    @property
    def text(self) -> str:
        """The text, with the speaker's name; blocks are joined as `Msg.text` joins them."""
        text = self.said
        if text is None:
            text = "\n".join([block.text for block in self.blocks if type(block) is TextBlock])
        return f"{self.speaker}: {text}" if self.speaker and text else text

    @property
    def media(self) -> tuple[MediaBlock, ...]:
        """The media, in order."""
        media = self.form.media
        if media is None:
            self.form.media = media = tuple([block for block in self.blocks if isinstance(block, MediaBlock)])
        return media

    @property
    def calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls, in order."""
        return tuple([block for block in self.blocks if type(block) is ToolUseBlock])

    @property
    def thinking(self) -> tuple[ThinkingBlock, ...]:
        """The thinking, in order."""
        return tuple([block for block in self.blocks if type(block) is ThinkingBlock])


def formed(turn: Turn, make: Callable[[Turn, V], F], variant: V) -> F:
    """`make(turn, variant)`, made once for as long as the turn lives and the variant is the same object.

    The form belongs to the turn: who sends it must not change it.
    """
    kept = turn.form.made
    if kept is not None and kept[0] is variant:
        return cast("F", kept[1])
    form = make(turn, variant)
    turn.form.made = (variant, form)
    return form


def all_formed(turns: Iterable[Turn], make: Callable[[Turn, V], F], variant: V) -> list[F]:
    """The form of each turn, as `formed` gives it."""
    forms: list[F] = []
    for turn in turns:
        kept = turn.form.made
        # (no call for a turn that was sent before: a long conversation has many)
        form = kept[1] if kept is not None and kept[0] is variant else formed(turn, make, variant)
        forms.append(form)  # pyright: ignore[reportArgumentType]
    return forms


class PreparedMessages(list[Msg]):
    """Messages whose turns may have been made before; see `models.wire.kept_turns`."""

    __slots__ = ()

    def turns(self, rules: TurnRules) -> list[Turn]:
        """Equal to the turns of a plain list of the same messages."""
        return turns_of([*self], rules)


def turns_of(messages: Sequence[Msg], rules: TurnRules = PLAIN) -> list[Turn]:
    """The turns of a conversation, in order."""
    if isinstance(messages, PreparedMessages):
        return messages.turns(rules)
    conversation = Conversation(messages, rules)
    for message in paired(messages, rules.wire_id):
        conversation.add(message)
    conversation.flush()
    return conversation.turns


def sendable_turns(messages: Sequence[Msg], rules: TurnRules = PLAIN) -> list[Turn]:
    """The turns of a conversation; `InvalidInputError` if there are none."""
    turns = turns_of(messages, rules)
    if not turns:
        raise InvalidInputError(NOTHING)
    return turns


def split_system(turns: Sequence[Turn]) -> tuple[list[Turn], list[Turn]]:
    """The system turns at the beginning, and the rest."""
    lead = list(takewhile(lambda turn: turn.role is MsgRole.SYSTEM, turns))
    return lead, list(turns[len(lead) :])


def cache_mark(metadata: Mapping[str, object]) -> object:
    """The cache mark that a message's metadata asks for; None without one."""
    asked = metadata.get(CACHE)
    if asked is None or asked is False:
        return None
    if asked is True:
        return {"type": "ephemeral"}
    if isinstance(asked, Mapping):
        return cast("Mapping[str, object]", asked)
    raise InvalidInputError(f"{CACHE} in a message's metadata is True or a mapping such as {{'type': 'ephemeral'}}.")


class Conversation:
    """The turns so far, and the media that wait for the end of a run of results."""

    __slots__ = ("_calls", "_names", "_rules", "turns", "waiting")

    def __init__(self, messages: Sequence[Msg], rules: TurnRules, names: SpeakerNames | None = None) -> None:
        self._rules = rules
        self._names = None if rules.names else names or SpeakerNames(messages)
        self._calls: dict[str, ToolUseBlock] = {}
        self.waiting: list[ContentBlock] = []
        self.turns: list[Turn] = []

    def expect(self, calls: Iterable[ToolUseBlock]) -> None:
        """Take results of calls whose message was added to another conversation."""
        self._calls.update((call.id, call) for call in calls)

    def add(self, message: Msg) -> None:
        """Add the turns of the next message."""
        before = len(self.turns)
        if message.role is MsgRole.ASSISTANT:
            self._assistant(message)
        elif message.role is MsgRole.TOOL:
            self._results(message)
        else:
            self._user_or_system(message)
        if message.metadata and len(self.turns) > before:
            self.turns[-1] = replace(self.turns[-1], metadata=message.metadata)

    def flush(self) -> None:
        """Send the media that wait, as a user turn."""
        if self.waiting:
            self.turns.append(Turn(MsgRole.USER, tuple(self.waiting)))
            self.waiting = []

    def _user_or_system(self, message: Msg) -> None:
        blocks: list[ContentBlock] = []
        blank = message.role in self._rules.blank
        for block in message.content:
            if type(block) is TextBlock:
                if block.text and (blank or block.text.strip()):
                    blocks.append(block)
            elif type(block) is not ThinkingBlock:
                blocks.append(_checked(block, message.role))
        if blocks:
            self._append(message, blocks)

    def _assistant(self, message: Msg) -> None:
        blocks: list[ContentBlock] = []
        media: list[MediaBlock] = []
        blank, has_text = message.role in self._rules.blank, False
        for block in message.content:
            if type(block) is TextBlock:
                if block.text and (blank or block.text.strip()):
                    has_text = True
                    blocks.append(block)
            elif type(block) is ToolUseBlock:
                self._calls[block.id] = block
                blocks.append(block)
            elif isinstance(block, MediaBlock) and not self._rules.assistant_media:
                media.append(block)
            else:
                blocks.append(block)
        if blocks:
            self._append(message, blocks)
        if media:
            moved = [block for block in media if not (has_text and isinstance(block, AudioBlock))]
            self._move(moved, "Media of the assistant's message:")

    def _results(self, message: Msg) -> None:
        for block in message.content:
            if type(block) is ToolResultBlock:
                self._result(block)
            elif type(block) is not ThinkingBlock:
                _checked(block, message.role)

    def _result(self, result: ToolResultBlock) -> None:
        blank = MsgRole.TOOL in self._rules.blank
        held: list[ContentBlock] = []
        moved: list[MediaBlock] = []
        for block in result.output:
            if type(block) is TextBlock:
                if blank or block.text.strip():
                    held.append(block)
            elif isinstance(block, MediaBlock):
                (held if self._rules.result_media(block) else moved).append(block)
        if moved and all(isinstance(block, TextBlock) and not block.text for block in held):
            held = [TextBlock(MEDIA_FOLLOW)]
        self.turns.append(Turn(MsgRole.TOOL, tuple(held), result=result, call=self._calls[result.id]))
        if moved:
            self._move(moved, f"Media of the result of {result.name} ({result.id}):")

    def _append(self, message: Msg, blocks: Iterable[ContentBlock]) -> None:
        if self.waiting:
            self.flush()
        speaker = None if self._names is None else self._names.of(message)
        said = message.text if message.role is MsgRole.ASSISTANT else None
        self.turns.append(Turn(message.role, tuple(blocks), message.name, said, speaker))

    def _move(self, media: Sequence[MediaBlock], title: str) -> None:
        if media:
            self.waiting += [TextBlock(title), *media]


def _checked(block: ContentBlock, role: MsgRole) -> ContentBlock:
    """The block, which is no text; `InvalidInputError` if no API takes it in this role."""
    if role is MsgRole.TOOL:
        raise InvalidInputError(f"A tool message holds tool results only, not a {block.type} block.")
    if not isinstance(block, MediaBlock):
        raise InvalidInputError(f"A {role.value} message cannot hold a {block.type} block.")
    if role is MsgRole.SYSTEM:
        raise InvalidInputError(f"A system message can hold text only, not a {block.type} block.")
    return block
