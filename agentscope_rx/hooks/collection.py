"""`Hooks`: an agent's hooks, in order: compiled when the agent is built, and again when one is added or removed.

    agent.hooks.add(audit)          # after the others of its priority; with the tools that it brings
    agent.hooks.remove(audit)

A run goes by the hooks that the agent had when it began, to its end: a change is in force from the next run on. Both
may be called from any thread, and from within a hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.hooks.base import FunctionHook, Hook
from agentscope_rx.hooks.compose import CompiledHooks, Operator
from agentscope_rx.reactive import Flow
from agentscope_rx.reactive.kernel.forking import new_lock

E = TypeVar("E", bound=Event)
T = TypeVar("T")

Bringing = Callable[[Sequence[Hook], Sequence[Hook]], object]
"""Is told which hooks are about to be added and which removed; what it raises keeps them from it."""


class Hooks:
    """An agent's hooks: `all` of them in the order in which they are asked, and their changes."""

    def __init__(self, hooks: Iterable[Hook] = (), *, agent: str = "", bringing: Bringing | None = None) -> None:
        self._agent = agent
        self._lock = new_lock()
        self.bringing = bringing
        self.compiled = CompiledHooks(hooks, agent=agent)
        """As they are now. It never changes: what a run goes by."""

    def __repr__(self) -> str:
        return f"<Hooks {list(self.all)!r}>"

    def __iter__(self) -> Iterator[Hook]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __contains__(self, hook: object) -> bool:
        return any(_is(each, hook) for each in self.all)

    @property
    def all(self) -> tuple[Hook, ...]:
        """In the order in which they are asked."""
        return self.compiled.all

    @property
    def seen(self) -> frozenset[type[Event]]:
        """The kinds that some hook looks at."""
        return self.compiled.seen

    def add(self, *hooks: Hook) -> None:
        """Add hooks, each behind those of its priority that are there; in force from the next run on.

        The tools that they bring are registered. Refused, with nothing changed, is what the agent could not have been
        built with: a `ConfigurationError`.
        """
        with self._lock:
            # (sorting is stable)
            compiled = CompiledHooks((*self.all, *hooks), agent=self._agent)
            if self.bringing is not None:
                self.bringing(hooks, ())
            self.compiled = compiled

    def remove(self, hook: Hook) -> None:
        """Take a hook out, with the tools that it has brought; runs in progress still ask it. If it is there more than
        once, the last one goes.

        A hook that is not there is a `ConfigurationError`.
        """
        with self._lock:
            left = list(self.all)
            found = [index for index, each in enumerate(left) if _is(each, hook)]
            if not found:
                raise ConfigurationError(
                    f"Agent {self._agent!r} has no hook {hook!r:.60}. It has {[each.name for each in left]}."
                )
            gone = left.pop(found[-1])
            compiled = CompiledHooks(left, agent=self._agent)
            if self.bringing is not None:
                self.bringing((), (gone,))
            self.compiled = compiled

    # --- as they are now ------------------------------------------------------------------------------------------

    def fire(self, event: E) -> Flow[E]:
        """As `CompiledHooks.fire`."""
        return self.compiled.fire(event)

    def fired(self, event: E, then: Callable[[E], Flow[T]]) -> Flow[T]:
        """As `CompiledHooks.fired`."""
        return self.compiled.fired(event, then)

    def observe(self, event: E) -> Flow[E]:
        """As `CompiledHooks.observe`."""
        return self.compiled.observe(event)

    def watched(self, kind: type[Event], events: Flow[Event]) -> Flow[Event]:
        """As `CompiledHooks.watched`."""
        return self.compiled.watched(kind, events)

    def chunks(self, kind: type[Event]) -> Operator | None:
        """As `CompiledHooks.chunks`."""
        return self.compiled.chunks(kind)


def _is(one: Hook, other: object) -> bool:
    if isinstance(one, FunctionHook) and isinstance(other, Hook):
        return one.is_same(other)
    return one is other
