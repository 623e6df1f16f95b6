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
"""The result of a chunk hook that does not show the chunk."""

Answer = Event | Drop | None | Awaitable[Event | Drop | None] | abc.ObservableBase[Event]
"""What a hook may return."""

DEFAULT_PRIORITY = 100
OUTERMOST = -1_000_000
"""The priority of a tracer."""


class Hook:
    """Receives the events of a run and may change them. Hooks are called in order of `priority`, lowest first.

    Hooks of equal priority are called in order of registration. `kinds` selects events by class; None selects all
    events of a run. Three classes must be named in `kinds`: OutputChunkEvent, which repeats a ReasoningChunkEvent, and
    PreObserveEvent and PostObserveEvent, which belong to no run. An `observe_only` hook cannot change or stop anything;
    its errors are reported and the run continues, but the run waits for an awaitable or Observable that it returns.
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

        Instead a class may have a method for each kind, named by the event's type: `on_pre_acting(self, event)`,
        `on_reasoning_chunk`, `on_error`. A class with both calls them by `super().on_event(event)`.
        """
        method = cast("Callable[[Event], Answer] | None", getattr(self, _METHOD + event.type, None))
        return None if method is None else method(event)

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        """The reason for which this call must not run, or None. Asked before approvals, and again as the call begins.

        The model gets the text as a result of kind `rejected`. `tool` is None if there is no tool of this name. It
        answers at once; its error fails the run.
        """
        return None

    def approval(self, call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
        """True: the call waits for a person; False: it needs no approval; None: no opinion.

        Asked as a round is sorted and again as the call begins, with the arguments that the model sent; not about a
        call that cannot run. Of several hooks, and the toolkit's policy, one True wins. False lifts the tool's own
        `requires_approval`, unless it `always_asks`, and lets the call run although the caller has answered others of
        its batch only. It answers at once; its error fails the run.
        """
        return None

    def for_sub_agents(self) -> Hook | None:
        """The hook that is asked about the calls of sub-agents too: this one, a narrower one, or None.

        It gets the `source` of the run that this hook belongs to. Its `refusal` and an `approval` of True hold, however
        deep the sub-agent is; an `approval` of False allows a sub-agent nothing.
        """
        return None

    def compact(self, request: CompactionRequest) -> CompactionAnswer:
        """The compaction that the conversation needs before this model request, or None. Asked before every one.

        The agent writes the changes to memory, reports them, and goes on with the smaller conversation; it asks the
        hooks in their order, each about what the one before has left. A request that the provider refuses as too long
        is asked about once more, with its error: if memory was changed, the request is made again. Answer at once, by
        an awaitable, or by an Observable. An error fails the run, with a note that names the hook; a step that failed
        and may be left out is better told by a `ContextEvent` with an `error`. It is also asked by `agent.compact()`.

        Signals: at most one `Compaction`.
        Cancels: the work on it, at an interruption of the run too; nothing is changed then.
        """
        return None

    def notices(self, request: NoticeRequest) -> NoticeAnswer:
        """Events of the hook's own, which come in the stream before a model request or the PostCallEvent; or None.

        Asked before each round, before the summary, and at the end of a run that does not fail. Kinds: RetrievalEvent,
        whose tokens count for the run and its limits, CitationEvent, PlanEvent. The hook's work is waited for. Answer
        at once, by an awaitable, or by an Observable. An error fails the run, with a note that names the hook.

        Signals: any number of events.
        Cancels: the work on it; before a request at an interruption of the run, too.
        """
        return None

    def held(self, source: EventSource) -> Collection[str]:
        """The ids of messages that no compaction may change or summarise yet, such as input that is not judged.

        Asked before each compaction (`CompactionRequest.held`). It answers at once; its error fails the run.
        """
        return ()

    def revised(self, source: EventSource, history: Sequence[Msg]) -> Sequence[Msg]:
        """The messages that memory is to hold from now on; each replaces the one of its id. () for nothing.

        Asked at the end of every run, also of one that has failed or was disposed of, and reported by a MemoryEvent.
        It answers at once. Calls and results in a message stay as they are. Its error fails the run; if the run has
        failed already, it is reported.
        """
        return ()

    def added_to(self, agent: object) -> None:
        """The hook is about to be added to this agent; `ConfigurationError` if it does not fit it."""

    def tools(self) -> tuple[Tool, ...]:
        """The tools that are added to an agent together with this hook."""
        return ()

    def tool_groups(self) -> Mapping[ToolGroup, Sequence[Tool]]:
        """Groups of tools that are added to an agent together with this hook; they are inactive at first."""
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
    """A hook whose operators stand outside of all others; `ReActAgent(..., tracer=...)` adds one.

        class Spans(Tracer):
            def around_model(self, source, request):         # also call, stage, reasoning, acting, summarizing, tool
                return source.pipe(ops.do_action(...))

    It gets each part as a cold flow, with its request, and returns it, wrapped or not. So it sees subscription, every
    item (usage and results among them), the end and disposal. It is held to the rules of `around`, as every hook with
    such methods.

    A tracer that changes nothing has `probe_` methods instead. They cost less, need no checks, and choose the context
    variables, such as a current span, that the part runs with:

        class Times(Tracer):
            def probe_tool(self, request):                   # also call, stage, attempt
                return Stopwatch(request.call.name)          # a `Probe`, or None
    """

    priority = OUTERMOST
    alone: bool = False
    """True for a tracer in place of those of the process (see `hooks.process_wide`)."""
    beside: bool = False
    """True for a tracer of the process that stays where another one stands `alone`."""

    def probe_call(self, request: CallRequest) -> Probe[object] | None:
        """What sees a run: its events (those of sub-agents in a `ToolNested`), its wait for its turn and its end."""

    def probe_stage(self, request: StageRequest) -> Probe[object] | None:
        """What sees a stage: its events and, last, the next stage or the reply."""

    def probe_tool(self, request: ToolRequest) -> Probe[ToolEvent] | None:
        """What sees a tool call. One that is interrupted ends without a result."""

    def probe_attempt(self, request: AttemptRequest) -> Probe[ChatResponse] | None:
        """What sees one attempt of a model call; also of those that tools and sub-agents of the run make."""


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
    """Make a function or a method the hook of one kind of event and its subclasses.

    `observe=True` makes it an observer, which changes nothing and cannot fail the run.
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

    It gets the chunks of one stage at a time, and completes, and so is flushed, before the stage's Post event.
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
