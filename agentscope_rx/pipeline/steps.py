"""The values that a pipeline's program works with: what has happened so far, and what is to happen next.

program(Progress) -> Step | [Step, ...]     calls of members, those of a list at once; then it is asked again
                  -> Msg | str              the reply
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import field
from typing import cast

from reactivex import abc

from agentscope_rx.agent.input import messages_of
from agentscope_rx.errors import ConfigurationError, StepError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import GenerateReason, Msg, ToolResultKind


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a member, by its name, with the messages `input`; without `input` with those of the run.

    A text as `input` is a message of the user. With `output=True` the member gets the `output=` of the pipeline's
    caller, if there is one. The step fails after `timeout` seconds.
    """

    member: str
    input: Sequence[Msg] | None = None
    output: bool = field(default=False, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given: object = self.input
        if given is not None:
            object.__setattr__(self, "input", messages_of(self.input))
        limit = cast("object", self.timeout)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0):
            raise ConfigurationError(f"The timeout of a step must be more than 0 seconds, not {limit!r}.")


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step: the member's `reply`, or the `error` that says why there is none.

    `elapsed` is the number of seconds that the member worked; None if it did not begin. An interrupted member has a
    reply, too, and `interrupted` is true.
    """

    member: str
    reply: Msg | None = None
    error: StepError | None = None
    elapsed: float | None = None

    @property
    def ok(self) -> bool:
        """True if the member has replied and was not interrupted."""
        return self.error is None and not self.interrupted

    @property
    def interrupted(self) -> bool:
        """True if the member was interrupted: by itself, or because another one of its round failed."""
        if self.reply is not None and self.reply.generate_reason is GenerateReason.INTERRUPTED:
            return True
        return self.error is not None and self.error.kind == ToolResultKind.INTERRUPTED.value

    @property
    def value(self) -> Msg:
        """The reply; raises the `StepError` if there is none."""
        if self.reply is None:
            assert self.error is not None
            raise self.error
        return self.reply


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run of a pipeline: its `input`, and in `rounds` the results of each round, in call order."""

    input: tuple[Msg, ...] = ()
    rounds: tuple[tuple[StepResult, ...], ...] = ()

    @property
    def results(self) -> tuple[StepResult, ...]:
        """The results of all rounds."""
        return tuple(result for each in self.rounds for result in each)

    @property
    def last(self) -> StepResult | None:
        """The last result; None before the first round."""
        return self.rounds[-1][-1] if self.rounds else None

    def of(self, member: str) -> tuple[StepResult, ...]:
        """The results of this member, in order."""
        return tuple(result for result in self.results if result.member == member)


Next = Step | Sequence[Step] | Msg | str
"""The decision of a program: the steps of the next round, or the reply."""

Program = Next | Awaitable[Next] | abc.ObservableBase[Next]
"""The return type of `Pipeline.program`: a `Next`, or an awaitable or Observable of one."""
