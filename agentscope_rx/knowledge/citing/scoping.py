"""`KnowledgeScope`: which documents a call may see, so that one agent serves many users with documents of their own.

agent.call("How much is it?", context=RuntimeContext(KnowledgeScope({"tenant": "acme"})))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.messages.frozen import EMPTY

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KnowledgeScope:
    """Conditions on the metadata of documents (see `Where`), for all knowledge of one call and its sub-agents.

        agent.call("How much is it?", context=RuntimeContext(KnowledgeScope({"tenant": "acme"})))

    The program puts them into the call's `RuntimeContext`; the model can neither see nor change them.
    """

    where: Where = EMPTY  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", dict(check_where(self.where) or {}))


class HasContext(Protocol):
    """A `RuntimeContext`, or the `ToolContext` of a call."""

    def get(self, kind: type[T], key: str = "") -> T | None:
        """The object of this type."""
        ...


def where_of(context: HasContext, default: Where | None) -> Where | None:
    """The conditions of the call and of the hook: all of them must hold.

    `InvalidInputError` if both have another condition for one name, because one of them would be lost.
    """
    scope = context.get(KnowledgeScope)
    if scope is None or not scope.where:
        return default
    merged = dict(default or {})
    for name, condition in scope.where.items():
        if name in merged and merged[name] != condition:
            raise InvalidInputError(
                f"The KnowledgeScope of this call and where= of its knowledge both limit {name!r}, to "
                f"{condition!r:.60} and {merged[name]!r:.60}. Limit it in one of them."
            )
        merged[name] = condition
    return merged


def checked_where(name: str, where: object) -> Where | None:
    """The conditions; `ConfigurationError` for what is none."""
    if isinstance(where, Mapping) or where is None:
        return check_where(where)  # pyright: ignore[reportUnknownArgumentType]
    raise ConfigurationError(f"{name} takes conditions by name, such as {{'language': 'en'}}, not {where!r:.60}.")
