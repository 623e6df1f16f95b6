"""`SequentialPipeline`: one member after the other, each with the reply of the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from typing_extensions import Unpack

from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.members import Member, agents_of
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.steps import Program, Progress, Step


class SequentialPipeline(Pipeline):
    """Calls its members in order: the first with the input, each of the others with the reply before it.

        SequentialPipeline([writer, critic, writer], "Review")        # a member may come several times

    - **The reply** is the last one. Without members it is the last message of the input.
    - **Without input** the first member is called without input, too: it goes on from its memory.
    - **A failure** ends the run with the `StepError` that names the member. An interrupted member ends it with its
      reply.
    - **`output=`** of a call is requested from the last member.
    """

    most_rounds: int | None = None

    def __init__(
        self,
        members: Iterable[Member] | Mapping[str, Member],
        name: str = "sequential",
        **options: Unpack[PipelineOptions],
    ) -> None:
        order = tuple(agents_of(name, members))
        super().__init__(name, {id(agent): agent for agent in order}.values(), **options)
        self._order = tuple(agent.name for agent in order)

    def program(self, progress: Progress) -> Program:
        """The next member, or the last reply."""
        number, last = len(progress.rounds), progress.last
        if last is None:
            if not self._order:
                return identity(progress.input)
            return Step(self._order[0], output=len(self._order) == 1)
        if number == len(self._order) or (last.interrupted and last.reply is not None):
            return last.value
        return Step(self._order[number], [last.value], output=number == len(self._order) - 1)


def identity(given: tuple[Msg, ...]) -> Msg:
    """The reply of a pipeline that has nobody to call: the last message of the input."""
    return given[-1] if given else Msg.user(())
