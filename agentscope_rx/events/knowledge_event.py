"""`RetrievalEvent` and `CitationEvent`: what was found in knowledge bases, and what of it a reply refers to.

Retrieval(found)  PreReasoning  ReasoningChunk ...  PostReasoning  Citation(of the reply)  PostCall
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Final

from agentscope_rx.events.base import Event, register
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.citation import Citation
from agentscope_rx.messages.frozen import check_encodable, encodable
from agentscope_rx.messages.msg import ChatUsage

RETRIEVAL_TOOL: Final = "retrieve_knowledge"
"""The tool by which a model searches knowledge bases."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalEvent(Event):
    """The passages for `question`, best first, with the numbers by which the reply can cite them.

    `queries` are the searches: the question, or a model's rewritings of it; `usage` are the tokens of that model call,
    by `model_name`. `call_id` is the tool call that asked, '' for the retrieval before a round. `error_text` says what
    failed; the run goes on.
    """

    type: ClassVar[str] = "retrieval"

    question: str = ""
    queries: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    passages: tuple[Citation, ...] = ()
    call_id: str = ""
    elapsed: float = 0.0
    usage: ChatUsage | None = field(default=None)
    model_name: str = ""
    error_text: str = ""

    def __post_init__(self) -> None:
        for name in ("question", "error_text"):
            # a question may come from a model, the text of an error from a server
            if not getattr(self, name).isascii():
                object.__setattr__(self, name, encodable(getattr(self, name)))
        if not all(query.isascii() for query in self.queries):
            object.__setattr__(self, "queries", tuple(encodable(query) for query in self.queries))
        for text in self.bases:
            check_encodable(text, "RetrievalEvent.bases")


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class CitationEvent(Event):
    """The citations of the reply `message_id`; `unknown` numbers name no retrieved passage."""

    type: ClassVar[str] = "citation"

    message_id: str = ""
    citations: tuple[Citation, ...] = ()
    unknown: tuple[int, ...] = ()
