"""`Knowledge`: the port to what can be asked for passages: a `KnowledgeBase`, or a service.

passages = await knowledge.retrieve("What does a ticket cost?", limit=5)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.where import Where
from agentscope_rx.messages.queries import Query
from agentscope_rx.reactive import Flow

LIMIT = 5
"""The number of passages that are asked for by default."""


class Knowledge(ABC):
    """A source of passages for questions: a `KnowledgeBase`, or a service of your own.

        passages = await knowledge.retrieve("What does a ticket cost?", limit=5)

    A subclass implements `retrieve`. It may be called from several threads and loops at once.
    """

    name: str = "knowledge"
    """The name of the base in citations, and for models."""
    description: str = ""
    """The content of the base in words, by which a model decides when to ask."""

    @abstractmethod
    def retrieve(
        self, query: Query, limit: int = LIMIT, *, threshold: float | None = None, where: Where | None = None
    ) -> Flow[tuple[Passage, ...]]:
        """At most `limit` passages that fit the query, best first. A query without text finds none.

        `threshold` is the least cosine similarity of a passage and the query, -1 to 1. `where` limits the documents
        by their metadata.

        Signals: one tuple of passages; `InvalidInputError`; a `KnowledgeError`, or the error of a model that is used.
        Cancels: the search.
        """


def check_names(bases: Sequence[Knowledge]) -> None:
    """`ConfigurationError` if two of them have one name."""
    names = [each.name for each in bases]
    if again := {each for each in names if names.count(each) > 1}:
        raise ConfigurationError(
            f"Several knowledge bases have the name {min(again)!r}: citations could not tell them apart. Give each one "
            "a name=... of its own."
        )


def check_limit(limit: int) -> None:
    """`InvalidInputError` unless it is a number of passages."""
    if type(limit) is not int or limit < 1:
        raise InvalidInputError(f"limit must be a whole number of passages, at least 1, not {limit!r:.60}.")


def check_threshold(threshold: float | None) -> None:
    """`InvalidInputError` unless it is None, or a cosine similarity."""
    if threshold is None:
        return
    if not isinstance(threshold, (int, float)) or isinstance(threshold, bool) or not -1 <= threshold <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"threshold must be a cosine similarity from -1 to 1, or None, not {threshold!r:.60}.")
