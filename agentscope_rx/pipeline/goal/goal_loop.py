"""`GoalLoop`: an executor works, a verifier judges, until the goal is reached or the loop is at an end of another kind.

    loop = GoalLoop(coder, CommandCheck("pytest", "-q", backend=backend), max_rounds=5)
    reply = await loop.call("Make the tests pass.")
    GoalOutcome.of(reply).end

    executor -> verifier -> done: the reply is the executor's
                         -> feedback -> executor -> verifier -> ...

| the loop ends                                          | `end`             | `generate_reason`            |
|--------------------------------------------------------|-------------------|------------------------------|
| when the verifier says `done`                          | DONE              | that of the executor's reply |
| after `max_rounds` attempts                            | OUT_OF_ROUNDS     | MAX_ITERATIONS               |
| at one of its `UsageLimits`, the deadline included     | OUT_OF_BUDGET     | LIMIT_REACHED                |
| after the same feedback `stalled_after` times in a row | NO_PROGRESS       | LIMIT_REACHED                |
| when the verifier fails                                | VERIFIER_FAILED   | LIMIT_REACHED                |
| when it, or the member at work, is interrupted         | INTERRUPTED       | INTERRUPTED                  |

A failure of the executor is the loop's: a `StepError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from typing_extensions import Unpack

from agentscope_rx.agent.interruption import LastWords
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError, GoalNotReachedError
from agentscope_rx.memory import Memory
from agentscope_rx.messages import GenerateReason, Msg, ToolResultKind
from agentscope_rx.models.checks import check_count
from agentscope_rx.pipeline.goal.command_check import CommandCheck
from agentscope_rx.pipeline.goal.verdict import GoalEnd, GoalOutcome, GoalVerdict
from agentscope_rx.pipeline.goal.verifier import VerifierAgent, feedback_to_executor, to_judge
from agentscope_rx.pipeline.member_tool import MemberTool
from agentscope_rx.pipeline.members import Member, as_agent
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.steps import Program, Progress, Step
from agentscope_rx.reactive import Scope, concat, defer, just, throw

Verifier = AgentCore | CommandCheck | Callable[[Msg], object]
"""An agent, which is asked for a `GoalVerdict`; a command; or a function of an attempt that returns one, or a bool."""

VERIFIER = "verifier"
"""The name of a verifier that is a function or a command without a name of its own."""

_REASONS = {
    GoalEnd.OUT_OF_ROUNDS: GenerateReason.MAX_ITERATIONS,
    GoalEnd.OUT_OF_BUDGET: GenerateReason.LIMIT_REACHED,
    GoalEnd.NO_PROGRESS: GenerateReason.LIMIT_REACHED,
    GoalEnd.VERIFIER_FAILED: GenerateReason.LIMIT_REACHED,
    GoalEnd.INTERRUPTED: GenerateReason.INTERRUPTED,
}


class GoalLoop(Pipeline):
    """Calls an executor and a verifier in turn until the verifier says that the goal is reached.

        reply = await GoalLoop(writer, long_enough, max_rounds=5).call("Write about tea.")
        outcome = GoalOutcome.of(reply)

    - **The executor** gets the input of the call, then the verifier's feedback. It sees its earlier attempts.
    - **The verifier** is an agent, a function of the attempt that returns a `GoalVerdict` or a bool (also async), or a
      `CommandCheck`. It gets the goal and the attempt anew each time. An agent gives its verdict as a structured
      output; no text of the executor is an instruction to it. A verifier that fails is asked `verifier_retries` times
      more.
    - **Limits**: `limits` end the loop with the last attempt, also with `on_limit="error"`. The last tenth of a
      deadline, or `summary_reserve` if that is less, is kept for the end.
    - **Stalling**: the same feedback `stalled_after` times in a row ends the loop; None goes on.
    - **Errors**: with `on_unmet="error"` every end but DONE and INTERRUPTED is a `GoalNotReachedError`. A failure of
      the executor is a `StepError`.

    `output=` of a call is requested from the executor.
    """

    most_rounds: int | None = None

    def __init__(
        self,
        executor: Member,
        verifier: Verifier,
        name: str = "goal loop",
        *,
        max_rounds: int = 5,
        stalled_after: int | None = 3,
        verifier_retries: int = 1,
        on_unmet: Literal["reply", "error"] = "reply",
        **options: Unpack[PipelineOptions],
    ) -> None:
        self.executor: AgentCore = as_agent(executor)
        self.verifier: AgentCore = _verifier_of(verifier)
        check_count("max_rounds", max_rounds)
        if stalled_after is not None:
            check_count("stalled_after", stalled_after, 2)
        check_count("verifier_retries", verifier_retries, 0)
        self.max_rounds: int = max_rounds
        self.stalled_after: int | None = stalled_after
        self.verifier_retries: int = verifier_retries
        if on_unmet not in ("reply", "error"):
            raise ConfigurationError(f"on_unmet must be 'reply' or 'error', not {on_unmet!r:.60}.")
        self.on_unmet: Literal["reply", "error"] = on_unmet
        super().__init__(name, [self.executor, self.verifier], **options)

    def _tool(self, agent: AgentCore) -> MemberTool:
        if agent is not self.verifier:
            return super()._tool(agent)
        output = None if isinstance(agent, VerifierAgent) else GoalVerdict
        return MemberTool(self, agent, interrupt_grace=self.interrupt_grace, fresh=True, output=output)

    # --- the program ------------------------------------------------------------------------------------------------

    def program(self, progress: Progress) -> Program:
        """The next attempt, its verification, or the reply."""
        last = progress.last
        if last is None:
            return Step(self.executor.name, output=True)
        if last.interrupted:
            return self._ended(progress, GoalEnd.INTERRUPTED)
        if last.member == self.executor.name:
            return self._judge(progress, last.value)
        verdict = GoalVerdict.of(last)
        if verdict is None:
            if self._failures(progress) > self.verifier_retries:
                return self._ended(progress, GoalEnd.VERIFIER_FAILED)
            return self._judge(progress, progress.of(self.executor.name)[-1].value)
        if verdict.done:
            return self._ended(progress, GoalEnd.DONE)
        if self._stalled(progress):
            return self._ended(progress, GoalEnd.NO_PROGRESS)
        if len(progress.of(self.executor.name)) >= self.max_rounds:
            return self._ended(progress, GoalEnd.OUT_OF_ROUNDS)
        return Step(self.executor.name, [feedback_to_executor(verdict.feedback)], output=True)

    def _judge(self, progress: Progress, answer: Msg) -> Step:
        if isinstance(self.verifier, VerifierAgent):
            return Step(self.verifier.name, [answer])
        return Step(self.verifier.name, [to_judge(progress.input, answer, len(progress.of(self.executor.name)))])

    def _failures(self, progress: Progress) -> int:
        """The verdicts that have failed since the last attempt."""
        count = 0
        for result in reversed(progress.results):
            if result.member != self.verifier.name:
                break
            count += 1
        return count

    def _verdicts(self, progress: Progress) -> list[GoalVerdict]:
        found = (GoalVerdict.of(result) for result in progress.of(self.verifier.name))
        return [verdict for verdict in found if verdict is not None]

    def _stalled(self, progress: Progress) -> bool:
        """True if the last verdicts all have the same feedback; an empty one says nothing."""
        if self.stalled_after is None:
            return False
        last = [" ".join(each.feedback.split()) for each in self._verdicts(progress)[-self.stalled_after :]]
        return len(last) == self.stalled_after and last[0] != "" and len(set(last)) == 1

    # --- the ends ---------------------------------------------------------------------------------------------------

    def _ended(self, progress: Progress, end: GoalEnd) -> Msg:
        """The reply at this end; `GoalNotReachedError` if the loop is to fail."""
        outcome = self._outcome(progress, end)
        if self.on_unmet == "error" and end not in (GoalEnd.DONE, GoalEnd.INTERRUPTED):
            raise GoalNotReachedError(
                self.name, outcome, end=end.value, rounds=outcome.rounds, feedback=outcome.feedback
            )
        result = outcome.result
        if result is None:
            text = f"The loop ended before there was a result ({end.value.replace('_', ' ')})."
            reply = Msg.assistant(text, self.name).replace(metadata=outcome.metadata(None))
        else:
            reply = result.replace(metadata={**result.metadata, **outcome.metadata(result)})
        reason = _REASONS.get(end)
        return reply if reason is None else reply.replace(generate_reason=reason)

    def _outcome(self, progress: Progress, end: GoalEnd) -> GoalOutcome:
        attempts = [each.reply for each in progress.of(self.executor.name) if each.reply is not None]
        verdicts = self._verdicts(progress)
        feedback = verdicts[-1].feedback if verdicts else ""
        return GoalOutcome(end, len(attempts), feedback, attempts[-1] if attempts else None)

    def handle_interrupt(self, run: Run) -> LastWords:
        """The reply of an interrupted loop: its own words, with the last attempt in the outcome."""
        outcome = self._outcome(self.progress_of(run), GoalEnd.INTERRUPTED)
        rounds = f"{outcome.rounds} attempt{'' if outcome.rounds == 1 else 's'}"
        text = f"I was interrupted after {rounds}, and the goal is not reached."
        message = run.interruption.message or Msg.assistant(text, self.name)
        return just(message.replace(metadata={**message.metadata, **outcome.metadata(None)}))

    def _summary_at(self, run: Run, which: str) -> Stage:
        """End with the last attempt: the limit that `which` names allows no further step."""

        def end() -> Stage:
            try:
                reply = self._ended(self.progress_of(run), GoalEnd.OUT_OF_BUDGET)
            except GoalNotReachedError as error:
                return throw(error)
            return run.end_with(self._reply(run, reply))

        text = f"The limit for {which} was reached before this step ran."
        return concat(run.close_open(ToolResultKind.REJECTED, text), defer(end))

    def new_run(self, memory: Memory, scope: Scope, context: RuntimeContext | None, limits: UsageLimits | None) -> Run:
        given = limits if limits is not None else self.limits
        return super().new_run(memory, scope, context, None if given is None else _ending(given))


def _ending(limits: UsageLimits) -> UsageLimits:
    """The limits as those of a loop that ends with a reply, for which no model is asked."""
    if limits.on_limit == "summary":
        return limits
    reserve = limits.summary_reserve if limits.deadline is None else min(limits.summary_reserve, limits.deadline / 10)
    return replace(limits, on_limit="summary", summary_reserve=reserve)


def _verifier_of(given: object) -> AgentCore:
    """The verifier as an agent; `ConfigurationError` for anything else."""
    if isinstance(given, AgentCore):
        return given
    if not callable(given) or isinstance(given, type):
        raise ConfigurationError(
            f"A verifier is an agent, a function of an attempt, or a CommandCheck, not {given!r:.60}."
        )
    name: object = getattr(given, "__name__", VERIFIER)
    return VerifierAgent(given, name if isinstance(name, str) and name != "<lambda>" else VERIFIER)
