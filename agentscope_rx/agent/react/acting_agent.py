"""`ActingAgent`: an agent whose runs go from round to round, each with a batch of tool calls; without a model.

    route -> reasoning -> acting -> reasoning -> ... -> Done          reasoning names the calls of a round, or the reply
                                 -> Done                              if calls wait for approval or for a result
                                 -> Done                              if results are the reply: `return_direct`
                       -> end_interrupted -> Done

What a round asks for is the subclass's: `ReActAgent` asks a model, a `Pipeline` its program.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast
from weakref import ref

from agentscope_rx.agent.agent import Agent
from agentscope_rx.agent.background.hook import BackgroundHook
from agentscope_rx.agent.background.policy import BackgroundPolicy
from agentscope_rx.agent.input import check_answers
from agentscope_rx.agent.interruption import Cut, LastWords, interrupt_reply
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.long_term import connect_long_term_memory
from agentscope_rx.agent.react.acting import acting
from agentscope_rx.agent.react.background_jobs import jobs_of, settle_lost
from agentscope_rx.agent.react.decide import Decision, at_begin
from agentscope_rx.agent.react.planning_hooks import hook_of
from agentscope_rx.agent.react.resuming import go_on_from
from agentscope_rx.agent.react.return_direct import direct_reply
from agentscope_rx.agent.react.steering import end_or_go_on
from agentscope_rx.agent.run import NOTHING, Run, Stage
from agentscope_rx.agent.sub_agent.agent_tool import sub_agent_tools
from agentscope_rx.agent.sub_agent.child_tool import child_tool
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.context import ContextStore, RuntimeContext, view_of
from agentscope_rx.errors import (
    AgentShuttingDownError,
    DuplicateToolError,
    InvalidInputError,
    PendingCallsError,
    UsageLimitError,
)
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.collection import OnChange
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Approve, GenerateReason, Msg, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, Scope, concat, concat_map, defer, just, tail, throw
from agentscope_rx.tools import InvalidArgumentsError, Tool, Toolkit
from agentscope_rx.tools.argument_wrappers import check_layers
from agentscope_rx.tools.base import InDoubt
from agentscope_rx.tools.client_tools import ClientTools

INTERRUPTED_REPLY = "I have been interrupted, and stopped what I was doing. What would you like me to do?"
NOT_RUN = "The conversation went on before this call was run; it had no effect."


class ActingAgent(Agent):
    """The rounds of a run, and the calls that it leaves pending. A subclass sets the attributes, and adds stages."""

    toolkit: Toolkit
    tool_execution_config: ExecutionConfig | None
    context_store: ContextStore | None
    max_iters: int
    pending_policy: str
    in_doubt: InDoubt
    interrupt_grace: float
    _hook_tools: dict[int, list[Tool]]
    _background: BackgroundPolicy | None = None

    @property
    @abstractmethod
    def model_names(self) -> Sequence[str]:
        """The models that its rounds may ask, for the prices of a limit on costs."""

    # --- stages --------------------------------------------------------------------------------------------------

    @abstractmethod
    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage:
        """The beginning of a round: the calls of it, or the reply."""

    @abstractmethod
    def summarizing(self, run: Run, which: str | None = None) -> Stage:
        """The end of a run at a limit that allows no further round."""

    @abstractmethod
    def _summary_at(self, run: Run, which: str) -> Stage:
        """What takes the place of an error at the limit that `which` names."""

    def end_limited(self, run: Run, which: str, limit: float) -> Stage:
        """End a run at one of its usage limits: with a summary, or with `UsageLimitError`."""
        if run.limits is not None and run.limits.on_limit == "summary":
            return self._summary_at(run, which.replace("_", " "))
        return throw(UsageLimitError(run.usage.owner_of(which, limit), which, limit))

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
        """One batch of tool calls: their execution, then the next stage."""
        if run.durable is not None:
            return run.durable.before(run, "acting", partial(acting, self, run, calls))
        return acting(self, run, calls)

    def handle_interrupt(self, run: Run) -> LastWords:
        """The reply of an interrupted run: the message given to `interrupt`, else a fixed sentence.

        Override it to return another message, or an awaitable or a Flow of one. Every call has its result by then.
        """
        return just(run.interruption.message or Msg.assistant(INTERRUPTED_REPLY, self.name))

    def end_interrupted(self, run: Run) -> Stage:
        """End an interrupted run: close its open calls, remember the reply.

        At the deadline a summary or an error takes the place of the reply. At a shutdown the run fails, and calls that
        have not begun stay pending.
        """
        if run.interruption.cut is Cut.DEADLINE:
            run.interruption.renew()
            return self._summary_at(run, "time")
        run.interruption.ended_by = run.interruption.source
        if run.interruption.cut is Cut.SHUTDOWN:
            return self._shut_down(run)

        def reply(message: Msg) -> Stage:
            final = run.final(message, GenerateReason.INTERRUPTED)
            return run.end_with(final)

        replied = interrupt_reply(lambda: self.handle_interrupt(run)).pipe(concat_map(reply))
        ended = concat(run.close_open(ToolResultKind.INTERRUPTED), replied)
        # after a crash the run ends, too: the request is saved
        return ended if run.durable is None else run.durable.before(run, "acting", lambda: ended)

    def _shut_down(self, run: Run) -> Stage:
        """Fail, and leave calls that have not begun pending: `call()` continues them, also in another process."""

        def end() -> Stage:
            run.calls.pending = True
            conversation = run.conversation
            conversation.cut_off = run.input.given
            return throw(AgentShuttingDownError(self.name, run.id, conversation.saved_as))

        return defer(end)

    # --- the beginning of a call -------------------------------------------------------------------------------------

    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]:
        """Take over the calls that an earlier run has left pending.

        Input can answer them; a call without input runs them; other input closes them with error results before it is
        remembered. Raises `InvalidInputError` for answers to other calls, `PendingCallsError` if `pending="error"`.
        """
        if run.usage.limited:
            run.usage.check_prices(self.model_names)
        conversation = run.conversation
        pending = conversation.pending_in(history, run)
        if not (pending or event.answers or run.durable) and not [each for each in event.input if each.tool_results]:
            return NOTHING
        children = conversation.children
        inside = {} if children is None else children.inside(pending)
        leaves = conversation.leaves(pending)
        check_answers(leaves, event.input, event.answers, run.input.given_ids, among=pending)
        for answer in event.answers:
            if isinstance(answer, Approve) and answer.input is not None:
                call = next(call for call in leaves if call.id == answer.call_id)
                child, pair = inside.get(call.id, (None, None))
                self._check_edit(run, call, answer.input, () if pair is None else pair.tools, child)
        answered = event.answers or any(message.tool_results for message in event.input)
        # only messages of the caller pass them by, not those that a hook adds to every call
        passed_by = bool(pending and run.input.given_ids and not answered)
        if passed_by and self.pending_policy == "error":
            raise PendingCallsError(self.name, tuple(call.id for call in leaves))
        run.input.passes_by = passed_by
        run.calls.take_over(pending)
        if event.answers:
            own = (answer for answer in event.answers if answer.call_id not in inside)
            conversation.approvals.add(own, run.calls.open)
            run.input.answered = frozenset(answer.call_id for answer in event.answers)
        if run.durable is not None:
            run.durable.answered(run, run.input.answered)
        if children is not None and inside:
            run.input.handed_down = children.hand_down(inside, event.answers, event.input)
            within = [inside[id][0].call_id for id in run.input.answered if id in inside]
            run.input.answered = run.input.answered.union(id for id in within if id is not None)
        if not passed_by:
            return NOTHING
        return cast("Flow[Event]", run.close_open(ToolResultKind.INTERRUPTED, NOT_RUN))

    def _check_edit(
        self,
        run: Run,
        call: ToolUseBlock,
        input: Mapping[str, object],
        within: Sequence[str] = (),
        child: SubConversation | None = None,
    ) -> None:
        """`InvalidInputError` for arguments of the caller that the tool does not accept: the model cannot correct them.

        `within` are the tools of the sub-agents that the call belongs to, outermost first; the first one's conversation
        is `child`.
        """
        toolkit = run.toolkit
        for name in within:
            sub_agent = child_tool(toolkit, name)
            inner = None if sub_agent is None else sub_agent.toolkit_of(child)
            if inner is None:
                return
            toolkit, child = inner, None
        tool = toolkit.get(call.name)
        if tool is None:
            return
        try:
            tool.validate(thaw(input))
        except InvalidArgumentsError as error:
            problems = "; ".join(error.problems)
            raise InvalidInputError(f"Approve({call.id!r}): tool {call.name!r} does not take {problems}") from error

    def route(self, run: Run) -> Stage:
        """Act if there are open calls, else reason; a run that resumes another one goes on where that one was."""
        jobs = run.conversation.jobs
        if jobs is not None and (lost := settle_lost(self, run, jobs)) is not None:
            return concat(lost, defer(lambda: self._first_stage(run)))
        return self._first_stage(run)

    def _first_stage(self, run: Run) -> Stage:
        if run.resumed is not None and (stage := go_on_from(self, run, run.resumed)) is not None:
            return stage
        calls = tuple(run.calls.open.values())
        if at_begin(calls=len(calls)) is Decision.ACT:
            return self.acting(run, calls)
        if not run.toolkit.returns_direct:
            return self.reasoning(run)

        def follow(history: Sequence[Msg]) -> Stage:
            # the input may have brought the last result of a batch
            reply = direct_reply(self, run, history)
            if at_begin(calls=0, direct=reply is not None) is Decision.RETURN and reply is not None:
                return end_or_go_on(self, run, reply)
            return just(tail(lambda: self.reasoning(run)))

        return run.history().pipe(concat_map(follow))

    def new_run(self, memory: Memory, scope: Scope, context: RuntimeContext | None, limits: UsageLimits | None) -> Run:
        run = super().new_run(memory, scope, context, limits)
        if self.context_store is not None:
            run.context_store = view_of(self.context_store)
        toolkit = self.toolkit
        if self._background is not None or toolkit.runs_background:
            run.conversation.jobs = jobs_of(self, run, self._background)
        groups = toolkit.groups
        brought = None if context is None or run.conversation.on_run is not None else context.get(ClientTools)
        if brought:
            run.toolkit = brought.over(toolkit)
        elif groups or toolkit.context_store is not None:
            # each conversation has its own active groups, and each run the context store of its beginning
            run.toolkit = toolkit.overlay()
        if groups:
            self.restored(run)
        if context is not None and context.tool_arguments:
            # a sub-agent gets the arguments of its parent, which may name tools of the parent
            others = None if run.conversation.on_run is not None else sub_agent_tools(self.toolkit)
            check_layers(context.tool_arguments, run.toolkit, others)
        return run

    def restored(self, run: Run) -> None:
        if run.toolkit.groups:
            if run.conversation.active_groups is not None:
                known = {group.name for group in run.toolkit.groups}
                run.toolkit.set_active_groups(name for name in run.conversation.active_groups if name in known)
            run.groups = run.toolkit.active_groups

    @property
    def _toolkit(self) -> Toolkit:
        return self.toolkit

    @property
    def own_tools(self) -> tuple[Tool, ...]:
        return tuple(self.toolkit)

    # --- tools of hooks ----------------------------------------------------------------------------------------------

    def _change_tools(self, added: Sequence[Hook], removed: Sequence[Hook]) -> None:
        """Register the tools of added hooks, all or none, and remove those of removed hooks."""
        for hook in added:
            hook.added_to(self)
        self._parts.check([hook for hook in added if hook not in self.hooks])
        added_tools: dict[int, list[Tool]] = {id(hook): [] for hook in added}

        # the first hook brings a shared tool, and it goes with the last one
        held = {tool.name: tool for tools in self._hook_tools.values() for tool in tools if tool.shared_by_hooks}

        def register(toolkit: Toolkit) -> list[Tool]:
            for hook in added:
                try:
                    for item in hook.tools():
                        known = held.get(item.name)
                        tool = item if known is item else toolkit.register(item)
                        if tool.shared_by_hooks:
                            held[tool.name] = tool
                        added_tools[id(hook)].append(tool)
                    for group, tools in hook.tool_groups().items():
                        toolkit.create_tool_group(group.name, group.description, notes=group.notes)
                        added_tools[id(hook)] += [toolkit.register(item, group=group.name) for item in tools]
                except DuplicateToolError as error:
                    raise DuplicateToolError(error.tool, hook.name) from error
            return [tool for tools in added_tools.values() for tool in tools]

        gone = {tool.name: tool for hook in removed for tool in self._hook_tools.pop(id(hook), ())}
        for tools in self._hook_tools.values():
            for tool in tools:
                if gone.get(tool.name) is tool:
                    del gone[tool.name]
        if gone:
            for name, tool in gone.items():
                self.toolkit.remove(name, only=tool)
        left = {group.name for hook in removed for group in hook.tool_groups()}
        if left := [group.name for group in self.toolkit.groups if group.name in left]:
            self.toolkit.remove_tool_groups(left)
        if added:
            self.toolkit.replace_tools({}, register)
            self._hook_tools.update({key: tools for key, tools in added_tools.items() if tools})
            connect_long_term_memory(self, added)
        hook = hook_of([*self.hooks.all, *added], BackgroundHook)
        self._background = None if hook is None or hook in removed else hook.policy


def tools_of_hooks(agent: ActingAgent) -> OnChange:
    """What registers and removes the tools of an agent's hooks; it holds the agent weakly, as the agent holds them."""
    return partial(_change_tools, ref(agent))


def _change_tools(held: ref[ActingAgent], added: Sequence[Hook], removed: Sequence[Hook]) -> None:
    agent = held()
    if agent is not None:
        agent._change_tools(added, removed)
