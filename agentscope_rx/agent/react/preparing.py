"""`notices_before`: what hooks report before a round or a summary, such as what they have retrieved for it."""

from __future__ import annotations

from functools import partial
from typing import Literal

from agentscope_rx.agent.notices import noticed
from agentscope_rx.agent.react.stage import ReActCore
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.hooks.notices import NoticeRequest
from agentscope_rx.reactive import defer, just, tail


def notices_before(
    agent: ReActCore,
    run: Run,
    before: Literal["round", "summary"],
    stage: Stage,
    *,
    limited: bool = True,
    limit_reached: bool = False,
) -> Stage:
    """Ask the hooks, then the stage. They are asked outside of the operators around it.

    `limited` is False if the stage is not held to the limits of usage, to which the hooks' model calls count, too.

    Signals: the notices, then those of the stage; instead of the stage a tail if the run is interrupted, or at a limit.
    Cancels: the hook in progress, or the stage.
    """

    def ask() -> Stage:
        request = NoticeRequest(
            before=before,
            source=run.source,
            history=run.history(),
            model=agent.model,
            iteration=run.iteration,
            limit_reached=limit_reached,
        )
        return noticed(run, request, partial(unless_over, agent, run, stage, limited=limited))

    return defer(ask)


def unless_over(agent: ReActCore, run: Run, stage: Stage, *, limited: bool) -> Stage:
    """The stage; the end if the run was interrupted, or has come to a limit, before it could begin."""
    if run.interrupted:
        return just(tail(lambda: agent.end_interrupted(run)))
    limit = run.usage.before_model() if run.usage.limited and limited else None
    if limit is not None:
        return just(tail(lambda: agent.end_limited(run, *limit)))
    return stage
