"""Pipelines as functions, for a single run: each is a Flow of its results.

await sequential_pipeline([writer, editor], "Write about tea.")
await fanout_pipeline([critic, lawyer], draft)
questions.pipe(map_agent(expert, at_most=4)).subscribe(print)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count

from reactivex import Observable
from typing_extensions import Unpack

from agentscope_rx.agent.input import CallInput
from agentscope_rx.agent.observe import parse_call
from agentscope_rx.agent.stream import reply_in
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError, StepError
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.fan_out import Combine, FanOutPipeline, OnError, check_on_error, under_headings
from agentscope_rx.pipeline.member_tool import CANCELLED, StepTimeoutError, describe, late
from agentscope_rx.pipeline.members import Member, as_agent, members_of
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.sequential import SequentialPipeline
from agentscope_rx.pipeline.steps import Step, StepResult
from agentscope_rx.reactive import (
    Flow,
    SourceCancelledError,
    catch,
    concat_map,
    defer,
    flat_map_iterable,
    flow,
    just,
    map_at_most,
    then,
    throw,
)
from agentscope_rx.reactive import timeout as timed_out

AT_MOST = 16
"""The calls that `map_agent` makes at once, if nothing else is said."""


def sequential_pipeline(
    members: Iterable[Member] | Mapping[str, Member], msgs: CallInput = None, *, context: RuntimeContext | None = None
) -> Flow[Msg]:
    """Call the members in turn, each with the reply of the one before it; see `SequentialPipeline`.

    Signals: the last reply; a `StepError`.
    Cancels: the member in progress.
    """
    return SequentialPipeline(members).call(msgs, context=context)


def fanout_pipeline(
    members: Iterable[Member] | Mapping[str, Member],
    msgs: CallInput = None,
    *,
    at_most: int | None = None,
    timeout: float | None = None,
    on_error: OnError = "collect",
    context: RuntimeContext | None = None,
) -> Flow[tuple[StepResult, ...]]:
    """Call all members with the same input, at most `at_most` at once; see `FanOutPipeline`.

        for result in await fanout_pipeline([style, facts], "Is tea green?", timeout=60):
            print(result.member, result.value.text if result.ok else result.error)

    Signals: the `StepResult`s in the order of the members; with `on_error="raise"` a `FanOutError`.
    Cancels: the members in progress.
    """
    agents = tuple(members_of("fan-out", members).values())

    def pipeline(keep: Combine) -> FanOutPipeline:
        return FanOutPipeline(agents, at_most=at_most, timeout=timeout, on_error=on_error, combine=keep)

    def begin() -> Flow[tuple[StepResult, ...]]:
        found: list[tuple[StepResult, ...]] = []

        def keep(outcomes: tuple[StepResult, ...]) -> str:
            found.append(outcomes)
            return ""

        return pipeline(keep).call(given, context=context).pipe(then(lambda: just(found[-1] if found else ())))

    # wrong arguments are refused now
    pipeline(under_headings)
    given = parse_call(msgs, "fan-out").messages if msgs is not None else None
    return defer(begin)


def compose(
    first: Member, second: Member, name: str | None = None, **options: Unpack[PipelineOptions]
) -> SequentialPipeline:
    """A pipeline that calls `first`, then `second` with its reply."""
    members = as_agent(first), as_agent(second)
    return SequentialPipeline(members, name or f"{members[0].name}, then {members[1].name}", **options)


def map_agent(
    member: Member,
    *,
    at_most: int = AT_MOST,
    ordered: bool = True,
    timeout: float | None = None,
    on_error: OnError = "collect",
    memory: Callable[[], Memory] = InMemoryMemory,
    context: RuntimeContext | None = None,
) -> Callable[[Observable[Msg | str]], Flow[StepResult]]:
    """An operator that calls the member with each input, at most `at_most` at once, each in a fresh `memory()`.

        questions.pipe(map_agent(facts, at_most=2, timeout=60)).subscribe(print)

    While `at_most` calls are in progress, or the subscriber asks for no more, the source is not read. Inputs of a
    source without back-pressure (a `Subject`) wait. With `ordered=True` results come in the order of the inputs, and
    one that is ready counts as in progress until those before it have come. A failed call is a result with an `error`;
    with `on_error="raise"` it ends all. A reply with pending calls is a result like others, and its memory is gone.

    Signals: a `StepResult` for each input; the error of the source, or with `on_error="raise"` a `StepError`.
    Cancels: the source and the calls in progress.
    """
    agent = as_agent(member)
    check_on_error(on_error)
    if not callable(memory):
        raise ConfigurationError(
            f"memory must be a function that makes one, such as InMemoryMemory, not {memory!r:.60}."
        )
    limit = Step(agent.name, timeout=timeout).timeout

    def call(number: int, given: Msg | str) -> Flow[StepResult]:
        def begin() -> Flow[StepResult]:
            began = clock()
            reply = agent.nested(given, context, memory()).pipe(flat_map_iterable(reply_in))
            if limit is not None:
                reply = reply.pipe(timed_out(total=limit, error=partial(late, agent.name)))
            return reply.pipe(
                concat_map(lambda message: StepResult(agent.name, message, None, clock() - began)),
                catch(lambda error: failed(number, error, clock() - began)),
            )

        return defer(begin)

    def failed(number: int, error: Exception, elapsed: float) -> Flow[StepResult]:
        if isinstance(error, SourceCancelledError):
            return throw(error)
        kind = "timeout" if isinstance(error, StepTimeoutError) else "failed"
        if isinstance(error, CANCELLED):
            kind = "cancelled"
        text = str(error) if kind == "timeout" else describe(error)
        step = StepError("map", agent.name, number, text, kind, type(error).__name__)
        step.__cause__ = error
        return throw(step) if on_error == "raise" else just(StepResult(agent.name, None, step, elapsed))

    def over(source: Observable[Msg | str]) -> Flow[StepResult]:
        def begin() -> Flow[StepResult]:
            numbers = count(1)
            return flow(source).pipe(map_at_most(lambda given: call(next(numbers), given), at_most, ordered=ordered))

        return defer(begin)

    # a wrong at_most is refused now
    map_at_most(partial(call, 0), at_most)
    return over


def clock() -> float:
    """The time of the running loop."""
    return asyncio.get_running_loop().time()
