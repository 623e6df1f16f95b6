"""`sent`: the messages of a conversation that a request sends, by their marks and short forms.

    hidden                        left out
    compressed, with a summary    left out; the summary comes first, behind system messages
    compressed, without one       sent: nothing would take its place
    with short forms              sent in its short form (see `short_forms`)

Agents send this view; a request that others make of a memory's messages sends `sent(messages)`.

A call and its results are left out together: the mark of one of them counts for all. If one of the calls has no result
yet, all of them are sent, because the model or the caller still has to settle it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, filterfalse
from typing import NamedTuple

from agentscope_rx.memory.short_forms import SHORT_FORMS, sent_form
from agentscope_rx.messages import (
    COMPRESSED,
    HIDDEN,
    TRANSIENT,
    Msg,
    MsgRole,
    ToolResultBlock,
    ToolUseBlock,
    call_places,
)
from agentscope_rx.messages.marks import MARKS, SUMMARY, marks_in, numbers_marked, summary_in
from agentscope_rx.models.wire.speaker_names import AS_IT_IS


class View(NamedTuple):
    """What a request sends of a conversation; the first `head` messages are the system messages and the summary."""

    messages: Sequence[Msg]
    head: int
    waiting: bool = False
    """True if a message that its marks leave out is sent, because a call has no result yet."""


def sent(messages: Sequence[Msg]) -> Sequence[Msg]:
    """The messages that a request sends; the same sequence if there are no marks and no short forms.

    | a message | in the request |
    |---|---|
    | hidden | left out |
    | compressed, with a summary | left out; the summary comes first, behind the system messages |
    | compressed, without a summary | sent |
    | with short forms | sent in its short form |

    A call and its results are left out together. As long as one call has no result, all of them are sent.
    """
    return view_of(messages).messages if has_marks(messages) else messages


def view_of(messages: Sequence[Msg], before: Sequence[Msg] = ()) -> View:
    """The messages that a request sends, as `sent`, and the number of those that no `window` leaves out.

    `before` is what is sent of settled messages before these (see `settled`).
    """
    carrier = summary_carrier(messages)
    chosen, waiting = _sort_out(messages, summarized=carrier is not None)
    kept = in_sent_form([*before, *chosen] if before else chosen)
    head = system_head(kept)
    if carrier is None:
        return View(kept, head, waiting)
    return View([*kept[:head], summary_message(carrier), *kept[head:]], head + 1, waiting)


def in_sent_form(messages: Sequence[Msg]) -> Sequence[Msg]:
    """The messages with their short forms in place: the same sequence if none has any."""
    short = [number for number, each in enumerate(messages) if each.metadata and SHORT_FORMS in each.metadata]
    if not short:
        return messages
    kept = list(messages)
    for number in short:
        kept[number] = sent_form(kept[number])
    return kept


def system_head(messages: Sequence[Msg]) -> int:
    """The number of system messages at the beginning."""
    return next((n for n, message in enumerate(messages) if message.role is not MsgRole.SYSTEM), len(messages))


def has_marks(messages: Iterable[Msg]) -> bool:
    """True if a message has a mark or a short form."""
    # (with any() each message would cost a call)
    return bool(
        [each for each in messages if each.metadata and (MARKS in each.metadata or SHORT_FORMS in each.metadata)]
    )


def is_dropped(message: Msg, *, summarized: bool) -> bool:
    """True if its own marks say that the message is left out; `summarized` if a summary stands for compressed ones."""
    marks = marks_in(message.metadata)
    return HIDDEN in marks or (summarized and COMPRESSED in marks)


def without_dropped(messages: Sequence[Msg], *, summarized: bool) -> Sequence[Msg]:
    """The messages without the hidden ones and, if a summary stands for them, without the compressed ones."""
    return _sort_out(messages, summarized=summarized)[0]


def _sort_out(messages: Sequence[Msg], *, summarized: bool) -> tuple[Sequence[Msg], bool]:
    """The messages without those to leave out, and True if one of these is sent because a call waits.

    Most messages cost no call: where no call is open, a conversation falls into parts that are independent, and only a
    part with both kinds of messages is examined by its groups.
    """
    metadata = [each.metadata for each in messages]
    dropped = numbers_marked(metadata, HIDDEN, COMPRESSED) if summarized else numbers_marked(metadata, HIDDEN)
    if not dropped:
        return messages, False
    kept: list[Msg] = []
    open_ids: dict[str, int] = {}
    start, open, waiting, examined = 0, 0, False, 0
    part: list[Msg] = []
    left_out = 0
    last = len(messages) - 1
    number = -1
    while number < last:
        number += 1
        if not open and number >= examined and number in dropped:
            examined, whole = _run(messages, dropped, number)
            if whole:
                start, number = examined, examined - 1
                continue
        message = messages[number]
        part.append(message)
        left_out += number in dropped
        for block in message.content:
            if type(block) is ToolUseBlock and message.role is MsgRole.ASSISTANT:
                open_ids[block.id] = open_ids.get(block.id, 0) + 1
                open += 1
            elif type(block) is ToolResultBlock and open_ids.get(block.id):
                open_ids[block.id] -= 1
                open -= 1
        if open and number < last:
            continue
        if not left_out:
            kept += part
        elif open or left_out < len(part):
            gone, waits = _gone(part, {each - start for each in dropped.intersection(range(start, number + 1))})
            kept += [each for at, each in enumerate(part) if at not in gone]
            waiting = waiting or waits
        start, part, left_out = number + 1, [], 0
    return kept, waiting


def settled(messages: Sequence[Msg], end: Msg) -> int:
    """The greatest number of messages before `end`, from the first one on, that have the results of all their calls.

    What is sent of them does not depend on those that follow, but for the summary.
    """
    waiting: dict[str, int] = {}
    number = 0
    for at, message in enumerate(messages, 1):
        if message is end:
            break
        for block in message.content:
            if type(block) is ToolUseBlock and message.role is MsgRole.ASSISTANT:
                waiting[block.id] = waiting.get(block.id, 0) + 1
            elif type(block) is ToolResultBlock and block.id in waiting:
                waiting[block.id] -= 1
                if not waiting[block.id]:
                    del waiting[block.id]
        if not waiting:
            number = at
    return number


def _run(messages: Sequence[Msg], dropped: set[int], start: int) -> tuple[int, bool]:
    """The end of the messages from `start` on that are all dropped; True if they have the results of all their calls.

    After many compactions these are most of a conversation, so this is quicker than to examine each.
    """
    stop = next(filterfalse(dropped.__contains__, count(start)))
    run = messages[start:stop]
    calls = [
        (block.id, number)
        for number, each in enumerate(run)
        if each.role is MsgRole.ASSISTANT
        for block in each.content
        if type(block) is ToolUseBlock
    ]
    places = dict(calls)
    answered = {
        block.id
        for number, each in enumerate(run)
        for block in each.content
        if type(block) is ToolResultBlock and places.get(block.id, number) < number
    }
    return stop, len(answered) == len(calls)


def _gone(messages: Sequence[Msg], dropped: set[int]) -> tuple[set[int], bool]:
    """The messages to leave out if these are dropped, by index; and True if a call that waits keeps one of them."""
    gone, waits = set(dropped), False
    for group in groups(messages):
        if group.members.isdisjoint(dropped):
            continue
        if group.open:
            gone -= group.members
            waits = True
        else:
            gone |= group.members
    return gone, waits


class Group:
    """Messages that belong together: calls and their results. `members` are their indexes."""

    __slots__ = ("members", "open")

    def __init__(self, members: set[int], open: bool) -> None:
        self.members: set[int] = members
        self.open: bool = open
        """True if a call among them has no result."""


def groups(messages: Sequence[Msg]) -> list[Group]:
    """The groups of calls and results among the messages, each message being in one at most."""
    found: dict[int, Group] = {}
    places = call_places(messages)
    answered = set(places.values())
    for number, message in enumerate(messages):
        if message.role is MsgRole.ASSISTANT and message.tool_calls:
            open = any((number, at) not in answered for at, b in enumerate(message.content) if b.type == "tool_use")
            found[number] = Group({number}, open)
    for (result, _), (call, _) in places.items():
        one, other = found[call], found.get(result)
        one.members.add(result)
        if other is not None and other is not one:
            # one message with results of several groups joins them
            one.members |= other.members
            one.open |= other.open
        for number in one.members:
            found[number] = one
    return list({id(group): group for group in found.values()}.values())


def transient_in(messages: Sequence[Msg]) -> list[Msg]:
    """The transient messages that can be removed: a call and its results only together, and only if all are transient.

    Their marks on a call without result count once it has one.
    """
    marked = numbers_marked([each.metadata for each in messages], TRANSIENT)
    if not marked:
        return []
    for group in groups(messages):
        if group.open or not group.members <= marked:
            marked -= group.members
    return [messages[number] for number in sorted(marked)]


def without_transient(messages: Sequence[Msg]) -> Sequence[Msg]:
    """The messages that are saved: the same sequence if none is transient."""
    gone = {id(message) for message in transient_in(messages)}
    return [message for message in messages if id(message) not in gone] if gone else messages


def summary_carrier(messages: Sequence[Msg]) -> Msg | None:
    """The compressed message that carries the summary: the latest, if there are several."""
    # (the latest messages first: a long past is not looked through)
    for message in reversed(messages[:]):
        if message.metadata and SUMMARY in message.metadata and summary_in(message.metadata):
            return message
    return None


def summary_message(carrier: Msg) -> Msg:
    """The message by which a request sends the summary; the same for the same carrier, so that prompt caches hold."""
    text = summary_in(carrier.metadata)
    return Msg("user", text, id=f"summary-{carrier.id}", timestamp=carrier.timestamp, metadata={AS_IT_IS: True})
