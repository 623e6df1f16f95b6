"""`Hooks`: an agent's hooks in order, compiled when the agent is built and when one is added or removed.

    agent.hooks.add(audit)          # after the others of its priority; with its tools
    agent.hooks.remove(audit)

A run uses the hooks that the agent had when the run began: a change is in force from the next run on. Both methods may
be called from any thread, and from within a hook.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.hooks.base import FunctionHook, Hook
from agentscope_rx.hooks.compose import CompiledHooks, Operator, compiled
from agentscope_rx.hooks.process_wide import PROCESS_WIDE
from agentscope_rx.hooks.wrapping.around_hook import AroundHook
from agentscope_rx.reactive import Flow
from agentscope_rx.reactive.kernel.forking import new_lock

E = TypeVar("E", bound=Event)
T = TypeVar("T")

_MAKING = new_lock()

OnChange = Callable[[Sequence[Hook], Sequence[Hook]], object]
"""Called with the hooks to be added and to be removed before they are; an error prevents the change."""


class Hooks:
    """The hooks of one agent. A change applies from the next run on, and may come from any thread."""

    def __init__(self, hooks: Iterable[Hook] = (), *, agent: str = "", on_change: OnChange | None = None) -> None:
        self._agent = agent
        self._lock: threading.Lock | None = None
        self.on_change = on_change
        self._compiled = compiled(hooks, agent, PROCESS_WIDE.tracers)

    def __repr__(self) -> str:
        return f"<Hooks {list(self.all)!r}>"

    def __iter__(self) -> Iterator[Hook]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __contains__(self, hook: object) -> bool:
        return any(_is(each, hook) for each in self.all)

    @property
    def compiled(self) -> CompiledHooks:
        """The hooks at this moment, and the tracers of the process; immutable: a run keeps them."""
        if self._compiled.process_wide is not PROCESS_WIDE.tracers:
            with self._changing():
                self._compiled = self._compile(self._compiled.all)
        return self._compiled

    @property
    def all(self) -> tuple[Hook, ...]:
        """All hooks, in the order in which they are called."""
        return self._compiled.all

    @property
    def seen(self) -> frozenset[type[Event]]:
        """The kinds that at least one hook gets."""
        return self._compiled.seen

    def _compile(self, hooks: Iterable[Hook]) -> CompiledHooks:
        return compiled(hooks, self._agent, PROCESS_WIDE.tracers)

    def _changing(self) -> threading.Lock:
        """The lock of a change; few agents change their hooks."""
        with _MAKING:
            if self._lock is None:
                self._lock = new_lock()
            return self._lock

    def add(self, *hooks: Hook) -> None:
        """Add hooks, each after the others of its priority, and register their tools.

        `ConfigurationError`, with nothing changed, for hooks that the agent could not be built with.
        """
        with self._changing():
            # sorting is stable
            compiled = self._compile((*self.all, *hooks))
            if self.on_change is not None:
                self.on_change(hooks, ())
            self._compiled = compiled

    def remove(self, hook: Hook) -> None:
        """Remove a hook and its tools; runs in progress still use it. Of several equal ones the last is removed.

        `ConfigurationError` if the agent does not have it.
        """
        with self._changing():
            left = list(self.all)
            found = [index for index, each in enumerate(left) if _is(each, hook)]
            if not found:
                raise ConfigurationError(
                    f"Agent {self._agent!r} has no hook {hook!r:.60}. It has {[each.name for each in left]}."
                )
            removed = left.pop(found[-1])
            compiled = self._compile(left)
            if self.on_change is not None:
                self.on_change((), (removed,))
            self._compiled: CompiledHooks = compiled

    # --- the compiled hooks ------------------------------------------------------------------------------------------

    def fire(self, event: E) -> Flow[E]:
        """As `CompiledHooks.fire`."""
        return self._compiled.fire(event)

    def fire_then(self, event: E, then: Callable[[E], Flow[T]]) -> Flow[T]:
        """As `CompiledHooks.fire_then`."""
        return self._compiled.fire_then(event, then)

    def observe(self, event: E) -> Flow[E]:
        """As `CompiledHooks.observe`."""
        return self._compiled.observe(event)

    def watched(self, kind: type[Event], events: Flow[Event]) -> Flow[Event]:
        """As `CompiledHooks.watched`."""
        return self._compiled.watched(kind, events)

    def chunks(self, kind: type[Event]) -> Operator | None:
        """As `CompiledHooks.chunks`."""
        return self._compiled.chunks(kind)


def _is(one: Hook, other: object) -> bool:
    if isinstance(one, (FunctionHook, AroundHook)) and isinstance(other, Hook):
        return one.is_same(other)
    return one is other
