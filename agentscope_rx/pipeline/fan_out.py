"""`FanOutPipeline`: the same input to all members at once; their results in the order of the members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, cast

from typing_extensions import Unpack

from agentscope_rx.errors import ConfigurationError, FanOutError, InvalidInputError
from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.members import Member
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.steps import Program, Progress, Step, StepResult

Combine = Callable[[tuple[StepResult, ...]], Msg | str]
"""Makes the reply of a fan-out of the outcomes of all members, in their order."""

OnError = Literal["collect", "raise"]
"""What a failed member means: an outcome like the others, or a `FanOutError` once all members have ended."""


class FanOutPipeline(Pipeline):
    """Calls all members with the same input, at most `at_most` at once, and combines their results.

        FanOutPipeline([style, facts], "Critics", timeout=60, combine=lambda results: results[0].value)

    - **`combine`** is a pure function of the `StepResult`s, which are in the order of the members. It returns a `Msg`
      or a text. By default the reply has the text of each member under its name.
    - **A failure** of a member does not end the others: its result has an `error`. After `timeout` seconds a member
      fails, with the kind "timeout". With `on_error="raise"` the run fails with a `FanOutError` when all members have
      ended.
    - **`output=`** of a call is refused: use `combine`.
    """

    takes_output = False
    most_rounds: int | None = None

    def __init__(
        self,
        members: Iterable[Member] | Mapping[str, Member],
        name: str = "fan-out",
        *,
        at_most: int | None = None,
        timeout: float | None = None,
        on_error: OnError = "collect",
        combine: Combine | None = None,
        **options: Unpack[PipelineOptions],
    ) -> None:
        super().__init__(name, members, at_most=at_most, **options)
        check_on_error(on_error)
        if combine is not None and not callable(combine):
            raise ConfigurationError(f"combine must be a function of the outcomes, not {combine!r:.60}.")
        self.on_error: OnError = on_error
        self.combine: Combine = combine if combine is not None else under_headings
        self._steps = tuple(Step(member, timeout=timeout) for member in self.members)

    def program(self, progress: Progress) -> Program:
        """One round with all members, then the combined reply."""
        if self._steps and not progress.rounds:
            return self._steps
        outcomes = progress.results
        if self.on_error == "raise":
            raise_errors(self.name, outcomes)
        return combined(self.name, self.combine, outcomes)


def under_headings(outcomes: tuple[StepResult, ...]) -> Msg | str:
    """The text of each member under its name; of a failed one the error."""
    return "\n\n".join(f"## {each.member}\n\n{_text(each)}" for each in outcomes)


def _text(outcome: StepResult) -> str:
    if outcome.error is not None:
        return f"({outcome.error.kind}: {outcome.error.text})"
    return outcome.value.text


def combined(pipeline: str, combine: Combine, outcomes: tuple[StepResult, ...]) -> Msg | str:
    """What `combine` makes of the outcomes; `InvalidInputError` if that is no reply."""
    reply = cast("object", combine(outcomes))
    if not isinstance(reply, (Msg, str)):
        raise InvalidInputError(f"Pipeline {pipeline!r}: combine must return a Msg or a text, not {reply!r:.60}.")
    return reply


def raise_errors(pipeline: str, outcomes: tuple[StepResult, ...]) -> None:
    """Raise a `FanOutError` if there are errors among the outcomes."""
    errors = tuple(each.error for each in outcomes if each.error is not None)
    if errors:
        raise FanOutError(pipeline, errors, outcomes) from errors[0]


def check_on_error(on_error: object) -> None:
    """`ConfigurationError` for an unknown policy."""
    if on_error not in ("collect", "raise"):
        raise ConfigurationError(f"on_error must be 'collect' or 'raise', not {on_error!r:.60}.")
