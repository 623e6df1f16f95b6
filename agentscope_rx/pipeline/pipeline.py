"""`Pipeline`: several agents as one, called in turn or at once as a program says.

    class Review(Pipeline):
        def program(self, progress: Progress) -> Program:
            match progress.rounds:
                case []:
                    return Step("Writer")                                   with the input of the run
                case [[draft]]:
                    return [Step("Critic", [draft.value]), Step("Lawyer", [draft.value])]       at once
                case [_, [critic, lawyer]]:
                    return Step("Writer", [critic.value, lawyer.value], output=True)
                case [*_, [final]]:
                    return final.value                                      the reply

    Review("Review", [writer, critic, lawyer]).call("Write about tea.")

A run of a pipeline is that of a ReAct agent in which the program takes the place of the model, and steps are the tool
calls: each is a run of a member, nested as a sub-agent's is. So what holds for tool calls holds for steps: they have
one result each, wait for approvals inside, are saved, resumed, interrupted, limited and shown in the stream.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from os import PathLike
from typing import Literal, cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.agent.hearing import ORIGIN, origin_of
from agentscope_rx.agent.interruption import LastWords
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.react.acting_agent import ActingAgent, tools_of_hooks
from agentscope_rx.agent.react.options import check_call_options
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.agent.run_history import run_history
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.structured_output.config import output_of
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.sub_agent.agent_tool import tool_name
from agentscope_rx.agent.when_busy import QUEUE_LIMIT, WhenBusy
from agentscope_rx.context import ContextStore, check_store
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import Event, MemoryEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import GenerateReason, Msg, MsgRole, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.msg import new_id
from agentscope_rx.models import ExecutionConfig
from agentscope_rx.models.checks import check_count
from agentscope_rx.pipeline.member_tool import GIVEN, Given, MemberTool
from agentscope_rx.pipeline.members import Member, members_of
from agentscope_rx.pipeline.steps import Next, Program, Progress, Step
from agentscope_rx.pipeline.trace import Trace, trace_of
from agentscope_rx.reactive import concat, concat_map, defer, flow, from_awaitable, just, onward, tail, take_until
from agentscope_rx.session import LeasePolicy, Session, WhenHeld
from agentscope_rx.tools import Tool, Toolkit
from agentscope_rx.tools.base import InDoubt

_TRACE = "trace"
"""The key in a run's extras of its `Trace`."""


class Pipeline(ActingAgent):
    """An agent that calls its members in the order that `program` decides. Subclass it and define `program`.

        class Twice(Pipeline):
            def program(self, progress: Progress) -> Program:
                return Step("Writer") if len(progress.rounds) < 2 else progress.rounds[-1][0].value

    `members` are agents, and functions of a message (`Msg -> Msg | str`, also async); a mapping gives functions their
    names. Names are unique. At most `at_most` steps of a round run at once; None is no limit.

    - **Memories**: in the pipeline's own conversation members use their own memories. In a call with `memory=`, and
      where the pipeline is a tool or a member, each member has a separate conversation, kept and saved with the
      pipeline's.
    - **State**: a run may go on in another process, so `program` reads all that it needs from its argument.
    - **Durability**: `checkpoint="stage"` saves the conversation before each step. Another process goes on there.
    - **Interruption**: interrupted members have `interrupt_grace` seconds to end.
    - **Rounds**: a run has at most `most_rounds` (1,000; None: no limit); then it ends with `UsageLimitError`.

    The other options are those of `ReActAgent`.
    """

    takes_output: bool = True
    """True if steps with `output=True` may give the structured output that a caller requests."""
    is_workflow: bool = True
    """For tracers: a program, and no model, decides on the next step."""

    most_rounds: int | None = 1000
    """The rounds that a program may ask for in a run, so that an endless one ends; None if it bounds them itself."""

    def __init__(
        self,
        name: str,
        members: Iterable[Member] | Mapping[str, Member],
        *,
        at_most: int | None = None,
        memory: Memory | None = None,
        hooks: Iterable[Hook] = (),
        limits: UsageLimits | None = None,
        pending: Literal["recover", "error"] = "recover",
        state_persistence: StatePersistence | None = None,
        shutdown: GracefulShutdown | None = None,
        check_running: bool = True,
        when_busy: WhenBusy = "error",
        queue_limit: int = QUEUE_LIMIT,
        interrupt_grace: float = 30.0,
        tracer: Tracer | None = None,
        context_store: ContextStore | None = None,
        session: Session | str | PathLike[str] | None = None,
        session_key: str | None = None,
        checkpoint: Literal["run", "stage"] = "run",
        lease: LeasePolicy | WhenHeld | None = None,
        in_doubt: InDoubt = "ask",
    ) -> None:
        super().__init__(
            name,
            memory if memory is not None else InMemoryMemory(),
            hooks=hooks,
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
        self.members: Mapping[str, AgentCore] = members_of(name, members)
        if name in self.members:
            raise ConfigurationError(f"Pipeline {name!r} has a member of its own name. Give one of them another name.")
        if at_most is not None:
            check_count("at_most", at_most)
        self.at_most = at_most
        self.max_iters: int = sys.maxsize
        self.pending_policy: str = pending
        self.in_doubt: InDoubt = in_doubt
        self.interrupt_grace: float = interrupt_grace
        check_call_options(self)
        self.tool_execution_config: ExecutionConfig | None = None
        self.context_store: ContextStore | None = check_store(context_store, "an agent")
        self._tools = {each: tool_name(each) for each in self.members}
        self._names = {tool: each for each, tool in self._tools.items()}
        self.toolkit: Toolkit = Toolkit(
            [self._tool(agent) for agent in self.members.values()],
            max_concurrency=at_most if at_most is not None else sys.maxsize,
            max_result=None,
        )
        self._hook_tools: dict[int, list[Tool]] = {}
        self._change_tools(self.hooks.all, ())
        self.hooks.on_change = tools_of_hooks(self)
        self._parts.check()

    def _tool(self, agent: AgentCore) -> MemberTool:
        return MemberTool(self, agent, interrupt_grace=self.interrupt_grace)

    def __repr__(self) -> str:
        names = list(self.members)
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"<{type(self).__name__} {self.name}, members: {shown or 'none'}>"

    # --- for subclasses -------------------------------------------------------------------------------------------

    @abstractmethod
    def program(self, progress: Progress) -> Program:
        """Return the steps of the next round, or the reply. It must be a pure function of `progress`.

        It returns a `Step`, a list of them that run at once, or a `Msg` or text: the reply. It may also return an
        awaitable or an Observable of one of these. It is called at the beginning of a run, after each round, and again
        when a run goes on, perhaps in another process: the same progress must give the same result. An error that it
        raises is that of the run; `result.value` raises the `StepError` of a failed member.
        """

    def program_in(self, run: Run, progress: Progress) -> Program:
        """`program` in this run. Override it in a subclass that keeps a state in the conversation."""
        return self.program(progress)

    def handle_interrupt(self, run: Run) -> LastWords:
        """The reply of an interrupted run: the message given to `interrupt`, else where it was interrupted."""
        trace = cast("Trace | None", run.extras.get(_TRACE))
        where = "before step 1" if trace is None else trace.where
        return just(run.interruption.message or Msg.assistant(f"I was interrupted {where}.", self.name))

    def progress_of(self, run: Run) -> Progress:
        """The progress of a run, without the round in progress."""
        trace = cast("Trace | None", run.extras.get(_TRACE))
        return Progress() if trace is None else trace.progress

    # --- the stages of a run --------------------------------------------------------------------------------------

    def requested(self, output: object) -> OutputRequest | None:
        """The `output=` of the call, which members of steps with `output=True` get."""
        request = output_of(output)
        if request is not None and not self.takes_output:
            raise ConfigurationError(f"{type(self).__name__} {self.name!r} does not take output=.")
        return None if request is None else OutputRequest(request, "prompted")

    def ask(self, run: Run, request: OutputRequest) -> None:
        """Nothing to do: the steps read the request of the run."""

    @property
    def model_names(self) -> Sequence[str]:
        """None: each member checks the prices of its own models."""
        return ()

    def route(self, run: Run) -> Stage:
        """The first stage: the open calls of an earlier run, else the program."""
        run.inbox.close()
        if not run.calls.open:
            return super().route(run)

        def begin(history: Sequence[Msg]) -> Stage:
            # a step that has not begun yet may need the input of the earlier run
            run.extras[_TRACE] = trace_of(run, self.name, self._names, history, goes_on=True)
            return super(Pipeline, self).route(run)

        return onward(run_history(run), begin)

    def reasoning(self, run: Run, *, sent_back: bool = False) -> Stage:
        """One question to the program: its next steps are remembered as calls, or its reply."""
        if run.durable is not None:
            return run.durable.before(run, "reasoning", partial(self._ask, run), sent_back=sent_back)
        return self._ask(run)

    def summarizing(self, run: Run, which: str | None = None) -> Stage:
        """The reply at a limit: it names the limit and the step."""
        return self._summary_at(run, which or "steps")

    def _summary_at(self, run: Run, which: str) -> Stage:
        """End with a reply that says where the limit was reached, and the last reply that there is."""
        trace = cast("Trace | None", run.extras.get(_TRACE))
        where = "before step 1" if trace is None else trace.where
        replies = [] if trace is None else [each.reply for each in trace.progress.results if each.reply is not None]
        said = f"\n\nThe last reply was:\n{replies[-1].text}" if replies else ""
        message = Msg.assistant(f"The limit for {which} was reached {where}.{said}", self.name)
        closing = run.close_open(ToolResultKind.REJECTED, f"The limit for {which} was reached before this step ran.")
        return concat(closing, defer(lambda: run.end_with(run.final(message, GenerateReason.LIMIT_REACHED))))

    # --- the rounds -----------------------------------------------------------------------------------------------

    def _ask(self, run: Run) -> Stage:
        if run.interrupted:
            return just(tail(lambda: self.end_interrupted(run)))
        return onward(run_history(run), partial(self._decide, run))

    def _decide(self, run: Run, history: Sequence[Msg]) -> Stage:
        trace = cast("Trace | None", run.extras.get(_TRACE))
        if trace is None:
            trace = trace_of(run, self.name, self._names, history, goes_on=False)
            run.extras[_TRACE] = trace
        trace.settle(run, history)
        if (limit := _limit_in(run, trace)) is not None:
            return just(tail(lambda: self.end_limited(run, *limit)))
        decided: object = self.program_in(run, trace.progress)
        if isinstance(decided, abc.ObservableBase):
            source = flow(cast("Observable[Next]", decided)).pipe(ops.take(1))
        elif isawaitable(decided):
            source = from_awaitable(decided)
        else:
            return self._follow(run, trace, decided)
        found = source.pipe(take_until(run.interruption.event), ops.to_list())
        return found.pipe(concat_map(lambda values: self._follow_first(run, trace, values)))

    def _follow_first(self, run: Run, trace: Trace, values: Sequence[object]) -> Stage:
        """Follow what an awaitable or an Observable has decided, unless it was cut off."""
        if values:
            return self._follow(run, trace, values[0])
        if run.interrupted:
            return just(tail(lambda: self.end_interrupted(run)))
        raise InvalidInputError(f"The program of pipeline {self.name!r} ended without a step or a reply.")

    def _follow(self, run: Run, trace: Trace, decided: object) -> Stage:
        if isinstance(decided, (Msg, str)):
            return run.end_with(self._reply(run, decided))
        steps = cast("Sequence[object]", (decided,)) if isinstance(decided, Step) else decided
        if not isinstance(steps, Sequence) or not steps or not _all_steps(cast("object", steps)):
            raise ConfigurationError(
                f"{type(self).__name__}.program must return a Step, a list of Steps, a Msg or a text, not "
                f"{decided!r:.60}."
            )
        if run.usage.limited and (limit := run.usage.before_model()) is not None:
            return just(tail(lambda: self.end_limited(run, *limit)))
        if (most := self.most_rounds) is not None and len(trace.rounds) >= most:
            return just(tail(lambda: self.end_limited(run, "rounds", most)))
        calls = self._calls(run, trace, cast("Sequence[Step]", steps))
        message = Msg.assistant(calls, self.name)
        trace.open = message
        event = MemoryEvent(source=run.source, added=(message,))
        return run.remember_then((message,), event, lambda: self._act(run, event, calls))

    def _act(self, run: Run, event: MemoryEvent, calls: Sequence[ToolUseBlock]) -> Stage:
        follow = tail(lambda: self.acting(run, calls))
        if MemoryEvent not in run.hooks.seen:
            return just(cast("Event", event), follow)
        return concat(run.hooks.watched(MemoryEvent, just(cast("Event", event))), just(follow))

    def _calls(self, run: Run, trace: Trace, steps: Sequence[Step]) -> list[ToolUseBlock]:
        """The steps as calls: each holds its messages as JSON, unless they are the input of the run."""
        mark = trace.mark()
        given = cast("dict[str, Given]", run.extras.setdefault(GIVEN, {}))
        given.clear()
        calls: list[ToolUseBlock] = []
        written: dict[int, list[dict[str, object]]] = {}
        for step in steps:
            tool = self._tools.get(step.member)
            if tool is None:
                known = ", ".join(map(repr, self.members)) or "none"
                raise ConfigurationError(f"Pipeline {self.name!r} has no member {step.member!r}. There are: {known}.")
            arguments: dict[str, object] = {}
            messages = None if step.input is None else tuple(step.input)
            if messages is not None and messages != trace.input:
                key = id(step.input)
                if key not in written:
                    written[key] = [message.to_dict() for message in messages]
                arguments["messages"] = written[key]
            if step.output:
                arguments["output"] = True
            if step.timeout is not None:
                arguments["timeout"] = step.timeout
            call = ToolUseBlock(f"step_{new_id()}", tool, arguments, metadata=mark)
            if "messages" in arguments and messages is not None:
                given[call.id] = Given(call, messages)
            calls.append(call)
        return calls

    def _reply(self, run: Run, decided: Msg | str) -> Msg:
        """The reply as this agent's own message."""
        if isinstance(decided, str):
            return run.final(Msg.assistant(decided, self.name), GenerateReason.MODEL_STOP)
        content = [block for block in decided.content if block.type not in ("tool_use", "tool_result")]
        metadata = dict(decided.metadata)
        origin = self._origin(run, decided)
        metadata.pop(ORIGIN, None)
        if origin is not None:
            metadata[ORIGIN] = origin
        if decided.name != self.name:
            metadata["member"] = decided.name
        message = Msg(self.name, content, MsgRole.ASSISTANT, metadata=metadata)
        reason = decided.generate_reason
        return run.final(message, reason if reason in _KEPT_REASONS else GenerateReason.MODEL_STOP)

    def _origin(self, run: Run, decided: Msg) -> str | None:
        """The id of what a member has said, if its reply is passed on unchanged."""
        for result in reversed(self.progress_of(run).results):
            if result.reply is not None and result.reply.id == decided.id:
                return origin_of(decided) if result.reply.content == decided.content else None
        return None


_KEPT_REASONS = frozenset(
    {GenerateReason.STRUCTURED_OUTPUT, GenerateReason.INTERRUPTED, GenerateReason.LIMIT_REACHED}
    | {GenerateReason.MAX_ITERATIONS}
)
"""What a member's reply says of its end holds for the pipeline that ends with it."""


def _limit_in(run: Run, trace: Trace) -> tuple[str, float] | None:
    """The limit of this run, or of one around it, that has ended a member in the last round."""
    if not run.usage.limited or not trace.rounds:
        return None
    if not any(each.error is not None and each.error.error_type == "UsageLimitError" for each in trace.rounds[-1]):
        return None
    return run.usage.before_model()


def _all_steps(steps: object) -> bool:
    return all(isinstance(each, Step) for each in cast("Sequence[object]", steps))
