"""`Handoffs`: several agents with one conversation, of which one answers at a time and may transfer it to another.

    desk = Handoffs("Desk", [triage, Handoff(refunds, requires_approval=True), sales])
    await desk.call("I want my money back.")         triage transfers to refunds, which answers
    await desk.call("When will it be there?")        refunds answers: it is active

    reasoning(triage) -> acting: transfer_to_refunds -> [takes over] -> reasoning(refunds) -> Done

A call is one run: its memory, limits, pending calls and interruption are those of `Handoffs`. The active member gives
the model, the tools, the system prompt, the settings of its requests, and its hooks, and its name is in its messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import cast

from typing_extensions import Unpack

from agentscope_rx.agent.agent_parts import AgentParts
from agentscope_rx.agent.conversation import Conversation, Conversations
from agentscope_rx.agent.interruption import LastWords
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.react.acting import acting
from agentscope_rx.agent.react.react_agent import ReActAgent
from agentscope_rx.agent.react.reasoning import reasoning
from agentscope_rx.agent.react.steering import take_input
from agentscope_rx.agent.react.structured_output import change_toolkit
from agentscope_rx.agent.react.summarizing import summarizing
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.agent.structured_output.config import output_of
from agentscope_rx.agent.structured_output.request import OutputRequest, request_of
from agentscope_rx.agent.system_prompt import system_message
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks import CompiledHooks
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg, MsgRole, ToolUseBlock
from agentscope_rx.models.checks import check_count
from agentscope_rx.pipeline.handoff.active_member import ActiveMember
from agentscope_rx.pipeline.handoff.handoff import Handoff, members_of
from agentscope_rx.pipeline.handoff.history_hook import HistoryHook
from agentscope_rx.pipeline.handoff.state import STATE, HandoffState
from agentscope_rx.pipeline.handoff.transfer_tool import TransferTool
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.reactive import Flow, Scope, concat_map, just, then
from agentscope_rx.tools import Tool, ToolContext, Toolkit

MAX_HANDOFFS = 8
"""The transfers in one call, unless `max_handoffs` says otherwise."""

_FIRST = "first transfer of the round"
_MEMBER = "active member"


class Handoffs(ReActAgent):
    """Agents that transfer one conversation to one another. The next call goes to the member that was last active.

        team = Handoffs("Team", [triage, Handoff(refunds, description="For money to be paid back.")])

    `members` are `ReActAgent`s, or `Handoff`s with rules for transfers; the first one begins. Each has a tool
    `transfer_to_<name>` for each other one.

    - **A call** is one run. The active member gives it the model, tools, system prompt, request options and hooks, and
      its name to the messages.
    - **Bounds**: at most `max_handoffs` transfers in a call; a further one gets an error result. `max_iters` and
      `limits` count all members together.
    - **Members** do not use their own memory, session and `max_iters` here. A member with `limits` is refused.
    - **Hooks** of a member are called while it is active: those on PreCallEvent, input guardrails too, only if it is
      active when the call begins. Give hooks for every call to `Handoffs(..., hooks=[...])`.
    - **Saving**: the active member and the state of the members' hooks and tools are saved with the conversation.
    """

    def __init__(
        self,
        name: str,
        members: Iterable[ReActAgent | Handoff],
        *,
        max_handoffs: int = MAX_HANDOFFS,
        max_iters: int = 20,
        **options: Unpack[PipelineOptions],
    ) -> None:
        self._members = members_of(members)
        self._first = next(iter(self._members))
        if options.get("check_running", True) is not True:
            raise ConfigurationError("Handoffs has one active member at a time: leave check_running out.")
        check_count("max_handoffs", max_handoffs)
        self.max_handoffs: int = max_handoffs
        super().__init__(
            name,
            self._members[self._first].agent.model,
            self._prompt,
            max_iters=max_iters,
            **options,
        )
        if name in self._members:
            raise ConfigurationError(f"Handoffs and a member are both named {name!r}. Rename one of them.")
        self._transfers = {each: self._transfers_of(member) for each, member in self._members.items()}
        self._compiled: dict[str, tuple[CompiledHooks, CompiledHooks, CompiledHooks]] = {}
        self._conversations: Conversations = _Conversations(name, self._members, self._parts)
        self._register_states()
        for member in self._members.values():
            # a name that is taken is reported now
            self._toolkit_of(member)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, members: {', '.join(self._members)}>"

    @property
    def members(self) -> tuple[ReActAgent, ...]:
        """The members, in the order in which they were given."""
        return tuple(member.agent for member in self._members.values())

    @property
    def model_names(self) -> Sequence[str]:
        return tuple(name for member in self._members.values() for name in member.agent.model_names)

    def active(self, *, memory: Memory | None = None) -> ReActAgent:
        """The member that answers next, in the agent's own conversation or in that of `memory`."""
        state = STATE.get(self.conversation(memory))
        return self._member(state.next or state.active).agent

    def _register_states(self) -> None:
        """Save what hooks and tools of the members keep in themselves; a shared one once."""
        known = {id(part) for part in self.state_parts.values()}
        for member in self._members.values():
            for name, part in member.agent.state_parts.items():
                if id(part) not in known:
                    known.add(id(part))
                    self.register_state(f"{member.name}/{name}", part)

    def _transfers_of(self, member: Handoff) -> tuple[Tool, ...]:
        """The tools by which this member transfers the conversation."""
        others = [name for name in self._members if name != member.name] if member.to is None else member.to
        return tuple(TransferTool(self._members[name], self.max_handoffs, _is_first) for name in others)

    def _member(self, name: str) -> Handoff:
        """The member of this name; the first one for "", and for one that is no member any longer."""
        return self._members.get(name) or self._members[self._first]

    # --- the active member ----------------------------------------------------------------------------------------

    def _prompt(self, run: Run) -> Flow[str]:
        """Begin the call with the member that answers, whose system prompt it is."""
        conversation = run.conversation
        state = STATE.get(conversation)

        def prompt() -> Flow[str]:
            asked = system_message(self._active(run).agent.sys_prompt, run)
            return asked.pipe(concat_map(lambda message: just("" if message is None else message.text)))

        # pending calls are those of the member that has transferred
        if state.next and not conversation.pending and run.resumed is None:
            return self._enter_next(run, state).pipe(then(prompt))
        self._enter(run, self._member(state.active))
        return prompt()

    def _active(self, run: Run) -> Handoff:
        return cast("Handoff", run.extras[_MEMBER])

    def _core(self, run: Run) -> ActiveMember:
        return ActiveMember(self._active(run).agent, self)

    def _enter(self, run: Run, member: Handoff) -> None:
        """Let the run go on with the model, the tools and the hooks of this member."""
        run.extras[_MEMBER] = member
        run.hooks = self._hooks_of(member)
        toolkit = self._toolkit_of(member)
        if toolkit.groups and run.conversation.active_groups is not None:
            known = {group.name for group in toolkit.groups}
            toolkit.set_active_groups(name for name in run.conversation.active_groups if name in known)
        run.groups = toolkit.active_groups
        change_toolkit(run, toolkit)

    def _toolkit_of(self, member: Handoff) -> Toolkit:
        own = member.agent.toolkit
        shared = [tool for tool in self.toolkit if own.get(tool.name) is not tool]
        return own.overlay(*shared, *self._transfers[member.name])

    def _hooks_of(self, member: Handoff) -> CompiledHooks:
        """The hooks of all members and those of this one, compiled once for as long as they do not change."""
        shared, own = self.hooks.compiled, member.agent.hooks.compiled
        known = self._compiled.get(member.name)
        if known is None or known[0] is not shared or known[1] is not own:
            hooks = [*shared.all, *(hook for hook in own.all if not any(hook is each for each in shared.all))]
            if member.history is not None:
                hooks.append(HistoryHook(member))
            known = self._compiled[member.name] = (shared, own, CompiledHooks(hooks, agent=self.name))
        return known[2]

    def _enter_next(self, run: Run, state: HandoffState) -> Flow[None]:
        """Let the next member take over.

        Signals: one None; the error of memory.
        Cancels: the reading.
        """

        def enter(history: Sequence[Msg]) -> None:
            since = history[-1].id if history else ""
            STATE.change(run.conversation, lambda now: (now.taken_over(since), None))
            # a choice of tools that was released is the other member's
            run.options = None
            self._enter(run, self._member(state.next))

        return run.history().pipe(concat_map(enter))

    def _take_over(self, run: Run, state: HandoffState) -> Flow[None]:
        """The same within a call: the member's system prompt is made, too.

        Signals: one None; the error of memory or of the prompt.
        Cancels: the prompt that is being made.
        """

        def put(message: Msg | None) -> None:
            run.system_message = message

        def prompt() -> Flow[None]:
            return system_message(self._active(run).agent.sys_prompt, run).pipe(concat_map(put))

        return self._enter_next(run, state).pipe(then(prompt))

    # --- the life of a run ------------------------------------------------------------------------------------------

    def new_run(self, memory: Memory, scope: Scope, context: RuntimeContext | None, limits: UsageLimits | None) -> Run:
        run = super().new_run(memory, scope, context, limits)
        # who answers may change while the call waits for its turn: `_prompt` enters that member
        self._enter(run, self._member(STATE.get(run.conversation).active))
        return run

    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]:
        if run.resumed is None and any(message.role is not MsgRole.TOOL for message in event.input):
            STATE.change(run.conversation, lambda state: (state.asked(), None))
        return super().admit(run, event, history)

    def requested(self, output: object) -> OutputRequest | None:
        # one request for all members: made for the model that can do the least
        models = [member.agent.model for member in self._members.values()]
        request = request_of(output_of(output), min(models, key=lambda model: len(model.output_modes)), finish=False)
        if request is not None and request.tool is not None:
            for member in self._members.values():
                if request.name in member.agent.toolkit:
                    raise ConfigurationError(
                        f"Member {member.name!r} has a tool named {request.name!r}, the name of the response tool. "
                        "Give that another name: output=StructuredOutput(..., name='...')."
                    )
        return request

    def handle_interrupt(self, run: Run) -> LastWords:
        """The reply of an interrupted run: the active member's."""
        return self._active(run).agent.handle_interrupt(run)

    # --- stages --------------------------------------------------------------------------------------------------

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage:
        """One model round of the active member, after a transfer that is due."""
        state = STATE.get(run.conversation)
        if state.next and not run.interrupted:
            return self._take_over(run, state).pipe(then(lambda: self.reasoning(run, sent_back=sent_back)))
        core, durable = self._core(run), run.durable
        follow = partial(reasoning, core, run, sent_back=sent_back)
        if run.inbox.items or durable is not None:
            if durable is not None:
                follow = partial(durable.before, run, "reasoning", follow, sent_back=sent_back)
            return take_input(core, run, sent_back, follow)
        return follow()

    def acting(self, run: Run, calls: Sequence[ToolUseBlock]) -> Stage:
        """One batch of tool calls of the active member."""
        transfers = {tool.name for tool in self._transfers[self._active(run).name]}
        run.extras[_FIRST] = next((call.id for call in calls if call.name in transfers), None)
        core = self._core(run)
        if run.durable is not None:
            return run.durable.before(run, "acting", partial(acting, core, run, calls))
        return acting(core, run, calls)

    def summarizing(self, run: Run, which: str | None = None) -> Stage:
        """The summary of the active member, at `max_iters` or at a limit."""
        core = self._core(run)
        if run.durable is not None:
            return run.durable.before(run, "summarizing", partial(summarizing, core, run, which), limit=which)
        return summarizing(core, run, which)


class _Conversations(Conversations):
    """Conversations in which the messages of the members are those of the whole."""

    def __init__(self, name: str, members: Iterable[str], parts: AgentParts) -> None:
        super().__init__(name, parts)
        self._names = (name, *members)

    def of(self, memory: Memory) -> Conversation:
        conversation = super().of(memory)
        conversation.names = self._names
        return conversation


def _is_first(context: ToolContext) -> bool:
    """True for the first transfer of the batch in progress, in call order."""
    return isinstance(context.host, Run) and context.host.extras.get(_FIRST) == context.call.id
