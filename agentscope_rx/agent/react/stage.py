"""`around_stage`: a stage with the operators of hooks around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.hooks import StageRequest
from agentscope_rx.hooks.wrapping.flows import AroundEvents
from agentscope_rx.hooks.wrapping.requests import StageName
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import Flow, defer


def around_stage(
    around: AroundEvents,
    run: Run,
    stage: StageName,
    begin: Callable[[], Stage],
    calls: Sequence[ToolUseBlock] = (),
) -> Stage:
    """The stage that `begin` makes for each attempt, with the operators around it.

    Signals: those of the operators, then the stage's tail or the reply; a `HookError`.
    Cancels: the operators, and with them the stage.
    """

    def over() -> Flow[object]:
        request = StageRequest(source=run.source, stage=stage, iteration=run.iteration, calls=tuple(calls))
        writes = run.writes
        return around.over(cast("Flow[object]", defer(begin)), request, lambda: run.writes != writes)

    return cast("Stage", defer(over))
