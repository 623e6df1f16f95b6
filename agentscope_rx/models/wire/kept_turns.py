"""`KeptTurns`: the turns of messages that were sent before, kept until the messages are gone.

    kept = KeptTurns()                              one for each model
    turns_of(kept.prepared(messages), rules)        equal to turns_of(messages, rules)

| the turns of a message depend on                          | so they are kept with                             |
|-----------------------------------------------------------|---------------------------------------------------|
| the message, which is frozen                              | its identity, through a weak reference            |
| the rules of the wire format                              | the rules                                         |
| whether the conversation has several assistants           | that flag                                         |
| the calls that it answers: those of the message before it | the identity of that message                      |
| calls and results elsewhere, if they are out of order     | nothing: `paired` makes other messages of these   |
| media that move behind the last of several results        | nothing, if media of several messages move at once |

What is kept holds no message, so a message that is gone takes its turns along. Several threads may use one `KeptTurns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, cast
from weakref import ReferenceType

from agentscope_rx.messages import ContentBlock, Msg, MsgRole, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.wire.chat_turns import Conversation, PreparedMessages, Turn, TurnRules
from agentscope_rx.models.wire.media import has_files
from agentscope_rx.models.wire.pairing import paired
from agentscope_rx.models.wire.speaker_names import SpeakerNames
from agentscope_rx.models.wire.tool_names import is_wire_name

MAX_MESSAGES: Final = 100_000
"""The most messages whose turns a model keeps; with one more it begins anew."""


class KeptTurns:
    """The turns of the messages that a model has sent."""

    __slots__ = ("_entries", "_forget")

    def __init__(self) -> None:
        entries: dict[int, _Entry] = {}

        def forget(gone: ReferenceType[Msg]) -> None:
            number = cast("_MessageRef", gone).number
            entry = entries.get(number)
            if entry is not None and entry.message is gone:
                entries.pop(number, None)

        self._entries = entries
        self._forget = forget

    def __len__(self) -> int:
        return len(self._entries)

    def prepared(self, messages: Iterable[Msg]) -> KeptMessages:
        """The messages, for `turns_of`."""
        return KeptMessages(self, messages)

    def entries(self, messages: Iterable[Msg]) -> list[_Entry]:
        """What is kept of each message."""
        find = self._entries.get
        found: list[_Entry] = []
        for message in messages:
            entry = find(id(message))
            # (a message may have the address of one that is gone)
            if entry is None or entry.message() is not message:
                entry = self._add(message)
            found.append(entry)
        return found

    def _add(self, message: Msg) -> _Entry:
        if len(self._entries) >= MAX_MESSAGES:
            self._entries.clear()
        entry = _Entry(message, self._forget)
        self._entries[id(message)] = entry
        return entry


class _MessageRef(ReferenceType[Msg]):
    """A weak reference that knows the address of its message."""

    __slots__ = ("number",)

    number: int

    def __new__(cls, message: Msg, forget: Callable[[ReferenceType[Msg]], None]) -> _MessageRef:
        made = super().__new__(cls, message, forget)
        made.number = id(message)
        return made


class KeptMessages(PreparedMessages):
    """The messages of one request, with what is kept of them."""

    __slots__ = ("_entries", "_kept", "is_plain")

    def __init__(self, kept: KeptTurns, messages: Iterable[Msg]) -> None:
        super().__init__(messages)
        self._kept = kept
        self._entries = kept.entries(self)
        self.is_plain: Final = all([entry.is_plain for entry in self._entries])  # noqa: C419  # a generator costs more
        """True if there is no file to read, and no name of a tool that the wire does not take."""

    def turns(self, rules: TurnRules) -> list[Turn]:
        entries = self._entries
        messages: Sequence[Msg] = self
        if not _in_order(entries, rules):
            messages = paired([*self], rules.wire_id)
            entries = self._kept.entries(messages)
        return _turns(messages, entries, rules, None if rules.names else SpeakerNames(self))


class _Made(NamedTuple):
    """The turns of a message, what they depend on, and the media that move behind the results."""

    rules: TurnRules
    several: bool
    caller: object
    turns: tuple[Turn, ...]
    moved: tuple[ContentBlock, ...]
    after: Turn | None


class _Entry:
    """What is kept of one message: facts for all wire formats, and its turns in the last one."""

    __slots__ = ("calls", "in_place", "is_plain", "made", "message", "results", "sent_ids")

    def __init__(self, message: Msg, forget: Callable[[ReferenceType[Msg]], None]) -> None:
        self.message: Final = _MessageRef(message, forget)
        calls = [block for block in message.content if type(block) is ToolUseBlock]
        results = [block for block in message.content if type(block) is ToolResultBlock]
        self.calls: Final = tuple([call.id for call in calls])
        self.results: Final = tuple([result.id for result in results])
        # False if only `paired` knows what becomes of the message
        self.in_place: Final = (
            not calls and len(results) == len(message.content) > 0
            if message.role is MsgRole.TOOL
            else not results and (not calls or message.role is MsgRole.ASSISTANT)
        )
        self.is_plain: Final = not has_files((message,)) and all(is_wire_name(b.name) for b in (*calls, *results))
        # (each in one assignment, because several threads may send the message)
        self.sent_ids: tuple[TurnRules, tuple[str, ...]] | None = None
        self.made: _Made | None = None

    def wire_ids(self, rules: TurnRules) -> tuple[str, ...]:
        """The ids of the calls as they are sent."""
        kept = self.sent_ids
        if kept is None or kept[0] is not rules:
            self.sent_ids = kept = (rules, tuple([rules.wire_id(id) for id in self.calls]))
        return kept[1]


def _in_order(entries: Sequence[_Entry], rules: TurnRules) -> bool:
    """True if `paired` would change nothing: results follow the message of their calls, and no id occurs twice."""
    expected: tuple[str, ...] = ()
    ids: list[str] = []
    for entry in entries:
        if not entry.in_place:
            return False
        if entry.results or expected:
            left = () if expected == entry.results else _without(expected, entry.results)
            if left is None:
                return False
            expected = left
        elif entry.calls:
            expected = entry.calls
            sent = entry.sent_ids
            ids += sent[1] if sent is not None and sent[0] is rules else entry.wire_ids(rules)
    return not expected and len(set(ids)) == len(ids)


def _without(expected: tuple[str, ...], results: tuple[str, ...]) -> tuple[str, ...] | None:
    """The calls that wait for another result; None if there is none for this result, or no result."""
    if not results or len(set(results)) < len(results) or not set(results) <= set(expected):
        return None
    return tuple([id for id in expected if id not in results])


def _turns(
    messages: Sequence[Msg], entries: Sequence[_Entry], rules: TurnRules, names: SpeakerNames | None
) -> list[Turn]:
    """The turns of messages that are in order."""
    turns: list[Turn] = []
    waiting: list[_Made] = []
    several = names is not None and names.several
    caller: _Entry | None = None
    for at, entry in enumerate(entries):
        if entry.calls:
            caller = entry
        answered = caller.message if caller is not None and entry.results else None
        made = entry.made
        if made is None or made.rules is not rules or made.several is not several or made.caller is not answered:
            entry.made = made = _make(messages[at], answered, rules, names)
        if waiting and made.turns and made.turns[0].result is None:
            turns.append(_moved(waiting))
            waiting = []
        turns += made.turns
        if made.moved:
            waiting.append(made)
    if waiting:
        turns.append(_moved(waiting))
    return turns


def _make(message: Msg, caller: _MessageRef | None, rules: TurnRules, names: SpeakerNames | None) -> _Made:
    """The turns of one message; `caller` has the calls that it answers."""
    conversation = Conversation((), rules, names)
    calling = None if caller is None else caller()
    if calling is not None:
        conversation.expect(calling.tool_calls)
    conversation.add(message)
    moved = tuple(conversation.waiting)
    several = names is not None and names.several
    return _Made(rules, several, caller, tuple(conversation.turns), moved, Turn(MsgRole.USER, moved) if moved else None)


def _moved(waiting: Sequence[_Made]) -> Turn:
    """The user turn with the media that waited."""
    if len(waiting) == 1 and (after := waiting[0].after) is not None:
        return after
    return Turn(MsgRole.USER, tuple([block for made in waiting for block in made.moved]))
