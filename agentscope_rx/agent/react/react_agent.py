"""`ReActAgent`: reason, act, reason, ... until the model answers without calling a tool.

    route -> reasoning -> acting -> reasoning -> ... -> Done          each stage a Flow of events that ends with a tail
                       -> interrupted -> Done
                       -> summarizing -> Done                         when `max_iters` rounds are used up

`reasoning`, `acting`, `summarizing` and `handle_interrupt` are there to be overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from agentscope_rx.agent.agent import Agent, Stage
from agentscope_rx.agent.input import unanswered
from agentscope_rx.agent.react.acting import acting
from agentscope_rx.agent.react.reasoning import reasoning
from agentscope_rx.agent.react.summarizing import summarizing
from agentscope_rx.agent.run import Done, Run
from agentscope_rx.agent.tracer import Tracer
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.event import Event
from agentscope_rx.hook import Hook
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.message import GenerateReason, Msg, ToolResultKind, ToolUseBlock, open_calls
from agentscope_rx.model.chat_model import ChatModel
from agentscope_rx.model.options import ExecutionConfig, GenerateOptions
from agentscope_rx.reactive import Flow, and_then, concat, concat_map, defer, empty, just
from agentscope_rx.tool import Tool, Toolkit

INTERRUPTED_REPLY = "I have been interrupted, and stopped what I was doing. What would you like me to do?"
NOT_RUN = "The conversation went on before this call was run; it had no effect."


class ReActAgent(Agent):
    """An agent that answers by reasoning with a model and acting with tools.

    `tools` are functions, `@tool`s or `Tool` objects; or hand over a whole `toolkit` (copied). `max_iters` bounds the
    rounds of one call. `generate_options` are asked of the model in each; `model_execution_config` and
    `tool_execution_config` bound and repeat the single attempts. `check_running=False` lets calls overlap, on one
    memory, which is then in their order of arrival. `interrupt_grace` is how many seconds interrupted async tools have
    for their `finally` blocks.
    """

    def __init__(
        self,
        name: str,
        model: ChatModel,
        sys_prompt: str | None = None,
        *,
        tools: Iterable[Tool | Callable[..., object]] | None = None,
        toolkit: Toolkit | None = None,
        memory: Memory | None = None,
        hooks: Iterable[Hook] = (),
        max_iters: int = 10,
        generate_options: GenerateOptions | None = None,
        model_execution_config: ExecutionConfig | None = None,
        tool_execution_config: ExecutionConfig | None = None,
        check_running: bool = True,
        interrupt_grace: float = 5.0,
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__(
            name,
            memory if memory is not None else InMemoryMemory(),
            sys_prompt=sys_prompt,
            hooks=hooks,
            check_running=check_running,
            tracer=tracer,
        )
        if not isinstance(model, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"ReActAgent needs a model, such as OpenAIChatModel('gpt-5-mini'), not {model!r:.60}."
            )
        if not isinstance(max_iters, int) or isinstance(max_iters, bool) or max_iters < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"max_iters must be a whole number of at least 1, not {max_iters!r}.")
        if not isinstance(interrupt_grace, (int, float)) or interrupt_grace < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"interrupt_grace must be >= 0 seconds, not {interrupt_grace!r}.")
        _check_kind("generate_options", generate_options, GenerateOptions)
        _check_kind("model_execution_config", model_execution_config, ExecutionConfig)
        _check_kind("tool_execution_config", tool_execution_config, ExecutionConfig)
        self.model = model
        self.max_iters = max_iters
        self.interrupt_grace = interrupt_grace
        self.toolkit = _toolkit(tools, toolkit, self.hooks.all)
        self.tool_execution_config = tool_execution_config
        options = generate_options or GenerateOptions()
        if model_execution_config is not None:
            options = GenerateOptions(execution_config=model_execution_config).over(options)
        self.generate_options = options

    def __repr__(self) -> str:
        tools = ", ".join(self.toolkit.names) or "none"
        return f"<{type(self).__name__} {self.name}, model {self.model.model_name}, tools: {tools}>"

    # --- stages --------------------------------------------------------------------------------------------------

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage:
        """One model round; see `react.reasoning`."""
        return self._traced(run, "reasoning", lambda: reasoning(self, run, sent_back=sent_back))

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
        """One batch of tool calls; see `react.acting`."""
        return self._traced(run, "acting", lambda: acting(self, run, calls))

    def summarizing(self, run: Run) -> Stage:
        """The last word at `max_iters`; see `react.summarizing`."""
        return self._traced(run, "summarizing", lambda: summarizing(self, run))

    def handle_interrupt(self, run: Run) -> Flow[Msg]:
        """The reply of an interrupted run: the message given to `interrupt`, else a sentence that says so."""
        return just(run.interrupt_message or Msg.assistant(INTERRUPTED_REPLY, self.name))

    def interrupted(self, run: Run) -> Stage:
        """End an interrupted run: close what is open, remember the reply."""

        def reply(message: Msg) -> Stage:
            final = run.final(message, GenerateReason.INTERRUPTED)
            return run.remember((final,)).pipe(and_then(lambda: cast("Stage", just(Done(final)))))

        replied = defer(lambda: self.handle_interrupt(run)).pipe(concat_map(reply))
        return concat(run.close_open(ToolResultKind.INTERRUPTED), replied)

    # --- where a call begins -------------------------------------------------------------------------------------

    def admit(self, run: Run, input: tuple[Msg, ...]) -> Flow[Event]:
        """Settle the calls that an earlier run left open: the input answers them, or leaves them to be run (no input),
        or passes them by: then they get results that say so, before the input is remembered."""

        def settle(history: Sequence[Msg]) -> Flow[Event]:
            elsewhere = self._calls_of_others(run)
            pending = tuple(call for call in open_calls(history, self.name) if call.id not in elsewhere)
            unanswered(pending, input)
            run.open = {call.id: call for call in pending}
            passed_by = pending and input and not any(message.tool_results for message in input)
            if not passed_by:
                return empty()
            return cast("Flow[Event]", run.close_open(ToolResultKind.INTERRUPTED, NOT_RUN))

        return run.history().pipe(concat_map(settle))

    def route(self, run: Run) -> Stage:
        """Act if calls are still open, else reason."""
        calls = tuple(run.open.values())
        return self.acting(run, calls) if calls else self.reasoning(run)

    def _traced(self, run: Run, stage: str, begin: Callable[[], Stage]) -> Stage:
        return self.tracer.trace_stage(
            defer(begin), agent=self.name, run_id=run.id, stage=stage, iteration=run.iteration
        )


def _check_kind(name: str, given: object, kind: type) -> None:
    if given is not None and not isinstance(given, kind):
        raise ConfigurationError(f"{name} must be {kind.__name__}(...), not {given!r:.60}.")


def _toolkit(
    tools: Iterable[Tool | Callable[..., object]] | None, toolkit: Toolkit | None, hooks: Sequence[Hook]
) -> Toolkit:
    if tools is not None and toolkit is not None:
        raise ConfigurationError(
            "Give ReActAgent either tools or a toolkit; add the tools with toolkit.register(tool)."
        )
    if toolkit is not None and not isinstance(toolkit, Toolkit):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"toolkit must be a Toolkit, not {toolkit!r:.60}. Did you mean tools=[...]?")
    given = cast("object", tools)
    if given is not None and (isinstance(given, (str, Toolkit)) or not isinstance(given, Iterable)):
        # (a toolkit could be iterated, but its settings would be lost)
        hint = "toolkit=..." if isinstance(given, Toolkit) else "tools=[...]"
        raise ConfigurationError(f"tools takes a list of functions or tools, not {tools!r:.60}. Did you mean {hint}?")
    own = toolkit.copy() if toolkit is not None else Toolkit()
    for item in tools or ():
        own.register(item)
    for hook in hooks:
        for item in hook.tools():
            own.register(item)
    return own
