"""`MapPipeline`: one member for each message of the input, each in a conversation of its own."""

from __future__ import annotations

from typing_extensions import Unpack

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.fan_out import Combine, OnError, check_on_error, combined, raise_errors
from agentscope_rx.pipeline.member_tool import MemberTool
from agentscope_rx.pipeline.members import Member, as_agent
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.steps import Program, Progress, Step, StepResult


class MapPipeline(Pipeline):
    """Calls one member with each message of the input, at most `at_most` at once, and combines the results.

    Each message begins a conversation of its own: the member's own memory is not used. The results are in the order of
    the messages. `timeout`, `on_error` and `combine` are those of `FanOutPipeline`; by default the reply has the text
    of each result as a paragraph. For an Observable of inputs use `map_agent`.
    """

    takes_output = False
    most_rounds: int | None = None

    def __init__(
        self,
        member: Member,
        name: str = "map",
        *,
        at_most: int | None = None,
        timeout: float | None = None,
        on_error: OnError = "collect",
        combine: Combine | None = None,
        **options: Unpack[PipelineOptions],
    ) -> None:
        agent = as_agent(member)
        super().__init__(name, [agent], at_most=at_most, **options)
        check_on_error(on_error)
        if combine is not None and not callable(combine):
            raise ConfigurationError(f"combine must be a function of the outcomes, not {combine!r:.60}.")
        self.on_error: OnError = on_error
        self.combine: Combine = combine if combine is not None else as_paragraphs
        self.member: AgentCore = agent
        self._timeout = timeout
        # refused now rather than in the first run
        Step(agent.name, timeout=timeout)

    def _tool(self, agent: AgentCore) -> MemberTool:
        return MemberTool(self, agent, interrupt_grace=self.interrupt_grace, fresh=True)

    def program(self, progress: Progress) -> Program:
        """One round with a step for each message, then the combined reply."""
        if progress.input and not progress.rounds:
            return [Step(self.member.name, [message], timeout=self._timeout) for message in progress.input]
        if self.on_error == "raise":
            raise_errors(self.name, progress.results)
        return combined(self.name, self.combine, progress.results)


def as_paragraphs(outcomes: tuple[StepResult, ...]) -> Msg | str:
    """The texts with an empty line between them; of a failed step the error."""
    return "\n\n".join(
        each.value.text if each.error is None else f"({each.error.kind}: {each.error.text})" for each in outcomes
    )
