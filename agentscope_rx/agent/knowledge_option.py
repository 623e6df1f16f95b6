"""The knowledge of an agent: the hook that its option stands for.

| mode      | gives                                                                               |
|-----------|-------------------------------------------------------------------------------------|
| "generic" | each request of a call the passages that fit its question; the default              |
| "agentic" | the tool `retrieve_knowledge`, which the model calls when it needs to               |
| "both"    | both                                                                                |
| "none"    | nothing: the agent is as without knowledge, such as to compare the two              |

The question is searched for as it is: rewriting takes a model call before each answer, and its time and tokens are
wasted on a question that stands alone. For this and other options of the hook, give
`hooks=[KnowledgeHook(base, rewrite=True, ...)]` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks import Hook

if TYPE_CHECKING:
    # most agents have no knowledge, and to import all of it takes time
    from agentscope_rx.knowledge.citing.knowledge_hook import KnowledgeMode
    from agentscope_rx.knowledge.knowledge import Knowledge

    KnowledgeOption: TypeAlias = Knowledge | Sequence[Knowledge]


def with_knowledge(hooks: Iterable[Hook], knowledge: KnowledgeOption | None, mode: KnowledgeMode) -> Iterable[Hook]:
    """The hooks, and the one for this knowledge in this mode; the hooks as they are without one."""
    if knowledge is None and mode == "generic":
        return hooks
    from agentscope_rx.knowledge.citing.knowledge_hook import KnowledgeHook, check_mode
    from agentscope_rx.knowledge.citing.retriever import bases_of

    check_mode("knowledge_mode", mode)
    if knowledge is None:
        if mode not in ("generic", "none"):
            raise ConfigurationError(f"knowledge_mode={mode!r} needs knowledge: knowledge=KnowledgeBase('docs.db').")
        return hooks
    bases = bases_of(knowledge, "knowledge")
    if mode == "none" or not isinstance(hooks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        # (the agent refuses what is no list of hooks)
        return hooks
    return (*hooks, KnowledgeHook(bases, mode=mode))
