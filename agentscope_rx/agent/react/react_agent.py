"""`ReActAgent`: reason, act, reason, ... until the model answers without calling a tool.

    route -> reasoning -> acting -> reasoning -> ... -> Done          each stage a Flow of events that ends with a tail
                                 -> Done                              if calls wait for approval or for a result
                                 -> Done                              if results are the reply: `return_direct`
                       -> end_interrupted -> Done
                       -> end_limited -> error | summarizing          at a usage limit
                       -> summarizing -> Done                         after `max_iters` rounds

A subclass may override `reasoning`, `acting`, `summarizing` and `handle_interrupt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Literal

from agentscope_rx.agent.input import check_kind, check_kinds
from agentscope_rx.agent.knowledge_option import with_knowledge
from agentscope_rx.agent.lifecycle import in_its_turn
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.long_term import LongTermMemoryMode, with_long_term_memory
from agentscope_rx.agent.react import structured_output as structured
from agentscope_rx.agent.react.acting_agent import ActingAgent, tools_of_hooks
from agentscope_rx.agent.react.compaction import compact_now
from agentscope_rx.agent.react.options import check_options, model_of, toolkit_of, window_of
from agentscope_rx.agent.react.planning_hooks import hook_of, plan_mode_of, with_planning
from agentscope_rx.agent.react.reasoning import reasoning
from agentscope_rx.agent.react.steering import take_input
from agentscope_rx.agent.react.summarizing import summarizing
from agentscope_rx.agent.run import NOTHING, Run, Stage
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.structured_output.config import output_of
from agentscope_rx.agent.structured_output.request import OutputRequest, request_of
from agentscope_rx.agent.system_prompt import SystemPrompt
from agentscope_rx.agent.when_busy import QUEUE_LIMIT, WhenBusy
from agentscope_rx.context import ContextStore, check_store
from agentscope_rx.errors import (
    ConfigurationError,
)
from agentscope_rx.events import Event
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.hooks.compaction import Compaction
from agentscope_rx.memory import InMemoryMemory, Memory, TokenWindow
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import NO_OPTIONS, ExecutionConfig, GenerateOptions
from agentscope_rx.reactive import Flow, concat, defer, just, tail
from agentscope_rx.session import LeasePolicy, Session, WhenHeld
from agentscope_rx.tools import Tool, Toolkit
from agentscope_rx.tools.base import InDoubt
from agentscope_rx.tools.meta_tool import META_TOOL

if TYPE_CHECKING:
    from agentscope_rx.agent.knowledge_option import KnowledgeOption
    from agentscope_rx.knowledge.citing.knowledge_hook import KnowledgeMode
    from agentscope_rx.long_term_memory import LongTermMemory
    from agentscope_rx.planning import PlanMode, PlanNotebook

INTERRUPTED_REPLY = "I have been interrupted, and stopped what I was doing. What would you like me to do?"
NOT_RUN = "The conversation went on before this call was run; it had no effect."


class ReActAgent(ActingAgent):
    """An agent that answers by reasoning with a model and acting with tools.

    **Model and prompt**

    - `model`: a `ChatModel`, or a name such as "openai:gpt-5-mini" (see `get_model`).
    - `sys_prompt`: a text, or a function of the `Run` that returns a text, None, an awaitable or an Observable. The
      agent calls it once for each run, before the hooks on PreCallEvent; its errors fail the run.
    - `memory_window`: the part of the memory that a request sends, a number of tokens or a `TokenWindow`; None sends
      all of it. Marks apply in both cases.
    - `generate_options` apply to every model call. A `tool_choice` that forces a call applies until the model has made
      it, or in every round with `repeat_tool_choice=True`.
    - `model_execution_config`, `tool_execution_config`: timeouts and retries.
    - `max_iters` bounds the model rounds of one call; `limits` bound its tokens, cost, calls and time.
    - `finish="tool"` also offers the model a tool for its answer (`generate_response`); plain text counts as its call.
      With an `output` the fields of that stand beside `response`.

    **Tools**

    - `tools`: functions, `@tool`s, `Tool`s, agents, schemas, or objects with `@tool` methods. A `toolkit` replaces
      them; the agent uses a copy.
    - `enable_meta_tool` gives the model the tool `reset_equipped_tools`, which activates and deactivates
      groups of tools for this conversation.
    - `context_store`: searched for objects that the call's context does not have.
    - `interrupt_grace`: the seconds that interrupted async tools have for their clean-up.
    - `plan_notebook` gives the model tools for a plan; with `plan_mode` it can only read until its plan is approved.

    **Calls**

    - `when_busy`: the effect of a call during another one in the same conversation. "error" refuses it, "queue" lets it
      wait (at most `queue_limit` calls), "replace" interrupts the run in progress.
    - `check_running=False` lets calls on one memory overlap; messages are stored in order of arrival.
    - `pending`: the fate of pending calls that new input does not answer. "recover" gives them error results, "error"
      fails the new call with `PendingCallsError`.
    - `in_doubt`: the fate of calls whose process ended while they ran: "ask" the caller, "run" them again, "fail".
    - `hooks`, `tracer` and `shutdown`: see `Hook`, `Tracer` and `GracefulShutdown`.

    **State and knowledge**

    - `session` (a `Session`, a path or a URL) and `session_key` bind the agent's own conversation at its first run,
      within that run: hooks see the loaded history, and if it cannot be loaded, the run fails and the next one tries
      again. Conversations in other memories are not bound. `checkpoint` and `lease` are those of `bind`.
      `state_persistence` selects the parts that are saved.
    - `long_term_memory` outlasts conversations. Mode "static" gives each call its notes and records it, "agent" gives
      the model tools to record and retrieve; "both" is the default.
    - `knowledge`: a knowledge base, or several. Mode "generic" (default) gives each call the passages for its question,
      "agentic" gives the model a tool to search; also "both" and "none".

    Subclasses may override `reasoning`, `acting`, `summarizing` and `handle_interrupt`. Each gets the `Run`.
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
        memory_window: TokenWindow | int | None = None,
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
        when_busy: WhenBusy = "error",
        queue_limit: int = QUEUE_LIMIT,
        interrupt_grace: float = 5.0,
        repeat_tool_choice: bool = False,
        tracer: Tracer | None = None,
        context_store: ContextStore | None = None,
        session: Session | str | PathLike[str] | None = None,
        session_key: str | None = None,
        long_term_memory: LongTermMemory | None = None,
        long_term_memory_mode: LongTermMemoryMode = "both",
        knowledge: KnowledgeOption | None = None,
        knowledge_mode: KnowledgeMode = "generic",
        checkpoint: Literal["run", "stage"] = "run",
        lease: LeasePolicy | WhenHeld | None = None,
        in_doubt: InDoubt = "ask",
        plan_notebook: PlanNotebook | None = None,
        plan_mode: PlanMode | bool = False,
    ) -> None:
        super().__init__(
            name,
            memory if memory is not None else InMemoryMemory(),
            sys_prompt=sys_prompt,
            hooks=with_planning(
                with_knowledge(
                    with_long_term_memory(hooks, long_term_memory, long_term_memory_mode), knowledge, knowledge_mode
                ),
                plan_notebook,
                plan_mode,
            ),
            check_running=check_running,
            when_busy=when_busy,
            queue_limit=queue_limit,
            tracer=tracer,
            limits=limits,
            state_persistence=state_persistence,
            shutdown=shutdown,
            session=session,
            session_key=session_key,
            checkpoint=checkpoint,
            lease=lease,
        )
        self.model: ChatModel = model_of(model)
        self.memory_window: TokenWindow | None = window_of(memory_window, self.model)
        self.max_iters = max_iters
        self.finish = finish
        self.pending_policy = pending
        self.in_doubt: InDoubt = in_doubt
        self.interrupt_grace: float = interrupt_grace
        self.repeat_tool_choice = repeat_tool_choice
        check_kinds(
            ("generate_options", generate_options, GenerateOptions),
            ("model_execution_config", model_execution_config, ExecutionConfig),
            ("tool_execution_config", tool_execution_config, ExecutionConfig),
        )
        check_options(self, enable_meta_tool)
        self.toolkit: Toolkit = toolkit_of(tools, toolkit)
        self._hook_tools: dict[int, list[Tool]] = {}
        if self.hooks.all:
            self._change_tools(self.hooks.all, ())
        self.hooks.on_change = tools_of_hooks(self)
        if enable_meta_tool and META_TOOL not in self.toolkit:
            self.toolkit.register_meta_tool()
        if finish == "tool":
            self.requested(None)
        self.tool_execution_config = tool_execution_config
        self.context_store: ContextStore | None = check_store(context_store, "an agent")
        options = generate_options or NO_OPTIONS
        if model_execution_config is not None:
            options = GenerateOptions(execution_config=model_execution_config).over(options)
        self.generate_options = options
        self._parts.check()

    def __repr__(self) -> str:
        tools = ", ".join(self.toolkit.names) or "none"
        return f"<{type(self).__name__} {self.name}, model {self.model.model_name}, tools: {tools}>"

    @property
    def model_names(self) -> Sequence[str]:
        return self.model.model_names

    # --- planning ------------------------------------------------------------------------------------------------

    @property
    def plan_notebook(self) -> PlanNotebook | None:
        """The notebook among the hooks, if there is one."""
        from agentscope_rx.planning import PlanNotebook

        return hook_of(self.hooks.all, PlanNotebook)

    def enter_plan_mode(self, *, memory: Memory | None = None) -> bool:
        """Turn plan mode on in the agent's conversation, or in that of `memory`; False if it was on.

        It is in force from the next tool call on. `ConfigurationError` if the agent has no `plan_mode`.
        """
        return plan_mode_of(self.name, self.hooks.all).enter(self.conversation(memory))

    def leave_plan_mode(self, *, memory: Memory | None = None) -> bool:
        """Turn plan mode off without a plan, as for `enter_plan_mode`; False if it was off."""
        return plan_mode_of(self.name, self.hooks.all).leave(self.conversation(memory))

    # --- context -------------------------------------------------------------------------------------------------

    def compact(self, *, memory: Memory | None = None) -> Flow[Compaction]:
        """Ask the hooks that compact (`Hook.compact`) to make the conversation smaller now, between runs.

        Memory keeps the originals: only what requests send becomes smaller. A bound conversation is saved; `load(at=)`
        goes back to the checkpoint before it. `ConfigurationError` if no hook of the agent compacts.

        Signals: one `Compaction`, with all that was changed and its steps; it is empty if nothing was to do, and ends
        where an interruption has ended the work. `AgentBusyError` while a call is running, the error of a hook, of the
        memory or of the session.
        Cancels: the work of the hook in progress; a write that has begun runs to its end.
        """
        if not self.hooks.compiled.compacting:
            raise ConfigurationError(
                f"Agent {self.name!r} has no hook that compacts: give it one with a method `compact` (Hook.compact)."
            )
        check_kind("memory", memory, Memory)
        where = memory if memory is not None else self.memory
        return in_its_turn(self, where, lambda run: compact_now(self, run, self.sys_prompt, self.state_persistence))

    # --- stages --------------------------------------------------------------------------------------------------

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage:
        """One model round, after enqueued input that is due. Override it to change or replace the round."""
        durable = run.durable
        if run.inbox.items or durable is not None:
            follow = partial(reasoning, self, run, sent_back=sent_back)
            if durable is not None:
                follow = partial(durable.before, run, "reasoning", follow, sent_back=sent_back)
            return take_input(self, run, sent_back, follow)
        return reasoning(self, run, sent_back=sent_back)

    def summarizing(self, run: Run, which: str | None = None) -> Stage:
        """The summary at `max_iters`, or at the usage limit named `which`."""
        if run.durable is not None:
            return run.durable.before(run, "summarizing", partial(summarizing, self, run, which), limit=which)
        return summarizing(self, run, which)

    def _summary_at(self, run: Run, which: str) -> Stage:
        """A last model call at a limit: for the structured output, if one is requested; else for a summary."""
        run.inbox.close()
        output = structured.output_of(run)
        if output is None or output.request.output is None:
            return just(tail(lambda: self.summarizing(run, which)))
        granted = output.last_chance(which)
        closing = run.close_open(ToolResultKind.REJECTED, f"The limit for {which} was reached before this call ran.")
        follow = self.reasoning if granted else partial(structured.give_up, self, output=output)
        return concat(closing, just(tail(lambda: follow(run))))

    def requested(self, output: object) -> OutputRequest | None:
        if output is None and self.finish != "tool":
            return None
        request = request_of(output_of(output), self.model, finish=self.finish == "tool")
        if request is not None and request.tool is not None and request.name in self.toolkit:
            raise ConfigurationError(
                f"The agent has a tool named {request.name!r}, the name of the response tool. Rename it, or "
                "give the other one a name: output=StructuredOutput(..., name='...')."
            )
        return request

    def ask(self, run: Run, request: OutputRequest) -> None:
        structured.request_output(run, request)

    def tidied(self, run: Run) -> Flow[Event]:
        output = structured.output_of(run)
        if output is None:
            return super().tidied(run) if run.memory.marked or run.hooks.revising else NOTHING
        return concat(structured.remove_traces(run, output), defer(lambda: super(ReActAgent, self).tidied(run)))
