"""`PlanMode`: the model reads and plans, and changes nothing, until a person has approved its plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, cast

from pydantic import Field

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import Event, EventSource, PlanEvent, PreReasoningEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.system_hint import wrapped
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import shown
from agentscope_rx.parts import Part, Where
from agentscope_rx.planning.changes import PlanningHook, answer, source_of
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.tools import Tool, ToolContext, tool
from agentscope_rx.tools.options import check_flag

SUBMIT = "submit_plan"
ENTER = "enter_plan_mode"

_HINT = (
    "Plan mode is on: you can read and search, and you cannot change anything. Find out what you need to know, then "
    f"submit your plan by calling '{SUBMIT}'. The user approves it, and then you can use all tools; or rejects it with "
    "a reason, and then revise it."
)
_REFUSED = (
    f"Plan mode is on, and this tool may change something, so it was not run. Use tools that only read. When your plan "
    f"is ready, call '{SUBMIT}'; once the user has approved it, you can use this tool."
)
_REFUSED_INSIDE = (
    "The agent that called you is in plan mode, and this tool may change something, so it was not run. Use tools that "
    "only read, and answer what you would change."
)
_OFF = f"Plan mode is off: there is nothing to approve. Go on without '{SUBMIT}'."


class PlanMode(PlanningHook):
    """Refuses tools that may change something, until a person has approved the plan of the model.

        agent = ReActAgent("Friday", model, tools=[...], plan_mode=True)
        reply = agent.call("Rename the column").run()             it waits with a call of submit_plan
        agent.call(Approve(reply.pending_calls[0])).run()         all tools from now on
        agent.call(Reject(reply.pending_calls[0], "keep the old name, too")).run()        the model revises its plan

    | in plan mode, a call of | is |
    |---|---|
    | a tool with `read_only=True` | run, after its approval if it needs one |
    | a tool or sub-agent in `allow` | the same; calls of the sub-agent are under this table, too |
    | `submit_plan` | approved (perhaps edited) or rejected by the caller |
    | any other tool, a sub-agent too | rejected, without asking for its approval; the model reads why |

    | option | |
    |---|---|
    | `start` | the mode of a new conversation |
    | `allow` | further tools that may run in plan mode |
    | `enter_tool` | adds a tool by which the model can turn the mode on; that call runs alone |
    | `hint` | the text for the model in plan mode; "" is no hint |

    - `read_only` says that a tool changes nothing outside of the conversation. The planning tools and the reading tools
      of `FileTools` have it. A tool of an MCP server has what the
      server declares. For others: `toolkit.register(tool, read_only=True)`.
    - An approval turns the mode off for the conversation; `agent.enter_plan_mode()` and `leave_plan_mode()` switch it,
      also during a run, from the next tool call on.
    - The mode and a pending `submit_plan` are saved with the conversation.
    - `Approve(call, remember="tool")` approves later plans without asking, and a toolkit that asks for no approvals
      (`approval=lambda call: False`) asks for none of `submit_plan` either.
    """

    def __init__(
        self,
        *,
        start: bool = True,
        allow: Collection[str] = (),
        enter_tool: bool = False,
        hint: str | None = None,
        name: str = "plan_mode",
        priority: int = 100,
    ) -> None:
        super().__init__()
        check_flag("start", start)
        check_flag("enter_tool", enter_tool)
        if isinstance(allow, str) or not all(isinstance(each, str) for each in cast("Collection[object]", allow)):
            raise ConfigurationError(f"allow takes a list of names of tools, not {allow!r:.60}.")
        self.start = start
        self.allow: frozenset[str] = frozenset(allow)
        self.hint: str = _HINT if hint is None else hint
        self.priority = priority
        self._part: Part[bool] = Part(name, 1, start, dump=lambda on: {"on": on}, read=_read)
        own = _ModeTools(self._turn)
        tools = [own.submit_plan, *([own.enter_plan_mode] if enter_tool else [])]
        for each in tools:
            # the event of the change, then the text: no value of these is progress
            each.streams = False
        self._tools: tuple[Tool, ...] = tuple(tools)

    # --- the mode of a conversation -----------------------------------------------------------------------------------

    def is_on(self, where: Where = None) -> bool:
        """True if this conversation (`agent.conversation(memory)`) is in plan mode."""
        return self._part.get(where)

    def enter(self, where: Where = None) -> bool:
        """Turn the mode on, from the next tool call on; False if it was on."""
        return self._turn(where, EventSource(), on=True) is not None

    def leave(self, where: Where = None) -> bool:
        """Turn the mode off without a plan; False if it was off."""
        return self._turn(where, EventSource(), on=False) is not None

    def _turn(self, where: Where, source: EventSource, *, on: bool, text: str = "") -> PlanEvent | None:
        if not self._part.change(where, lambda before: (before if before is on else on, before is not on)):
            return None
        change = "mode_on" if on else "mode_off"
        event = PlanEvent(source=source, name=self._part.name, change=change, text=text)
        self._changes.emit(event)
        return event

    # --- the hook -----------------------------------------------------------------------------------------------------

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        """The text for a call that must not run now."""
        if not self.is_on(source):
            return _OFF if call.name == SUBMIT else None
        if tool is None or call.name == SUBMIT or tool.read_only or call.name in self.allow:
            return None
        return _REFUSED

    def for_sub_agents(self) -> Hook | None:
        """Returns a hook for sub-agents, which refuses their calls until this plan is approved."""
        return _Inherited(self)

    def on_pre_reasoning(self, event: Event) -> Event | None:
        """Add the hint of the mode, for this round only."""
        assert isinstance(event, PreReasoningEvent)
        return event.with_hint(wrapped(self.hint)) if self.hint and self.is_on(event.source) else None

    def tools(self) -> tuple[Tool, ...]:
        """`submit_plan`, and `enter_plan_mode` if asked for."""
        return self._tools

    def __repr__(self) -> str:
        return f"<PlanMode {self._part.name!r}, {'on' if self.start else 'off'} in a new conversation>"


class _Inherited(Hook):
    """The plan mode of a run above: a sub-agent may have one of its own, with the same tools."""

    kinds = ()

    def __init__(self, mode: PlanMode) -> None:
        self._mode = mode

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        if not self._mode.is_on(source) or tool is None or tool.read_only or call.name in self._mode.allow:
            return None
        return _REFUSED_INSIDE


class _ModeTools:
    """The tools of a `PlanMode`, which must not be registered without it."""

    def __init__(self, turn: Callable[..., PlanEvent | None]) -> None:
        self._turn = turn

    @tool(name=SUBMIT, read_only=True, requires_approval=True, always_asks=True)
    def submit_plan(
        self,
        plan: Annotated[str, Field(description="The whole plan, as the user is to read it.", min_length=1)],
        context: ToolContext,
    ) -> Flow[object]:
        """Submit your plan to the user, and wait for the approval. Only in plan mode."""

        def approved() -> Flow[object]:
            event = self._turn(context, source_of(context), on=False, text=plan)
            if event is None:
                return just(_OFF)
            text = "The user has approved the plan. Plan mode is off: you can use all tools. Follow the plan."
            return answer(context, text, event)

        return defer(approved)

    # (alone: the calls behind it in its round are in the mode, in a parallel toolkit, too)
    @tool(name=ENTER, read_only=True, exclusive=True)
    def enter_plan_mode(self, context: ToolContext) -> Flow[object]:
        """Turn plan mode on, before work that the user should agree to: you can only read until a plan is approved."""

        def enter() -> Flow[object]:
            event = self._turn(context, source_of(context), on=True)
            text = f"Plan mode is on. When your plan is ready, call '{SUBMIT}'."
            return answer(context, text, event)

        return defer(enter)


def _read(data: object) -> bool:
    given = cast("Mapping[str, object]", data if isinstance(data, Mapping) else {})
    on = given.get("on")
    if not isinstance(on, bool):
        raise InvalidInputError(f"The state of plan mode must be {{'on': true or false}}, not {shown(given, 60)}.")
    return on
