"""What stages share: `ActingCore` and `ReActCore` (the agent), `around_stage`, `probed_stage` and `sent_of`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, cast

from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.hooks import StageRequest
from agentscope_rx.hooks.wrapping.flows import AroundEvents
from agentscope_rx.hooks.wrapping.probes import Probes
from agentscope_rx.hooks.wrapping.requests import StageName
from agentscope_rx.memory import TokenWindow
from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions
from agentscope_rx.reactive import Flow, defer
from agentscope_rx.tools.base import InDoubt


class ActingCore(Protocol):
    """An agent, as the stages see it that need no model. The methods are documented at `ActingAgent`."""

    name: str
    max_iters: int
    tool_execution_config: ExecutionConfig | None
    in_doubt: InDoubt

    @property
    def interrupt_grace(self) -> float: ...

    @property
    def discards_partial(self) -> bool: ...

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage: ...

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage: ...

    def summarizing(self, run: Run, which: str | None = None) -> Stage: ...

    def end_interrupted(self, run: Run) -> Stage: ...

    def end_limited(self, run: Run, which: str, limit: float) -> Stage: ...


class ReActCore(ActingCore, Protocol):
    """A ReAct agent, as its stages see it."""

    model: ChatModel
    generate_options: GenerateOptions
    repeat_tool_choice: bool
    memory_window: TokenWindow | None


def sent_of(agent: ReActCore, run: Run, history: Sequence[Msg]) -> Sequence[Msg]:
    """The part of the history that a request sends: by marks and short forms, and then by the agent's window."""
    window, conversation = agent.memory_window, run.conversation
    if not run.memory.marked:
        return history if window is None else window.of(history, pending=conversation.unsettled or (), marked=False)
    view = conversation.view.of(history)
    return view.messages if window is None else window.of_view(view, pending=conversation.unsettled or ())


def probed_stage(
    agent: ActingCore, probes: Probes, run: Run, stage: StageName, flow: Stage, calls: Sequence[ToolUseBlock] = ()
) -> Stage:
    """The stage, seen by the probes of tracers, as one of the agent whose model and settings it uses.

    Signals: those of the stage.
    Cancels: the stage.
    """
    if not probes.stages:
        return flow
    # a member of `Handoffs` has stages in a run that is not its own
    source = run.source if agent.name == run.source.agent else replace(run.source, agent=agent.name)
    request = StageRequest(source=source, stage=stage, iteration=run.iteration, calls=tuple(calls))
    return probes.stage(flow, request)


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
