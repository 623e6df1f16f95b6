"""`ConditionalPipeline`: the first member whose condition holds for the input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import cast

from reactivex import operators as ops
from reactivex.abc import ObservableBase
from typing_extensions import Unpack

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.members import Member, as_agent
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.sequential import identity
from agentscope_rx.pipeline.steps import Next, Program, Progress, Step
from agentscope_rx.reactive import Flow, append_if_missing, concat_map, just
from agentscope_rx.tools.calls.lift import CallableKind, kind_of, lift

Condition = Callable[[Msg], bool | Awaitable[bool] | Flow[bool]]
"""A function of the last message of the input, plain or async. A plain one runs on the loop, and must not block."""


class ConditionalPipeline(Pipeline):
    """Calls one member with the input: the member of the first branch whose condition is true, else `otherwise`.

        ConditionalPipeline([(lambda message: "invoice" in message.text, billing)], otherwise=clerk)

    `branches` are pairs of a condition and a member. A condition is a function of the last message of the input, plain
    or async. If no condition is true and there is no `otherwise`, the reply is the input. `output=` of a call is
    requested from the chosen member.
    """

    most_rounds: int | None = None

    def __init__(
        self,
        branches: Iterable[tuple[Condition, Member]],
        otherwise: Member | None = None,
        name: str = "conditional",
        **options: Unpack[PipelineOptions],
    ) -> None:
        pairs = [_checked(branch) for branch in branches]
        agents = [(condition, as_agent(member)) for condition, member in pairs]
        rest = None if otherwise is None else as_agent(otherwise)
        # a member may be that of several branches
        every = {id(agent): agent for agent in (*(agent for _, agent in agents), *((rest,) if rest else ()))}
        super().__init__(name, every.values(), **options)
        self._branches = [(condition, agent.name) for condition, agent in agents]
        self._otherwise = None if rest is None else rest.name

    def program(self, progress: Progress) -> Program:
        """The chosen member, then its reply."""
        if progress.last is not None:
            return progress.last.value
        return self._choose(progress, 0)

    def _choose(self, progress: Progress, index: int) -> Flow[Next]:
        """The decision of the branches from this one on."""
        if index == len(self._branches):
            if self._otherwise is None:
                return just(cast("Next", identity(progress.input)))
            return just(cast("Next", Step(self._otherwise, output=True)))
        condition, member = self._branches[index]

        def decide(answer: object) -> Flow[Next]:
            if not isinstance(answer, bool):
                raise InvalidInputError(
                    f"Pipeline {self.name!r}: the condition of member {member!r} must give True or False, not "
                    f"{answer!r:.60}."
                )
            return just(cast("Next", Step(member, output=True))) if answer else self._choose(progress, index + 1)

        return _asked(condition, identity(progress.input)).pipe(concat_map(decide))


def _asked(condition: Condition, message: Msg) -> Flow[object]:
    kind = kind_of(condition)
    if kind is CallableKind.CALL:
        answer: object = condition(message)
        if not isinstance(answer, ObservableBase) and not isawaitable(answer):
            return just(answer)
        return lift(CallableKind.OBSERVABLE, lambda: answer).pipe(ops.take(1), append_if_missing(object, lambda: None))
    return lift(kind, lambda: condition(message)).pipe(ops.take(1), append_if_missing(object, lambda: None))


def _checked(branch: object) -> tuple[Condition, Member]:
    pair = cast("tuple[object, ...]", branch)
    if not isinstance(branch, tuple) or len(pair) != 2 or not callable(pair[0]):
        raise ConfigurationError(f"A branch is a pair (condition, member), not {branch!r:.60}.")
    return cast("tuple[Condition, Member]", pair)
