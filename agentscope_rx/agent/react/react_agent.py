"""`ReActAgent`: reason, act, reason, ... until the model answers without calling a tool.

    route -> reasoning -> acting -> reasoning -> ... -> Done          each stage a Flow of events that ends with a tail
                                 -> Done                              when calls wait: for approval, for a result
                                 -> Done                              when results are the reply: `return_direct`
                       -> interrupted -> Done
                       -> limited -> error | summarizing              when a usage limit is reached
                       -> summarizing -> Done                         when `max_iters` rounds are used up

`reasoning`, `acting`, `summarizing` and `handle_interrupt` are there to be overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, cast

from agentscope_rx.agent.agent import Agent, Stage, check_kind
from agentscope_rx.agent.budget import check_prices, whose_limit
from agentscope_rx.agent.input import check_answers
from agentscope_rx.agent.interrupt_reply import LastWords, last_words
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.persistence import StatePersistence
from agentscope_rx.agent.react import structured_output as structured
from agentscope_rx.agent.react.acting import acting
from agentscope_rx.agent.react.decide import Decision, at_begin
from agentscope_rx.agent.react.reasoning import reasoning
from agentscope_rx.agent.react.return_direct import direct_reply
from agentscope_rx.agent.react.summarizing import summarizing
from agentscope_rx.agent.run import Cut, Run
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.structured_output.config import output_of
from agentscope_rx.agent.structured_output.request import OutputRequest, request_of
from agentscope_rx.agent.sub_agent.beneath import names_beneath
from agentscope_rx.agent.sub_agent.child_tool import child_tool
from agentscope_rx.agent.system_prompt import SystemPrompt
from agentscope_rx.agent.tracer import NO_TRACER, Tracer
from agentscope_rx.context import RuntimeContext
from agentscope_rx.context_store import ContextStore, check_store, view_of
from agentscope_rx.errors import (
    AgentShuttingDownError,
    ConfigurationError,
    InvalidInputError,
    PendingCallsError,
    UsageLimitError,
)
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import Approve, GenerateReason, Msg, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions
from agentscope_rx.reactive import Flow, Scope, concat, concat_map, defer, empty, just, tail, throw
from agentscope_rx.tools import InvalidArgumentsError, Tool, Toolkit
from agentscope_rx.tools.argument_wrappers import check_layers
from agentscope_rx.tools.meta_tool import META_TOOL

INTERRUPTED_REPLY = "I have been interrupted, and stopped what I was doing. What would you like me to do?"
NOT_RUN = "The conversation went on before this call was run; it had no effect."


class ReActAgent(Agent):
    """An agent that answers by reasoning with a model and acting with tools.

    `model` is a `ChatModel`, or names one: "openai:gpt-5-mini" (see `models.registry`). `sys_prompt` is a text, or a
    function of the `Run` that gives one: plain, async, or with an Observable.
    `tools` are functions, `@tool`s, `Tool`s, agents, schemas, or objects with `@tool` methods; or hand over a whole
    `toolkit` (copied). `max_iters` bounds the rounds of one call. `generate_options` are asked of the model in
    each; `model_execution_config` and `tool_execution_config` bound and repeat the single attempts; `limits` bound
    a call as a whole. With `enable_meta_tool` the model switches groups of tools itself, by `reset_equipped_tools`.
    A `tool_choice` that forces a call holds until the model has made it, and then leaves the choice to the model;
    `repeat_tool_choice=True` forces it in every round.
    `finish="tool"` offers the model a tool to answer by (`generate_response`), and takes plain text as its call.
    `pending` says what input does that neither answers nor runs the calls that an earlier run has left open: give
    them results that say so ("recover"), or fail with `PendingCallsError` ("error"). `check_running=False` lets
    calls overlap, on one memory, which is then in their order of arrival. `interrupt_grace` is how many seconds
    interrupted async tools have for their `finally` blocks. Tools find objects in `context_store` that the call's
    context does not have.
    """

    def __init__(
        self,
        name: str,
        model: ChatModel | str,
        sys_prompt: SystemPrompt | None = None,
        *,
        tools: Iterable[object] | None = None,
        toolkit: Toolkit | None = None,
        memory: Memory | None = None,
        hooks: Iterable[Hook] = (),
        max_iters: int = 10,
        generate_options: GenerateOptions | None = None,
        model_execution_config: ExecutionConfig | None = None,
        tool_execution_config: ExecutionConfig | None = None,
        enable_meta_tool: bool = False,
        finish: Literal["text", "tool"] = "text",
        pending: Literal["recover", "error"] = "recover",
        limits: UsageLimits | None = None,
        state_persistence: StatePersistence | None = None,
        shutdown: GracefulShutdown | None = None,
        check_running: bool = True,
        interrupt_grace: float = 5.0,
        repeat_tool_choice: bool = False,
        tracer: Tracer | None = None,
        context_store: ContextStore | None = None,
    ) -> None:
        super().__init__(
            name,
            memory if memory is not None else InMemoryMemory(),
            sys_prompt=sys_prompt,
            hooks=hooks,
            check_running=check_running,
            tracer=tracer,
            limits=limits,
            state_persistence=state_persistence,
            shutdown=shutdown,
        )
        if isinstance(model, str):
            from agentscope_rx.models import get_model as model_named

            model = model_named(model)
        if not isinstance(model, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                "ReActAgent needs a model, such as OpenAIChatModel('gpt-5-mini') or 'openai:gpt-5-mini', not "
                f"{model!r:.60}."
            )
        if not isinstance(max_iters, int) or isinstance(max_iters, bool) or max_iters < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"max_iters must be a whole number of at least 1, not {max_iters!r}.")
        if not isinstance(interrupt_grace, (int, float)) or interrupt_grace < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"interrupt_grace must be >= 0 seconds, not {interrupt_grace!r}.")
        check_kind("generate_options", generate_options, GenerateOptions)
        check_kind("model_execution_config", model_execution_config, ExecutionConfig)
        check_kind("tool_execution_config", tool_execution_config, ExecutionConfig)
        if pending not in ("recover", "error"):
            raise ConfigurationError(f"pending must be 'recover' or 'error', not {pending!r}.")
        if finish not in ("text", "tool"):
            raise ConfigurationError(f"finish must be 'text' or 'tool', not {finish!r}.")
        if not isinstance(repeat_tool_choice, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"repeat_tool_choice must be True or False, not {repeat_tool_choice!r:.60}.")
        self.model = model
        self.repeat_tool_choice = repeat_tool_choice
        self.finish = finish
        self.pending_policy = pending
        self.max_iters = max_iters
        self.interrupt_grace = interrupt_grace
        self.toolkit = _toolkit(tools, toolkit)
        self._brought: dict[int, list[Tool]] = {}
        self._bring(self.hooks.all, ())
        self.hooks.bringing = self._bring
        if not isinstance(enable_meta_tool, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"enable_meta_tool must be True or False, not {enable_meta_tool!r:.60}.")
        if enable_meta_tool and META_TOOL not in self.toolkit:
            self.toolkit.register_meta_tool()
        if finish == "tool":
            self.requested(None)
        self.tool_execution_config = tool_execution_config
        self.context_store = check_store(context_store, "an agent")
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
        return self._traced(run, "reasoning", partial(reasoning, self, run, sent_back=sent_back))

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
        """One batch of tool calls; see `react.acting`."""
        return self._traced(run, "acting", partial(acting, self, run, calls))

    def summarizing(self, run: Run, which: str | None = None) -> Stage:
        """The last word at `max_iters`, or at the limit that `which` names; see `react.summarizing`."""
        return self._traced(run, "summarizing", partial(summarizing, self, run, which))

    def handle_interrupt(self, run: Run) -> LastWords:
        """The reply of an interrupted run: the message given to `interrupt`, else a sentence that says so.

        Override it to say something else, by a message, a coroutine or a Flow of one; every call has its result by
        then.
        """
        return just(run.interrupt_message or Msg.assistant(INTERRUPTED_REPLY, self.name))

    def end_interrupted(self, run: Run) -> Stage:
        """End an interrupted run: close what is open, remember the reply.

        At a run's deadline a last word or an error takes the place of the reply; at a shutdown the run fails, with the
        calls that have not begun left pending.
        """
        if run.cut is Cut.DEADLINE:
            run.renew_interrupt()
            return self._last_word(run, "time")
        run.interrupted_by = run.interrupt_source
        if run.cut is Cut.SHUTDOWN:
            return self._shut_down(run)

        def reply(message: Msg) -> Stage:
            final = run.final(message, GenerateReason.INTERRUPTED)
            return cast("Stage", run.replied(final))

        replied = last_words(lambda: self.handle_interrupt(run)).pipe(concat_map(reply))
        return concat(run.close_open(ToolResultKind.INTERRUPTED), replied)

    def end_limited(self, run: Run, which: str, limit: float) -> Stage:
        """End a run at one of its usage limits: by a last word, or by `UsageLimitError`."""
        if run.limits is not None and run.limits.on_limit == "summary":
            return self._last_word(run, which.replace("_", " "))
        return throw(UsageLimitError(whose_limit(run, which, limit), which, limit))

    def _last_word(self, run: Run, which: str) -> Stage:
        """One question more at a limit: for the output, if one is asked for and has not come; else for a summary."""
        asking = structured.asking_of(run)
        if asking is None or asking.request.output is None:
            return just(tail(lambda: self.summarizing(run, which)))
        once_more = asking.last_chance(which)
        closing = run.close_open(ToolResultKind.REJECTED, f"The limit for {which} was reached before this call ran.")
        follow = self.reasoning if once_more else partial(structured.given_up, self, asking=asking)
        return concat(closing, just(tail(lambda: follow(run))))

    def _shut_down(self, run: Run) -> Stage:
        """Fail, with what has not begun left pending: `call()` goes on with it in another process."""

        def end() -> Stage:
            run.pending = True
            conversation = run.conversation
            conversation.cut_off = run.given
            return throw(AgentShuttingDownError(self.name, run.id, conversation.saved_as))

        return defer(end)

    # --- where a call begins -------------------------------------------------------------------------------------

    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]:
        """Settle the calls that an earlier run left open: the input answers them, or leaves them to be run (no input),
        or passes them by: then they get results that say so, before the input is remembered."""
        check_prices(run, self.model.model_names)
        conversation = run.conversation
        pending = conversation.pending_in(history, run)
        children = conversation.children
        inside = {} if children is None else children.inside(pending)
        leaves = pending if children is None else children.leaves(pending)
        check_answers(leaves, event.input, event.answers, run.said, among=pending)
        for answer in event.answers:
            if isinstance(answer, Approve) and answer.input is not None:
                call = next(call for call in leaves if call.id == answer.call_id)
                tools = inside[call.id][1].tools if call.id in inside else ()
                self._check_edit(run, call, answer.input, tools)
        answered = event.answers or any(message.tool_results for message in event.input)
        # the caller's own words pass them by; what a hook brings to each call does not
        passed_by = bool(pending and run.said and not answered)
        if passed_by and self.pending_policy == "error":
            raise PendingCallsError(self.name, tuple(call.id for call in leaves))
        run.passes_by = passed_by
        run.open = {call.id: call for call in pending}
        run.begun.update(run.open)
        conversation.answer((answer for answer in event.answers if answer.call_id not in inside), run.open)
        run.answered = frozenset(answer.call_id for answer in event.answers)
        if children is not None and inside:
            run.handed_down = children.hand_down(inside, event.answers, event.input)
            within = [inside[id][0].call_id for id in run.answered if id in inside]
            run.answered = run.answered.union(id for id in within if id is not None)
        if not passed_by:
            return empty()
        return cast("Flow[Event]", run.close_open(ToolResultKind.INTERRUPTED, NOT_RUN))

    def _check_edit(
        self, run: Run, call: ToolUseBlock, input: Mapping[str, object], within: Sequence[str] = ()
    ) -> None:
        """Refuse arguments of the caller's that the tool does not take: they are not for the model to correct.

        `within` are the tools of the sub-agents whose call it is, outermost first.
        """
        toolkit = run.toolkit
        for name in within:
            sub_agent = child_tool(toolkit, name)
            agent = None if sub_agent is None else sub_agent.agent
            if not isinstance(agent, ReActAgent):
                return
            toolkit = agent.toolkit
        tool = toolkit.get(call.name)
        if tool is None:
            return
        try:
            tool.validate(thaw(input))
        except InvalidArgumentsError as error:
            problems = "; ".join(error.problems)
            raise InvalidInputError(f"Approve({call.id!r}): tool {call.name!r} does not take {problems}") from error

    def route(self, run: Run) -> Stage:
        """Act if calls are still open, else reason."""
        calls = tuple(run.open.values())
        if at_begin(calls=len(calls)) is Decision.ACT:
            return self.acting(run, calls)
        if not run.toolkit.returns_direct:
            return self.reasoning(run)

        def follow(history: Sequence[Msg]) -> Stage:
            # the last result of a batch may have come with the input
            reply = direct_reply(self, run, history)
            if at_begin(calls=0, direct=reply is not None) is Decision.RETURN and reply is not None:
                return cast("Stage", run.replied(reply))
            return just(tail(lambda: self.reasoning(run)))

        return run.history().pipe(concat_map(follow))

    def new_run(self, memory: Memory, scope: Scope, context: RuntimeContext | None, limits: UsageLimits | None) -> Run:
        run = super().new_run(memory, scope, context, limits)
        run.context_store = view_of(self.context_store)
        run.toolkit = self.toolkit
        if self.toolkit.groups or self.toolkit.context_store is not None:
            # which are active is the conversation's own affair; the store is seen as it is now
            run.toolkit = self.toolkit.overlay()
        if self.toolkit.groups:
            if run.conversation.active_groups is not None:
                known = {group.name for group in self.toolkit.groups}
                run.toolkit.set_active_groups(name for name in run.conversation.active_groups if name in known)
            run.groups = run.toolkit.active_groups
        if context is not None and context.tool_arguments:
            # a sub-agent is given the layers of its parent, which are for tools of the parent, too
            others = None if run.conversation.bond is not None else names_beneath(self.toolkit)
            check_layers(context.tool_arguments, run.toolkit, others)
        return run

    def requested(self, output: object) -> OutputRequest | None:
        request = request_of(output_of(output), self.model, finish=self.finish == "tool")
        if request is not None and request.tool is not None and request.name in self.toolkit:
            raise ConfigurationError(
                f"The agent has a tool named {request.name!r}, as the one that takes the response is. Rename it, or "
                "give the other one a name: output=StructuredOutput(..., name='...')."
            )
        return request

    def ask(self, run: Run, request: OutputRequest) -> None:
        structured.ask(run, request)

    def tidied(self, run: Run) -> Flow[Event]:
        asking = structured.asking_of(run)
        return empty() if asking is None else structured.tidied(run, asking)

    def _bring(self, added: Sequence[Hook], removed: Sequence[Hook]) -> None:
        """Register the tools that hooks bring, all or none, and take back those that removed hooks have brought."""
        brought: dict[int, list[Tool]] = {id(hook): [] for hook in added}

        def register(toolkit: Toolkit) -> list[Tool]:
            for hook in added:
                brought[id(hook)] += [toolkit.register(item) for item in hook.tools()]
            return [tool for tools in brought.values() for tool in tools]

        gone = {tool.name: tool for hook in removed for tool in self._brought.pop(id(hook), ())}
        if gone:
            for name, tool in gone.items():
                self.toolkit.remove(name, only=tool)
        if added:
            self.toolkit.replace_tools({}, register)
            self._brought.update({key: tools for key, tools in brought.items() if tools})

    def _traced(self, run: Run, stage: str, begin: Callable[[], Stage]) -> Stage:
        if self.tracer is NO_TRACER:
            return begin()
        return self.tracer.trace_stage(
            defer(begin), agent=self.name, run_id=run.id, stage=stage, iteration=run.iteration
        )


def _toolkit(tools: Iterable[object] | None, toolkit: Toolkit | None) -> Toolkit:
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
        own.register_all(item)
    return own
