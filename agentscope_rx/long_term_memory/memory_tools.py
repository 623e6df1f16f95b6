"""`long_term_memory_tools`: record and retrieve as tools, for an agent that decides itself what to remember."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import AgentScopeError, ToolError
from agentscope_rx.long_term_memory.note import MemoryScope, Note, NoteSource, now
from agentscope_rx.long_term_memory.port import LIMIT, LongTermMemory
from agentscope_rx.long_term_memory.scoping import check_scope, scope_of
from agentscope_rx.long_term_memory.wording import (
    NO_KEYWORDS,
    NOTHING_FOUND,
    NOTHING_TO_RECORD,
    RECORDED,
    as_list,
)
from agentscope_rx.messages import Msg, ThinkingBlock
from agentscope_rx.reactive import Flow, catch, concat_map, just, then, throw
from agentscope_rx.tools import FunctionTool, Tool, ToolContext

MAX_LIMIT = 50
"""The notes that a model may ask for at once."""


def long_term_memory_tools(memory: LongTermMemory, *, scope: MemoryScope | None = None) -> tuple[Tool, Tool]:
    """The tools `record_to_memory` and `retrieve_from_memory`; their scope is that of the call, then `scope`.

    | tool | arguments | the model reads |
    |---|---|---|
    | `record_to_memory` | `thinking`, `content`: a list of sentences | that it is stored |
    | `retrieve_from_memory` | `keywords`: a list, `limit` | a list of notes |

    `thinking` is recorded as an assistant's thinking: context for a model that distils, and no fact. An error of the
    long-term memory is an error result with its text.
    """
    default = check_scope("scope", scope)

    def record_to_memory(thinking: str, content: list[str], context: ToolContext) -> Flow[str]:
        """Store facts in long-term memory, to have them in later conversations.

        Use it when the user tells something that will still matter then: preferences, personal details, decisions,
        corrections of what was said before.

        Args:
            thinking: Why these facts are worth remembering.
            content: The facts, one short self-contained sentence each.
        """
        facts = [each for each in content if each.strip()]
        if not facts:
            return just(NOTHING_TO_RECORD)
        # the reason is context for a memory that distils facts, and no fact itself
        reason = [Msg.assistant([ThinkingBlock(thinking)], context.agent or "assistant")] if thinking.strip() else []
        messages = [*reason, *(Msg.user(fact) for fact in facts)]
        source = NoteSource(
            session_key=context.runtime.session_id, run_id=context.run_id or None, agent=context.agent or None, at=now()
        )
        stored = memory.record(messages, scope=_scope(context, default), source=source)
        return stored.pipe(then(lambda: just(RECORDED)), catch(_as_result))

    def retrieve_from_memory(keywords: list[str], context: ToolContext, limit: int = LIMIT) -> Flow[str]:
        """Search long-term memory for what is known from earlier conversations.

        Args:
            keywords: Names, topics or short phrases to search for.
            limit: The most notes to return.
        """
        words = [each.strip() for each in keywords if each.strip()]
        if not words:
            return just(NO_KEYWORDS)
        found = memory.retrieve(" ".join(words), max(1, min(limit, MAX_LIMIT)), scope=_scope(context, default))
        return found.pipe(concat_map(_listed), catch(_as_result))

    return FunctionTool(record_to_memory), FunctionTool(retrieve_from_memory)


def _scope(context: ToolContext, default: MemoryScope | None) -> MemoryScope:
    return scope_of(context, context.runtime.user_id, default)


def _listed(notes: Sequence[Note]) -> str:
    return as_list(notes) if notes else NOTHING_FOUND


def _as_result(error: Exception) -> Flow[str]:
    """The errors of the memory and its models become results that a model can read; faults of code stay as they are."""
    if not isinstance(error, AgentScopeError) or isinstance(error, ToolError):
        return throw(error)
    return throw(ToolError(f"Long-term memory failed: {error}", retryable=error.retryable))
