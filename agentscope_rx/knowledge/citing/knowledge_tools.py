"""`knowledge_tools`: searching documents as a tool, for an agent that decides itself when to look something up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentscope_rx.errors import AgentScopeError, ToolError
from agentscope_rx.events import EventSource, RetrievalEvent
from agentscope_rx.events.knowledge_event import RETRIEVAL_TOOL
from agentscope_rx.knowledge.citing.numbers import number
from agentscope_rx.knowledge.citing.retriever import TIMEOUT, Retrieved, Retriever, bases_of
from agentscope_rx.knowledge.citing.scoping import checked_where, where_of
from agentscope_rx.knowledge.citing.wording import (
    EXPLANATION,
    HOW_TO_CITE,
    MAX_CHARACTERS,
    NO_QUERY,
    NOTHING_FOUND,
    fitting,
    passage_blocks,
)
from agentscope_rx.knowledge.knowledge import LIMIT, Knowledge, check_threshold
from agentscope_rx.knowledge.where import Where
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.parts import PartStates
from agentscope_rx.reactive import Flow, concat, concat_map, just, throw
from agentscope_rx.tools import FunctionTool, Tool, ToolContext, ToolNotice

MAX_LIMIT = 20
"""The passages that a model may ask for at once."""

_SEARCHED = "Ask for one thing at a time, in words that say all that matters. If nothing fits, ask in other words."


def knowledge_tools(
    knowledge: Knowledge | Sequence[Knowledge],
    *,
    limit: int = LIMIT,
    threshold: float | None = None,
    where: Where | None = None,
    timeout: float | None = TIMEOUT,
    max_characters: int = MAX_CHARACTERS,
    cite: bool = True,
) -> tuple[Tool, ...]:
    """The tool `retrieve_knowledge(query, limit)`; with several bases it has an argument `base`, too.

    The options are those of `KnowledgeHook`. The tool changes nothing, so it may run beside others. The model can
    neither see nor change `where`, nor the `KnowledgeScope` of the call. If all bases fail, the result is an error; if
    some do, it says so.
    """
    check_count("limit", limit)
    check_threshold(threshold)
    check_count("max_characters", max_characters)
    check_seconds("timeout", timeout, optional=True)
    retriever = Retriever(bases_of(knowledge, "knowledge"), threshold=threshold, timeout=timeout)
    return (retrieval_tool(retriever, limit, checked_where("where", where), max_characters, cite=cite),)


def retrieval_tool(
    retriever: Retriever,
    limit: int,
    where: Where | None,
    max_characters: int,
    *,
    cite: bool,
    seen: Callable[[ToolContext], tuple[PartStates | None, bool]] = lambda context: (context.parts, False),
) -> Tool:
    """The tool for these bases; `seen` gives the place of the numbers, and True if the model can see pictures."""

    def search(query: str, most: int, base: str, context: ToolContext) -> Flow[object]:
        if not query.strip():
            return just(NO_QUERY)
        if base and base not in retriever.names:
            raise ToolError(f"There is no knowledge base {base!r}. They are: {', '.join(retriever.names)}.")
        parts, images = seen(context)

        def shown(found: Retrieved) -> Flow[object]:
            passages = fitting(found.passages, max_characters)
            citations = number(parts, passages)
            event = RetrievalEvent(
                source=EventSource(context.run_id, context.agent, context.path, context.runtime, context.parts),
                question=query,
                queries=found.queries,
                bases=(base,) if base else retriever.names,
                passages=citations,
                call_id=context.call.id,
                elapsed=found.elapsed,
                error_text=found.error_text,
            )
            notice = just(ToolNotice(context.call, event))
            if found.problems and not passages:
                return concat(notice, throw(_as_result(found.problems[0])))
            if not passages:
                return concat(notice, just(NOTHING_FOUND))
            explanation = f"{EXPLANATION} {HOW_TO_CITE}" if cite else EXPLANATION
            problems = f"Not all knowledge could be searched: {found.error_text}" if found.problems else ""
            pairs = tuple(zip(citations, passages, strict=True))
            return concat(notice, just(list(passage_blocks(pairs, explanation, images=images, problems=problems))))

        found = retriever.search(
            (query.strip(),), max(1, min(most, MAX_LIMIT)), where=where_of(context, where), base=base
        )
        return found.pipe(concat_map(shown))

    def retrieve_knowledge(query: str, context: ToolContext, limit: int = limit) -> Flow[object]:
        """Search.

        Args:
            query: What to look for: a question or a phrase.
            limit: The most passages to return.
        """
        return search(query, limit, "", context)

    def retrieve_from_bases(query: str, context: ToolContext, base: str = "", limit: int = limit) -> Flow[object]:
        """Search.

        Args:
            query: What to look for: a question or a phrase.
            base: The name of the one knowledge base to search; '' for all.
            limit: The most passages to return.
        """
        return search(query, limit, base, context)

    description = _description(retriever)
    if len(retriever.bases) == 1:
        return FunctionTool(retrieve_knowledge, description=description, read_only=True)
    return FunctionTool(retrieve_from_bases, name=RETRIEVAL_TOOL, description=description, read_only=True)


def _description(retriever: Retriever) -> str:
    """What the bases know, for a model that decides when to ask."""
    listed = [f"{each.name}: {' '.join(each.description.split()) or 'documents'}" for each in retriever.bases]
    if len(listed) == 1:
        return f"Search the knowledge base {listed[0]}\n{_SEARCHED}"
    return "\n".join(["Search these knowledge bases:", *(f"- {each}" for each in listed), _SEARCHED])


def _as_result(error: Exception) -> Exception:
    """The errors of knowledge and its models become results that a model can read; faults of code stay as they are."""
    if not isinstance(error, AgentScopeError) or isinstance(error, ToolError):
        return error
    return ToolError(f"The knowledge could not be searched: {error}", retryable=error.retryable)
