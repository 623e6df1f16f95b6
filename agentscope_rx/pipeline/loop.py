"""`LoopPipeline`: one member again and again, each time with its own last reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from typing_extensions import Unpack

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import GenerateReason, Msg
from agentscope_rx.models.checks import check_count
from agentscope_rx.pipeline.members import Member, agents_of, as_agent
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.sequential import SequentialPipeline
from agentscope_rx.pipeline.steps import Program, Progress, Step

MAX_ROUNDS = 10


class LoopPipeline(Pipeline):
    """Calls `body` with the input, then with its own last reply, until `until(reply)` is true.

        LoopPipeline([writer, critic], until=lambda reply: reply.text == "Fine.", max_rounds=5)

    `body` is a member, or a list of members that are called in turn. `until` is a pure function of the reply. After
    `max_rounds` rounds the run ends with the last reply, with the reason MAX_ITERATIONS. The first failure ends the run
    with a `StepError`. `output=` of a call is requested in every round, so that `until` can read it.
    """

    most_rounds: int | None = None

    def __init__(
        self,
        body: Member | Iterable[Member] | Mapping[str, Member],
        name: str = "loop",
        *,
        until: Callable[[Msg], bool] | None = None,
        max_rounds: int = MAX_ROUNDS,
        **options: Unpack[PipelineOptions],
    ) -> None:
        check_count("max_rounds", max_rounds)
        if until is not None and not callable(until):
            raise ConfigurationError(f"until must be a function of the reply, not {until!r:.60}.")
        agent = _body_of(name, body)
        super().__init__(name, [agent], **options)
        self.body: AgentCore = agent
        self.until = until
        self.max_rounds = max_rounds

    def program(self, progress: Progress) -> Program:
        """The next round, or the last reply."""
        last = progress.last
        if last is None:
            return Step(self.body.name, output=True)
        reply = last.value
        if last.interrupted or self._done(reply):
            return reply
        if len(progress.rounds) >= self.max_rounds:
            return reply.replace(generate_reason=GenerateReason.MAX_ITERATIONS)
        return Step(self.body.name, [reply], output=True)

    def _done(self, reply: Msg) -> bool:
        if self.until is None:
            return False
        done = cast("object", self.until(reply))
        if not isinstance(done, bool):
            raise InvalidInputError(f"Pipeline {self.name!r}: until must give True or False, not {done!r:.60}.")
        return done


def _body_of(name: str, body: Member | Iterable[Member] | Mapping[str, Member]) -> AgentCore:
    """The member that is called in each round: a sequence of several, or the only one itself."""
    if isinstance(body, AgentCore) or callable(body):
        return as_agent(body)
    members = tuple(agents_of(name, body))
    return members[0] if len(members) == 1 else SequentialPipeline(members, f"{name} body")
