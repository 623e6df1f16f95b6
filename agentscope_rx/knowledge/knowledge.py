"""`Knowledge`: the port to what can be asked for passages: a `KnowledgeBase`, or a service.

passages = await knowledge.retrieve("What does a ticket cost?", limit=5)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.where import Where
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow

LIMIT = 5
"""The number of passages that are asked for by default."""

Question = str | Msg | Sequence[Msg]
"""What passages are sought for: a text, a message or messages, whose text counts."""


class Knowledge(ABC):
    """Retrieves passages. Implementations can be called from several threads and loops at once."""

    name: str = "knowledge"
    """Names it in citations and to models."""
    description: str = ""
    """What it knows, for a model that decides when to ask."""

    @abstractmethod
    def retrieve(
        self, query: Question, limit: int = LIMIT, *, threshold: float | None = None, where: Where | None = None
    ) -> Flow[tuple[Passage, ...]]:
        """At most `limit` passages that fit the query, best first. A query without text finds none.

        `threshold` is the least cosine similarity of a passage and the query, -1 to 1. `where` limits the documents
        by their metadata.

        Signals: one tuple of passages; `InvalidInputError`; a `KnowledgeError`, or the error of a model that is used.
        Cancels: the search.
        """
