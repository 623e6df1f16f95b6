"""The changes of marks, as pairs of the old and the new message, for every kind of memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import COMPRESSED, Msg
from agentscope_rx.messages.marks import SUMMARY, summary_in

Change = tuple[Msg, Msg]


def has_mark(mark: str | None, exclude_mark: str | None, message: Msg) -> bool:
    """True if the message has `mark` and not `exclude_mark`; None asks for nothing."""
    if mark is None and exclude_mark is None:
        return True
    marks = message.marks
    return (mark is None or mark in marks) and (exclude_mark is None or exclude_mark not in marks)


def remarked(
    messages: Iterable[Msg], new_mark: str | None, old_mark: str | None, msg_ids: Collection[str] | None
) -> list[Change]:
    """The messages that change if `new_mark` takes the place of `old_mark`."""
    ids = None if msg_ids is None else checked_ids(msg_ids)
    changes: list[Change] = []
    for old in messages:
        if (ids is not None and old.id not in ids) or (old_mark is not None and old_mark not in old.marks):
            continue
        new = old if old_mark is None else old.unmarked(old_mark)
        new = new if new_mark is None else new.marked(new_mark)
        if new.marks != old.marks:
            changes.append((old, new))
    return changes


def replaced_by(messages: Iterable[Msg], given: Iterable[Msg]) -> list[Change]:
    """The messages that change if these take the places of their ids, in an order in which each step is legal.

    First those that carry a summary now, and last those that carry one no longer: a message that is marked as
    compressed is left out as soon as there is any summary, so the one that covers it has to be there before.
    """
    new_of = {message.id: message for message in given}
    changes = [(old, new) for old in messages if (new := new_of.get(old.id)) is not None and new is not old]
    return sorted(changes, key=_step_of)


def _step_of(change: Change) -> int:
    old, new = change
    if summary_in(new.metadata):
        return 0
    return 2 if summary_in(old.metadata) else 1


def selected(messages: Sequence[Msg], msg_ids: Collection[str]) -> list[int]:
    """The indexes of the messages with these ids; `InvalidInputError` if there is none."""
    ids = checked_ids(msg_ids)
    found = [number for number, message in enumerate(messages) if message.id in ids]
    if not found:
        raise InvalidInputError(
            f"The conversation has no message with one of the {len(ids)} ids that are to be compressed."
        )
    return found


def compressed(messages: Sequence[Msg], chosen: Sequence[int], summary: str) -> list[Change]:
    """The messages that change if the chosen ones are compressed too, the last one carrying the summary."""
    before = [number for number, message in enumerate(messages) if COMPRESSED in message.marks]
    last = max([*before, *chosen])
    changes: list[Change] = []
    for number in sorted({*before, *chosen}):
        old = messages[number]
        new = without_summary(old).marked(COMPRESSED)
        if number == last:
            new = with_summary(new, summary)
        if new != old:
            changes.append((old, new))
    return changes


def with_summary(message: Msg, summary: str) -> Msg:
    """The compressed message, with the summary that it carries."""
    return message.replace(metadata={**message.metadata, SUMMARY: summary})


def without_summary(message: Msg) -> Msg:
    """The message without the summary that it may carry."""
    if SUMMARY not in message.metadata:
        return message
    return message.replace(metadata={name: value for name, value in message.metadata.items() if name != SUMMARY})


def handed_on(kept: Sequence[Msg], carrier: Msg) -> Change | None:
    """The change that keeps the summary of a removed carrier, on the last compressed one of the messages left."""
    heir = next((message for message in reversed(kept) if COMPRESSED in message.marks), None)
    return None if heir is None else (heir, with_summary(heir, summary_in(carrier.metadata)))


def checked_ids(msg_ids: Collection[str]) -> frozenset[str]:
    """The ids as a set; a single text is refused, because its letters would be taken for ids."""
    if isinstance(msg_ids, str):
        raise InvalidInputError(f"Give the ids as a list, such as [{msg_ids!r}], not as a single text.")
    return frozenset(msg_ids)


def checked_messages(messages: Iterable[Msg]) -> list[Msg]:
    """The messages as a list; `InvalidInputError` for anything else."""
    if isinstance(messages, (Msg, str)):
        raise InvalidInputError(f"A memory takes a list of Msg objects, not a single {type(messages).__name__}.")
    checked = list(messages)
    for message in checked:
        if not isinstance(message, Msg):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A memory keeps Msg objects, not {type(message).__name__}.")
    return checked
