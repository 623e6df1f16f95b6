"""`MemberTool`: a member of a pipeline as a tool. A step is a call of it.

    arguments    {"messages": [...]}  none: the input of the run     {"output": true}  the requested output, too
    result       the blocks of the reply; metadata {"reply": {...}, "elapsed": 1.2}
                 or an error; metadata {"error_type": "...", "elapsed": 1.2}, and "cancelled": true if its own work was

In the pipeline's own conversation a member uses its own memory. In any other it has a conversation of its own, which
is kept with the pipeline's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from agentscope_rx.agent.lifecycle import close_pending
from agentscope_rx.agent.observe import as_observed
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.restoring import thaw_child
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.agent_tool import children_of, tool_name
from agentscope_rx.agent.sub_agent.child_tool import ChildTool
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.agent.sub_agent.running import AgentToolConfig, run_child
from agentscope_rx.errors import AwaitCancelledError, DeadlineError, SubAgentError, ToolError, ToolSuspend
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import GenerateReason, Msg, MsgRole, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.blocks import OUTPUT_TYPES
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.messages.msg import new_id, read_message
from agentscope_rx.messages.sources import reading
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.pipeline.members import FunctionAgent
from agentscope_rx.reactive import (
    Flow,
    SourceCancelledError,
    catch,
    concat_map,
    defer,
    empty,
    just,
    then,
    throw,
    timeout,
)
from agentscope_rx.tools import InvalidArgumentsError, ToolContext, Toolkit

GIVEN = "messages of steps"
"""The key in a run's extras of the messages of its steps, by call id: those in the arguments are JSON."""

ERRORS = "errors of steps"
"""The key in a run's extras of the errors of its steps, by call id."""

INPUT = "input of the pipeline"
"""The key in a run's extras of the messages that the pipeline was called with."""

CANCELLED = (AwaitCancelledError, SourceCancelledError)
"""The errors of a member whose own work was cancelled, but not by its pipeline."""

_PARAMETERS = freeze(
    {
        "type": "object",
        "properties": {
            "messages": {"type": "array", "items": {"type": "object"}},
            "output": {"type": "boolean"},
            "timeout": {"type": "number"},
        },
        "additionalProperties": False,
    }
)


_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "messages": ((list,), "a list of messages"),
    "output": ((bool,), "true or false"),
    "timeout": ((int, float), "a number of seconds"),
}


class Given(NamedTuple):
    """A step with its messages, which its arguments hold as JSON."""

    call: ToolUseBlock
    messages: tuple[Msg, ...]


class StepTimeoutError(DeadlineError):
    """A step took longer than its timeout."""


class MemberTool(ChildTool):
    """One member of a pipeline as a tool. Its failures are results: only a loop that shuts down is an error."""

    parameters: Mapping[str, object] = _PARAMETERS
    interruptible = False
    """The interruption is passed down: the member ends with its own reply."""
    execution_config: ExecutionConfig | None = ExecutionConfig(timeout=None)

    def __init__(
        self,
        pipeline: AgentCore,
        agent: AgentCore,
        *,
        interrupt_grace: float | None,
        fresh: bool = False,
        output: object = None,
    ) -> None:
        self._pipeline = pipeline
        self.agent = agent
        self.name: str = tool_name(agent.name)
        self.description: str = f"The member {agent.name} of a pipeline."
        self.config: AgentToolConfig = AgentToolConfig(interrupt_grace=interrupt_grace)
        self.output = output
        """What the member is asked for in every step, instead of the output that the pipeline's caller requests."""
        self.fresh: bool = fresh or isinstance(agent, FunctionAgent)
        """True if each step is a conversation of its own."""
        self.own_tools: bool = self.agent_toolkit is not None

    def __repr__(self) -> str:
        return f"<MemberTool {self.agent.name}>"

    @property
    def agent_toolkit(self) -> Toolkit | None:
        toolkit: object = getattr(self.agent, "toolkit", None)
        return toolkit if isinstance(toolkit, Toolkit) else None

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments are the program's, unless a hook or a person has changed them."""
        problems = [
            f"{name}: must be {_KINDS[name][1]}, not {type(value).__name__}" if name in _KINDS else f"{name}: unknown"
            for name, value in arguments.items()
            if name not in _KINDS or not isinstance(value, _KINDS[name][0])
        ]
        if problems:
            raise InvalidArgumentsError(self.name, problems)
        return arguments

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Fails: a step belongs to a run of its pipeline."""
        return throw(ToolError(f"Member {self.agent.name!r} is called by its pipeline only. Use agent.as_tool()."))

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        """One step: a run of the member, which begins, or continues after its pending calls were answered.

        Signals: `ToolNested` during the run, then the result: the reply, a placeholder if it has pending calls, or an
        error with its type.
        Cancels: the run; the repair of its memory runs to its end.
        """
        host = context.host
        if not isinstance(host, Run):
            return self.call(arguments)
        return defer(lambda: self._begin(arguments, context, host))

    def _begin(self, arguments: Mapping[str, object], context: ToolContext, host: Run) -> Flow[object]:
        call, clock = context.call, host.clock
        began = clock()
        children = children_of(host)
        child = children.of_call(call.id)
        if child is None:
            take = partial(children.take, id=None, at_most=1) if self.fresh else children.take_own
            child = take(self.name, call.id)
        taken = child
        output = self.output
        if output is None and host.request is not None and arguments.get("output"):
            output = host.request.output

        def form(call: ToolUseBlock, reply: Msg) -> ToolResultBlock:
            return result_of(call, reply, clock() - began)

        def run(_: Memory) -> Flow[object]:
            # the members of Handoffs speak for it by names of their own
            names = (self.agent.name,) if taken.conversation is None else taken.conversation.names
            messages = as_input(messages_of_step(host, call, arguments), names)
            return run_child(self.agent, taken, children, messages, context, host, self.config, output, form)

        def failed(error: Exception) -> Flow[object]:
            if isinstance(error, (SourceCancelledError, ToolSuspend)):
                return throw(error)
            return just(self._failure(host, call, error, clock() - began))

        events = self._memory(taken, host).pipe(concat_map(run))
        limit = arguments.get("timeout")
        if limit is not None:
            events = events.pipe(timeout(total=cast("float", limit), error=partial(late, self.agent.name)))
        return events.pipe(catch(failed))

    def _failure(self, host: Run, call: ToolUseBlock, error: Exception, elapsed: float) -> ToolResultBlock:
        cause = error.error if isinstance(error, SubAgentError) else error
        cast("dict[str, Exception]", host.extras.setdefault(ERRORS, {}))[call.id] = cause
        kind = ToolResultKind.TIMEOUT if isinstance(cause, StepTimeoutError) else ToolResultKind.FAILED
        text = str(cause) if kind is ToolResultKind.TIMEOUT else describe(cause)
        metadata: dict[str, object] = {"error_type": type(cause).__name__, "elapsed": elapsed}
        if isinstance(cause, CANCELLED):
            metadata["cancelled"] = True
        return replace(ToolResultBlock.error(call, kind, text), metadata=metadata)

    def _memory(self, child: SubConversation, host: Run) -> Flow[Memory]:
        """The memory of the member in this conversation, with what was loaded for it."""
        return self._thawed(child, own=not self.fresh and host.memory is self._pipeline.memory)

    def _thawed(self, child: SubConversation, *, own: bool) -> Flow[Memory]:
        if not own:
            return thaw_child(child, self.agent, InMemoryMemory)
        memory = self.agent.memory
        if child.memory is not None and child.memory is not memory:
            # the member was given another memory
            child.memory = child.conversation = None
        if child.frozen is None or memory.durable:
            return thaw_child(child, self.agent, lambda: memory)
        return memory.clear().pipe(then(lambda: thaw_child(child, self.agent, lambda: memory)))

    def close(self, child: SubConversation, kind: ToolResultKind, text: str | None) -> Flow[None]:
        pending = child.conversation is not None and child.conversation.pending
        if child.reply is None and child.frozen is None and not pending:
            return empty()
        children = self._pipeline.conversation().children
        own = not self.fresh and children is not None and any(each is child for each in children.all)
        return self._thawed(child, own=own).pipe(
            concat_map(lambda memory: close_pending(self.agent, memory, kind, text))
        )


def late(member: str, which: str, limit: float) -> Exception:
    """The error of a step that has taken longer than its timeout."""
    return StepTimeoutError(which, limit, f"Member {member!r}")


def describe(error: Exception) -> str:
    """The error in words."""
    name = type(error).__name__
    return f"{name}: {error}" if str(error) else name


def messages_of_step(host: Run, call: ToolUseBlock, arguments: Mapping[str, object]) -> tuple[Msg, ...] | None:
    """The messages that the member is called with; None for none."""
    found = arguments.get("messages")
    if found is None:
        return cast("tuple[Msg, ...]", host.extras.get(INPUT, ())) or None
    known = cast("dict[str, Given]", host.extras.get(GIVEN, {})).get(call.id)
    if known is not None and known.call is call:
        return known.messages or None
    # of another process, or changed by a hook or a person
    context = reading(None, lock=True)
    return tuple(read_message(each, context) for each in cast("list[dict[str, object]]", found)) or None


def as_input(messages: tuple[Msg, ...] | None, names: Collection[str]) -> tuple[Msg, ...] | None:
    """The messages for the member that speaks by these names: a reply of its own is a message to it, with a new id."""
    if messages is None or not any(each.name in names and each.role is MsgRole.ASSISTANT for each in messages):
        return messages
    return tuple(
        as_observed(each).replace(id=new_id()) if each.name in names and each.role is MsgRole.ASSISTANT else each
        for each in messages
    )


def result_of(call: ToolUseBlock, reply: Msg, elapsed: float) -> ToolResultBlock:
    """The result that holds this reply."""
    blocks = [block for result in reply.tool_results for block in result.output]
    output = tuple(blocks) or tuple(block for block in reply.content if isinstance(block, OUTPUT_TYPES))
    kept = {
        "name": reply.name,
        "role": reply.role.value,
        "id": reply.id,
        "timestamp": reply.timestamp,
        "generate_reason": reply.generate_reason.value,
        "metadata": reply.metadata,
    }
    kind = ToolResultKind.INTERRUPTED if reply.generate_reason is GenerateReason.INTERRUPTED else None
    return ToolResultBlock(call.id, call.name, output, kind, {"reply": kept, "elapsed": elapsed})


def reply_in(result: ToolResultBlock) -> Msg | None:
    """The reply that the result holds, with the blocks as hooks have left them; None for an error."""
    kept = result.metadata.get("reply")
    if not isinstance(kept, Mapping):
        return None
    known = cast("Mapping[str, str]", kept)
    return Msg(
        known["name"],
        result.output,
        known["role"],
        id=known["id"],
        timestamp=known["timestamp"],
        generate_reason=GenerateReason(known["generate_reason"]),
        metadata=cast("Mapping[str, object]", kept["metadata"]),
    )
