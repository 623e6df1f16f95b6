"""Methods of an agent's class that are hooks by their names.

    class MyAgent(ReActAgent):
        def post_acting(self, event: PostActingEvent): ...           # as a function with @hook(PostActingEvent)

| method                                                      | gets                                                 |
|-------------------------------------------------------------|------------------------------------------------------|
| `pre_call`, `post_call`; `pre_reply`, `post_reply`          | PreCallEvent, PostCallEvent (two names each)         |
| `pre_reasoning`, `post_reasoning`                           | PreReasoningEvent, PostReasoningEvent                |
| `pre_acting`, `post_acting`                                 | PreActingEvent, PostActingEvent                      |
| `pre_summary`, `post_summary`                               | PreSummaryEvent, PostSummaryEvent                    |
| `reasoning_chunk`, `acting_chunk`, `summary_chunk`          | the chunks of one kind                               |
| `pre_print`, `post_print`                                   | every chunk; `post_print` as all others have left it |
| `output_chunk`                                              | OutputChunkEvent                                     |
| `on_input`                                                  | InputEvent: see `enqueue()`                          |
| `on_retry`, `on_memory`, `on_plan`, `on_error`              | RetryEvent, MemoryEvent, PlanEvent, ErrorEvent       |
| `on_context`, `on_background`, `on_hub`                     | ContextEvent, BackgroundEvent, HubEvent              |
| `on_retrieval`, `on_citation`                               | RetrievalEvent, CitationEvent                        |
| `pre_observe`, `post_observe`                               | PreObserveEvent, PostObserveEvent: see `observe()`   |
| any name, with `@hook(Kind, priority=...)`                  | that kind                                            |
| `around_call`, `around_stage`, `around_reasoning`, ...      | the flow of it, and the request: see `around`        |

A method of a base class is a hook of the subclass, unless the subclass overrides it (and may call `super()`). The names
are checked when the agent is built: a misspelt one is a `ConfigurationError`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, cast, get_type_hints

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    ActingChunkEvent,
    BackgroundEvent,
    CitationEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    HubEvent,
    InputEvent,
    MemoryEvent,
    OutputChunkEvent,
    PlanEvent,
    PostActingEvent,
    PostCallEvent,
    PostObserveEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreObserveEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    RetrievalEvent,
    RetryEvent,
    SummaryChunkEvent,
)
from agentscope_rx.hooks.base import AROUND, DEFAULT_PRIORITY, Answer, FunctionHook, Hook, check_around_name
from agentscope_rx.hooks.wrapping.around_hook import PLACES, AroundHook

LAST = 1_000_000
"""The priority of `post_print`: it gets the chunks as they are shown."""


class _Named(NamedTuple):
    kinds: tuple[type[Event], ...]
    exactly: bool = False
    priority: int = DEFAULT_PRIORITY


_CHUNKS = (ReasoningChunkEvent, ActingChunkEvent, SummaryChunkEvent)
_NAMES: dict[str, _Named] = {
    "pre_call": _Named((PreCallEvent,)),
    "pre_reply": _Named((PreCallEvent,)),
    # a PreSummaryEvent is a PreReasoningEvent, but has its own method
    "pre_reasoning": _Named((PreReasoningEvent,), exactly=True),
    "reasoning_chunk": _Named((ReasoningChunkEvent,)),
    "post_reasoning": _Named((PostReasoningEvent,)),
    "pre_acting": _Named((PreActingEvent,)),
    "acting_chunk": _Named((ActingChunkEvent,)),
    "post_acting": _Named((PostActingEvent,)),
    "pre_summary": _Named((PreSummaryEvent,)),
    "summary_chunk": _Named((SummaryChunkEvent,)),
    "post_summary": _Named((PostSummaryEvent,)),
    "post_reply": _Named((PostCallEvent,)),
    "post_call": _Named((PostCallEvent,)),
    "output_chunk": _Named((OutputChunkEvent,)),
    "on_input": _Named((InputEvent,)),
    "on_retry": _Named((RetryEvent,)),
    "on_memory": _Named((MemoryEvent,)),
    "on_context": _Named((ContextEvent,)),
    "on_background": _Named((BackgroundEvent,)),
    "on_hub": _Named((HubEvent,)),
    "on_retrieval": _Named((RetrievalEvent,)),
    "on_citation": _Named((CitationEvent,)),
    "on_plan": _Named((PlanEvent,)),
    "on_error": _Named((ErrorEvent,)),
    "pre_observe": _Named((PreObserveEvent,)),
    "post_observe": _Named((PostObserveEvent,)),
    "pre_print": _Named(_CHUNKS),
    "post_print": _Named(_CHUNKS, priority=LAST),
}

_AROUND = {AROUND + kind: kind for kind in PLACES}

_NO_HOOKS = {
    "reply": "it would never be called: override reasoning or acting, or hook in with pre_reply and post_reply",
    "_reasoning": "it would never be called: override reasoning(run)",
    "_acting": "it would never be called: override acting(run, calls)",
    "_summarizing": "it would never be called: override summarizing(run)",
}


class MethodHook(Hook):
    """One method of an agent with the name of a hook."""

    def __init__(self, method: Callable[[Event], Answer], name: str, named: _Named) -> None:
        self.method = method
        self.priority: int = named.priority
        self.kinds: tuple[type[Event], ...] | None = named.kinds
        self._name = name
        self._exactly = named.exactly

    @property
    def name(self) -> str:
        return self._name

    def on_event(self, event: Event) -> Answer:
        if self._exactly and type(event) not in (self.kinds or ()):
            return None
        return self.method(event)


def method_hooks(owner: object) -> tuple[Hook, ...]:
    """The hooks among the methods of the owner's class, in the order of the table; then those made by `@hook`.

    `ConfigurationError` for a method that cannot be called with an event, or with the misspelt name of a hook.
    """
    found = _checked(type(owner))
    if not found:
        return ()
    hooks: list[Hook] = [
        _method_hook(owner, name, found[name]) for name in _NAMES if name in found and not _is_hook(found[name][1])
    ]
    for name, (cls, value) in found.items():
        label = f"{cls.__name__}.{name}"
        if isinstance(value, FunctionHook):
            bound = cast("FunctionHook[Event]", value).__get__(owner)
            hooks.append(_DecoratedMethod(bound, label))
        elif isinstance(value, AroundHook):
            hooks.append(_AroundMethod(value.kind, value.__get__(owner).operator, value.priority, label))
        elif name in _AROUND:
            hooks.append(_AroundMethod(_AROUND[name], getattr(owner, name), DEFAULT_PRIORITY, label))
    return tuple(hooks)


class _AroundMethod(AroundHook):
    """A method that stands around something, with its class in its name."""

    def __init__(self, kind: str, method: Callable[..., object], priority: int, name: str) -> None:
        self._name = name
        super().__init__(kind, method, priority, name)

    @property
    def name(self) -> str:
        return self._name


class _DecoratedMethod(FunctionHook[Event]):
    """A method that `@hook` has made a hook, with its class in its name."""

    def __init__(self, bound: FunctionHook[Event], name: str) -> None:
        super().__init__(bound.function, bound.kind, bound.priority, bound.observe_only)
        self._name = name

    @property
    def name(self) -> str:
        return self._name


_Found = dict[str, tuple[type, object]]
"""Attributes of a class and its bases, each with the class that defines it; bases first."""


class _Checked:
    """The hooks of a class, and the attributes of it and its bases as they were when these were looked for."""

    __slots__ = ("attributes", "hooks")

    def __init__(self) -> None:
        self.attributes: tuple[dict[str, object], ...] = ()
        self.hooks: _Found = {}


_KNOWN = "_hooks_of_class"


def _checked(owner: type) -> _Found:
    """The attributes that are hooks; `ConfigurationError` for a misspelt name. Looked for again if a class changes."""
    classes = owner.__mro__
    known = vars(owner).get(_KNOWN)
    if isinstance(known, _Checked) and len(known.attributes) == len(classes):
        for cls, before in zip(classes, known.attributes, strict=True):
            # by identity, for nearly all of the values
            if vars(cls) != before:  # pyright: ignore[reportUnnecessaryComparison]
                break
        else:
            return known.hooks
    found = {name: (cls, value) for cls in reversed(classes) for name, value in vars(cls).items()}
    hooks: _Found = {}
    for name, (cls, value) in found.items():
        if isinstance(value, (FunctionHook, AroundHook)) or name in _AROUND or name in _NAMES:
            hooks[name] = (cls, value)
        else:
            check_around_name(cls, name, value)
            _check_name(cls, name, value)
    known = _Checked()
    # kept by the class itself: its functions refer to it
    setattr(owner, _KNOWN, known)
    known.hooks, known.attributes = hooks, tuple(dict(vars(cls)) for cls in classes)
    return hooks


def _is_hook(value: object) -> bool:
    return isinstance(value, FunctionHook)


def _method_hook(owner: object, name: str, found: tuple[type, object]) -> MethodHook:
    label = f"{found[0].__name__}.{name}"
    method: object = getattr(owner, name)
    if not callable(method):
        raise ConfigurationError(f"{label} is the name of a hook: it must be a method, not {method!r:.60}.")
    taken = _parameters(method)
    if taken is not None and not _takes_one(taken):
        raise ConfigurationError(
            f"{label} is called with the event alone: `def {name}(self, event)`. It returns a changed "
            "copy of the event, or None."
        )
    return MethodHook(cast("Callable[[Event], Answer]", method), label, _NAMES[name])


def _parameters(method: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(method)
    except (TypeError, ValueError):
        return None


def _takes_one(signature: inspect.Signature) -> bool:
    try:
        signature.bind(object())
    except TypeError:
        return False
    return True


# --- misspelt names -----------------------------------------------------------------------------------

_PREFIXED = re.compile(r"(pre|post)_(\w+)")
_STEMS = {
    prefix: tuple(name.removeprefix(prefix) for name in _NAMES if name.startswith(prefix))
    for prefix in ("pre_", "post_")
}


def _check_name(cls: type, name: str, value: object) -> None:
    if name in _NO_HOOKS and callable(value):
        raise ConfigurationError(f"{cls.__name__}.{name} is no hook here: {_NO_HOOKS[name]}.")
    meant = _closest(name)
    if meant is not None and _looks_like_a_hook(value):
        raise ConfigurationError(
            f"{cls.__name__}.{name} is no hook. Did you mean {meant}? (If it is none, give it another name, such as "
            f"_{name}.)"
        )


@lru_cache(maxsize=4096)
def _closest(name: str) -> str | None:
    """The hook whose name was misspelt; None if the name may mean something else."""
    match = _PREFIXED.fullmatch(name)
    if match is None:
        return None
    prefix, stem = f"{match[1]}_", match[2]
    if stem in _NAMES:
        # pre_reasoning_chunk: a chunk has one hook, not one before and one after
        return stem
    for known in _STEMS[prefix]:
        if (len(known) > 6 and _edits(stem, known) <= 2) or (len(known) <= 6 and _is_misspelt_short(stem, known)):
            return prefix + known
    return None


def _is_misspelt_short(stem: str, known: str) -> bool:
    """One letter too many, too few, or swapped. A different letter makes another word (print, paint)."""
    other_letters = len(stem) == len(known) and sorted(stem) != sorted(known)
    return stem[0] == known[0] and not other_letters and _edits(stem, known) <= 1


def _edits(one: str, other: str) -> int:
    """The number of letters missing, added, different or swapped with a neighbour (optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            best = min(row[j - 1] + 1, last[j] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]


def _looks_like_a_hook(value: object) -> bool:
    """True for a method that can be called with an event only, and has no annotation of another type."""
    if isinstance(value, staticmethod):
        return False
    function = inspect.unwrap(value.__func__ if isinstance(value, classmethod) else value)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportArgumentType]
    if not inspect.isfunction(function):
        return False
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    required = [each for each in _positional(parameters) if each.default is inspect.Parameter.empty]
    if len(required) != 1 or any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters):
        return False
    annotation = required[0].annotation
    return annotation is inspect.Parameter.empty or _is_event(function, required[0].name, annotation)


def _positional(parameters: list[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    return (each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD))


def _is_event(function: Callable[..., object], parameter: str, annotation: object) -> bool:
    try:
        hint: object = get_type_hints(function).get(parameter, annotation)
    except Exception:  # names that cannot be resolved, such as those of a local class
        hint = annotation
    if isinstance(hint, type):
        return issubclass(hint, Event)
    return "Event" in str(hint)
