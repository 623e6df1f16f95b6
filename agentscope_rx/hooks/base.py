"""`Hook`: observes and changes the events of a run.

Four forms, one mechanism:

    class Audit(Hook):                      # one object for all kinds of events, or for those in `kinds`
        priority = 900
        def on_event(self, event): ...

    class Careful(Hook):                    # one object with a method for each kind
        def on_pre_acting(self, event): ...

    @hook(PreReasoningEvent, priority=10)   # one function for one kind
    def remind(event): return event.with_hint("Answer briefly.")

    hook_operator(ReasoningChunkEvent, ops.sample(0.1))     # an operator over the stream of one chunk kind

An operator around a whole call, a stage, a model call or a tool call is made by `around` (see `hooks.wrapping`), or is
a method of the class: `def around_model(self, source, request)`.

A hook returns the event, a changed copy, or None for "unchanged"; or, if it needs time, an awaitable or an Observable
of these. A chunk hook may also return `DROP`, or an Observable of any number of chunks.

An observer (`@hook(Kind, observe=True)`, `Hook.observe_only`) changes nothing: its result is ignored, and its errors
are reported while the run continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from types import MethodType
from typing import TYPE_CHECKING, Final, Generic, Literal, Never, Protocol, TypeVar, cast, overload

from reactivex import Observable, abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import ChunkEvent, Event
from agentscope_rx.events.base import kinds_of_events
from agentscope_rx.events.kinds import ActingChunkEvent

if TYPE_CHECKING:
    from agentscope_rx.events.base import EventSource
    from agentscope_rx.hooks.compaction import CompactionAnswer, CompactionRequest
    from agentscope_rx.hooks.notices import NoticeAnswer, NoticeRequest
    from agentscope_rx.hooks.wrapping.requests import CallRequest, StageRequest, ToolRequest
    from agentscope_rx.messages import Msg, ToolUseBlock
    from agentscope_rx.models.probing import AttemptRequest
    from agentscope_rx.models.response import ChatResponse
    from agentscope_rx.reactive import Probe
    from agentscope_rx.tools import Tool, ToolEvent
    from agentscope_rx.tools.groups import ToolGroup

E = TypeVar("E", bound=Event)


class Drop(Enum):
    """The type of `DROP`."""

    DROP = "drop"


DROP: Final = Drop.DROP
"""The answer of a hook on chunks that hides a chunk. The message stays as it is."""

Answer = Event | Drop | None | Awaitable[Event | Drop | None] | abc.ObservableBase[Event]
"""What a hook may return."""

DEFAULT_PRIORITY = 100
OUTERMOST = -1_000_000
"""The priority of a tracer."""


class Hook:
    """Receives the events of a run and may change them. The lowest `priority` comes first.

    Write `on_event`, or a method for each kind: `on_` and the event's type, such as `on_pre_acting(self, event)`. A
    misspelt name is a `ConfigurationError`.

    - `priority`: 100 by default. Hooks of equal priority run in order of registration.
    - `kinds`: the classes of events that the hook gets; None for all events of a run, or for those with a method.
    - `observe_only`: the hook cannot change or stop anything. The run waits for its awaitables, ignores its answers,
      and reports its errors to `on_dropped`.
    - `in_sub_agents`: agents that a `SubagentsHook` makes get the hook, too.

    A hook that sets no `kinds` does not get OutputChunkEvent (it repeats a ReasoningChunkEvent), PreObserveEvent and
    PostObserveEvent (they belong to no run): name them, or have a method for them.

    An error of a hook fails the run, with a note that names the hook. A run uses the hooks that the agent had when it
    was subscribed to.

    To redact, change both: the chunks, which are shown, and the Post event, which is remembered. `around("model", ...)`
    changes both in one place.
    """

    priority: int = DEFAULT_PRIORITY
    kinds: tuple[type[Event], ...] | None = None
    observe_only: bool = False
    in_sub_agents: bool = False
    """True if agents that are made for a `SubagentsHook` get this hook from their parent. One object then serves both:
    it must keep its state by conversation or by run, never in itself."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        # a class with methods for some kinds gets no others, unless it sets `kinds`
        if "kinds" not in vars(cls) and cls.on_event is Hook.on_event:
            named = _kinds_with_methods(cls)
            if named or _stands_around(cls) or _is_asked(cls):
                cls.kinds = named

    def on_event(self, event: Event) -> Answer:
        """Return the event, a changed copy, None (unchanged), or an awaitable or Observable of these.

        A hook on chunks may also return `DROP`, or an Observable of several chunks. Another class of event, or two
        values, are a `HookError`. By default `on_event` calls the method for the kind of event; a class with both calls
        these by `super().on_event(event)`.
        """
        method = cast("Callable[[Event], Answer] | None", getattr(self, _METHOD + event.type, None))
        return None if method is None else method(event)

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        """Return a text to refuse this call, or None.

        The model reads the text in a result of kind `rejected`. The run asks before approvals, and again as the call
        begins. `tool` is None if there is no tool of this name. Answer at once; an error fails the run.
        """
        return None

    def approval(self, call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
        """True: the call waits for a person; False: it needs no approval; None: no opinion.

        The run asks before a round's calls begin, and again as each one begins, with the model's arguments. It does not
        ask about a call that cannot run. Of several hooks, and the toolkit's policy, one True wins. False lifts the
        tool's own `requires_approval`, unless it `always_asks`; the call then runs even if the caller has answered only
        others of its round. Answer at once; an error fails the run.
        """
        return None

    def for_sub_agents(self) -> Hook | None:
        """Return the hook that decides about the calls of sub-agents: this one, a narrower one, or None.

        Its `refusal`, and an `approval` of True, hold at every depth; an `approval` of False allows a sub-agent
        nothing. So a sub-agent may do what all agents above it may, at most. The hook gets the `source` of this run.
        """
        return None

    def compact(self, request: CompactionRequest) -> CompactionAnswer:
        """Return a `Compaction` that makes the conversation smaller before this model request, or None.

        The run asks before every request of a round or summary, and `agent.compact()` asks between runs. Hooks are
        asked in order, each about the result of the one before. The agent writes the changes to memory in one step,
        emits a `ContextEvent` for each step and a `MemoryEvent`, and goes on with the smaller conversation. The tokens
        of a step's model call count for the run.

        If the provider refuses a request as too long, or its window has cut off the answer, the run asks once more
        (`request.why == "overflow"`). If memory was changed, a `RetryEvent` follows and the round begins again; else
        the error, or the answer, stands. If others have changed a message in the meantime, nothing is replaced.

        Answer at once, by an awaitable, or by an Observable. An error fails the run, with a note that names the hook:
        report a step that failed, and may be left out, by a `ContextEvent` with an `error`. Leave messages of
        `request.question` and `request.held`, and calls of `request.pending`, as they are.

        Signals: at most one `Compaction`.
        Cancels: the work on it, at an interruption of the run too; nothing is changed then.
        """
        return None

    def notices(self, request: NoticeRequest) -> NoticeAnswer:
        """Return events of the hook's own, for the stream, or None.

        The run asks before each round, before the summary, and before the PostCallEvent of a run that does not fail,
        and waits for the answer. The kinds are RetrievalEvent, CitationEvent and PlanEvent; the tokens of a
        RetrievalEvent count as one model call. Answer at once, by an awaitable, or by an Observable. An error fails the
        run, with a note that names the hook. A tool reports such an event by `ToolNotice(context.call, event)`.

        Signals: any number of events.
        Cancels: the work on it; before a request at an interruption of the run, too.
        """
        return None

    def held(self, source: EventSource) -> Collection[str]:
        """Return the ids of messages that no compaction may change yet, such as input that is not judged.

        The run asks before each compaction (`CompactionRequest.held`). Answer at once; an error fails the run.
        """
        return ()

    def revised(self, source: EventSource, history: Sequence[Msg]) -> Sequence[Msg]:
        """Return messages that replace those of the same ids in memory; () for none.

        The agent asks at the end of every run, also of one that has failed or was disposed of, and emits a MemoryEvent.
        Calls and results in a message must stay as they are. Answer at once. An error fails the run; after a failure it
        goes to `on_dropped`.
        """
        return ()

    def added_to(self, agent: object) -> None:
        """The hook is about to be added to this agent: raise a `ConfigurationError` if it does not fit."""

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools that an agent gets together with this hook.

        They are registered when the hook is added, and removed with it. Several hooks may return one tool object that
        has `shared_by_hooks = True`: it is removed with the last of them.
        """
        return ()

    def tool_groups(self) -> Mapping[ToolGroup, Sequence[Tool]]:
        """Return groups of tools that an agent gets together with this hook; they are inactive at first."""
        return {}

    @property
    def name(self) -> str:
        """The name of the hook in errors."""
        return type(self).__name__

    def __repr__(self) -> str:
        kinds = "every event" if self.kinds is None else " and ".join(kind.__name__ for kind in self.kinds)
        around = " and ".join(kind for kind in AROUND_KINDS if callable(getattr(self, AROUND + kind, None)))
        where = [*([f"on {kinds}"] if kinds else []), *([f"around {around}"] if around else [])]
        if type(self).compact is not Hook.compact:
            where.append("that compacts")
        what = "observer" if self.observe_only else "hook"
        return f"<{what} {self.name} {' and '.join(where)}, priority {self.priority}>"


_METHOD = "on_"
AROUND = "around_"
AROUND_KINDS = ("call", "stage", "reasoning", "acting", "summarizing", "model", "tool")
"""The kinds of `around`."""
_AROUND_NAMES = tuple(AROUND + kind for kind in AROUND_KINDS)


def _kinds_with_methods(cls: type[Hook]) -> tuple[type[Event], ...]:
    """The kinds that the class has methods for; a `ConfigurationError` for a misspelt name."""
    names = {_METHOD + kind.type: kind for kind in kinds_of_events()}
    for name in vars(cls):
        if name.startswith(_METHOD) and name not in names and name != "on_event":
            meant = get_close_matches(name, names, 1, 0.8)
            if meant:
                raise ConfigurationError(f"{cls.__name__}.{name} is called for no event. Did you mean {meant[0]}?")
    return tuple(kind for name, kind in names.items() if callable(getattr(cls, name, None)))


def _is_asked(cls: type[Hook]) -> bool:
    """True if the class is asked for compactions or notices."""
    return cls.compact is not Hook.compact or cls.notices is not Hook.notices


def _stands_around(cls: type) -> bool:
    """True if the class has operators around something; a `ConfigurationError` for a misspelt name."""
    for name, value in vars(cls).items():
        check_around_name(cls, name, value)
    return any(callable(getattr(cls, name, None)) for name in _AROUND_NAMES)


def check_around_name(cls: type, name: str, value: object) -> None:
    """`ConfigurationError` for a method with nearly the name of one that stands around something."""
    if name.startswith(AROUND) and name not in _AROUND_NAMES and callable(value):
        meant = get_close_matches(name, _AROUND_NAMES, 1, 0.8)
        if meant:
            raise ConfigurationError(f"{cls.__name__}.{name} stands around nothing. Did you mean {meant[0]}?")


def check_priority(what: str, priority: object) -> None:
    """`ConfigurationError` for a priority that hooks cannot be ordered by."""
    if isinstance(priority, bool) or not isinstance(priority, (int, float)) or priority != priority:
        raise ConfigurationError(
            f"{what} needs a number as its priority, such as {DEFAULT_PRIORITY} (the lowest is called first), not "
            f"{priority!r:.60}."
        )


class Tracer(Hook):
    """A hook whose operators stand outside of all others. `ReActAgent(..., tracer=...)` adds one.

        class Spans(Tracer):
            def around_model(self, source, request):         # also call, stage, reasoning, acting, summarizing, tool
                return source.pipe(ops.do_action(...))

    A method gets each part as a cold flow, with its request, and returns it, wrapped or not. So it sees subscription,
    every item (usage and results among them), the end and disposal. The rules of `around` apply.

    A tracer that changes nothing has `probe_` methods instead. They cost less, need no checks, and choose the context
    variables, such as a current span, that the part runs with. `trace_process(tracer)` of
    `agentscope_rx.hooks.process_wide` lets them see the runs of every agent:

        class Times(Tracer):
            def probe_tool(self, request):                   # also call, stage, attempt
                return Stopwatch(request.call.name)          # a `Probe`, or None
    """

    priority = OUTERMOST
    alone: bool = False
    """True for a tracer that replaces those of the whole process (see `agentscope_rx.tracing.instrument`)."""
    beside: bool = False
    """True for a tracer of the process that stays where another one stands `alone`."""

    def probe_call(self, request: CallRequest) -> Probe[object] | None:
        """Return a probe of a run: its wait for its turn, its events (a sub-agent's in a `ToolNested`), its end."""

    def probe_stage(self, request: StageRequest) -> Probe[object] | None:
        """Return a probe of a stage: its events and, last, the next stage or the reply."""

    def probe_tool(self, request: ToolRequest) -> Probe[ToolEvent] | None:
        """Return a probe of a tool call. An interrupted call ends without a result."""

    def probe_attempt(self, request: AttemptRequest) -> Probe[ChatResponse] | None:
        """Return a probe of one attempt of a model call, also of a call by tools and sub-agents of the run."""


class FunctionHook(Hook, Generic[E]):
    """One function for one kind of event; made by `@hook`."""

    def __init__(
        self, function: Callable[[E], Answer], kind: type[E], priority: int, observe_only: bool = False
    ) -> None:
        self.observe_only = observe_only
        self.function = function
        self.kind = kind
        self.kinds: tuple[type[Event], ...] | None = (kind,)
        self.priority = priority
        self.__doc__ = function.__doc__

    def on_event(self, event: Event) -> Answer:
        return self.function(cast("E", event))

    def __call__(self, event: E) -> Answer:
        return self.function(event)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionHook[E]:
        """Bind a method to its object, so that `hooks=[guard.check]` works."""
        if instance is None:
            return self
        bound = cast("Callable[[E], Answer]", MethodType(self.function, instance))
        return FunctionHook(bound, self.kind, self.priority, self.observe_only)

    def is_same(self, other: Hook) -> bool:
        """True if the other one is this hook. Each access to a method gives a new object."""
        if self is other:
            return True
        return isinstance(other, FunctionHook) and (self.function, self.kinds, self.priority, self.observe_only) == (
            cast("FunctionHook[Event]", other).function,
            other.kinds,
            other.priority,
            other.observe_only,
        )

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


class OperatorHook(Hook):
    """An operator over the stream of one chunk kind; made by `hook_operator`."""

    def __init__(self, kind: type[Event], operator: Callable[[Observable[Event]], Observable[Event]], priority: int):
        self.kinds: tuple[type[Event], ...] | None = (kind,)
        self.operator = operator
        self.priority = priority

    @property
    def name(self) -> str:
        return f"operator on {self.kinds[0].__name__}" if self.kinds else "operator"

    def __repr__(self) -> str:
        return f"<hook {self.name}, priority {self.priority}>"


class HookDecorator(Protocol[E]):
    """The decorator that `hook(kind)` returns, for a function of the event or a method."""

    @overload
    def __call__(self, function: Callable[[E], Answer], /) -> FunctionHook[E]: ...
    @overload
    def __call__(self, function: Callable[[Never, E], Answer], /) -> FunctionHook[E]: ...


class ObserverDecorator(Protocol[E]):
    """The decorator that `hook(kind, observe=True)` returns: the function's result is ignored."""

    @overload
    def __call__(self, function: Callable[[E], object], /) -> FunctionHook[E]: ...
    @overload
    def __call__(self, function: Callable[[Never, E], object], /) -> FunctionHook[E]: ...


@overload
def hook(kind: type[E], *, priority: int = ..., observe: Literal[False] = ...) -> HookDecorator[E]: ...
@overload
def hook(kind: type[E], *, priority: int = ..., observe: bool) -> ObserverDecorator[E]: ...
def hook(
    kind: type[E], *, priority: int = DEFAULT_PRIORITY, observe: bool = False
) -> HookDecorator[E] | ObserverDecorator[E]:
    """Make a function or a method the hook of one kind of event, and of its subclasses.

    The function returns what `Hook.on_event` returns. `observe=True` makes it an observer: it changes nothing, and its
    errors cannot fail the run.
    """
    if not (isinstance(kind, type) and issubclass(kind, Event)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"@hook needs a class of events, as in @hook(PreReasoningEvent), not {kind!r}.")

    check_priority("@hook", priority)

    def decorate(function: Callable[[E], Answer] | Callable[[Never, E], Answer]) -> FunctionHook[E]:
        # a method is bound by FunctionHook.__get__
        return FunctionHook(cast("Callable[[E], Answer]", function), kind, priority, observe)

    return decorate


def hook_operator(
    kind: type[E], operator: Callable[[Observable[E]], Observable[E]], *, priority: int = DEFAULT_PRIORITY
) -> OperatorHook:
    """Apply an operator, stock or your own, to the chunks of one kind as they are shown.

    It gets the chunks of one stage at a time. Its source completes before the stage's Post event, which flushes it. An
    operator that completes early shows no more; the stage continues. Its error fails the run.
    """
    given = cast("object", kind)
    if not (isinstance(given, type) and issubclass(given, (ChunkEvent, ActingChunkEvent))):
        raise ConfigurationError(
            f"hook_operator works on chunk events, not on {given!r}: exactly one event must "
            "come out for each of those. Use @hook(...)."
        )
    if not callable(operator):
        raise ConfigurationError(f"hook_operator needs an operator, such as ops.sample(0.1), not {operator!r:.60}.")
    check_priority("hook_operator", priority)
    return OperatorHook(kind, cast("Callable[[Observable[Event]], Observable[Event]]", operator), priority)
