"""`rounds_of`: a conversation as rounds, the smallest parts that a compaction may take away or change.

    question | answer . call  result  result | answer . call  result | question | answer
    a round    a round                         a round                 a round    a round

A call and its results are in one round, with what was observed between them, so no call is separated from a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory.views import groups, summary_carrier, system_head, without_dropped
from agentscope_rx.memory.window import segments
from agentscope_rx.messages import Msg, MsgRole


@dataclass(frozen=True, slots=True)
class Round:
    """Messages of the memory, in order, between which no call is separated from its results.

    For example, five rounds:

        question | answer . call  result  result | answer . call  result | question | answer
    """

    messages: tuple[Msg, ...]

    @property
    def answers(self) -> bool:
        """True if the model has answered in it: these rounds are counted by `keep_rounds`."""
        return any(message.role is MsgRole.ASSISTANT for message in self.messages)


def visible(history: Sequence[Msg]) -> Sequence[Msg]:
    """The messages of the memory that a request sends, in the form that memory has; without the summary."""
    return without_dropped(history, summarized=summary_carrier(history) is not None)


def rounds_of(history: Sequence[Msg]) -> list[Round]:
    """The rounds that a request sends, oldest first; the system messages at the beginning are in none."""
    shown = visible(history)
    found = [Round(tuple(shown[start:stop])) for start, stop in segments(shown, system_head(shown))]
    found.reverse()
    return found


def last_rounds(rounds: Sequence[Round], number: int) -> Sequence[Round]:
    """The rounds from the `number`-th last answer of the model on; all of them if there are fewer."""
    left = number
    for at in range(len(rounds) - 1, -1, -1):
        if left == 0:
            return rounds[at + 1 :]
        left -= rounds[at].answers
    return rounds


def open_ids(history: Sequence[Msg]) -> set[str]:
    """The ids of the messages with a call that has no result, and of those that belong to such a call."""
    return {history[number].id for group in groups(history) if group.open for number in group.members}
