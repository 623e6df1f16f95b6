"""The scope and the source of a record or a search, from the context of its call."""

from __future__ import annotations

from typing import Protocol, TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.long_term_memory.note import NO_SCOPE, MemoryScope

T = TypeVar("T")


class HasContext(Protocol):
    """A `RuntimeContext`, or the `ToolContext` of a call."""

    def get(self, kind: type[T], key: str = "") -> T | None:
        """The object of this type."""
        ...


def scope_of(context: HasContext, user_id: str | None, default: MemoryScope | None) -> MemoryScope:
    """The `MemoryScope` in the context; what it lacks from the context's `user_id`, then from the default."""
    scope = context.get(MemoryScope) or NO_SCOPE
    if user_id:
        scope = scope.over(MemoryScope(user=user_id))
    return scope.over(default)


def check_scope(name: str, scope: object) -> MemoryScope | None:
    """The scope, or None; `ConfigurationError` for anything else."""
    if scope is not None and not isinstance(scope, MemoryScope):
        raise ConfigurationError(f"{name} must be a MemoryScope, such as MemoryScope(user='ann'), not {scope!r:.60}.")
    return scope
