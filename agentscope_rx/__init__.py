"""agentscope_rx: a ReAct agent engine in which everything that takes time is an Observable.

    from agentscope_rx import ReActAgent, tool
    from agentscope_rx.models import OpenAIChatModel

    agent = ReActAgent("Friday", OpenAIChatModel("gpt-5-mini"), "You are helpful.", tools=[...])
    agent.call("hi").run()                # a script; `await agent.call("hi")` in a coroutine
    agent.stream("hi").subscribe(print)   # every event of the run; `async for` pulls them
    run = agent.start("hi")               # a run by itself, for many readers: `run.events()`, `run.result()`

Models are in `agentscope_rx.models`, events in `agentscope_rx.events`, stores in `agentscope_rx.session` and
`agentscope_rx.memory`, long-term memories in `agentscope_rx.long_term_memory`, documents that agents can ask in
`agentscope_rx.knowledge`, plans in `agentscope_rx.planning`, `Flow` and operators in `agentscope_rx.reactive`, helpers
for tests in `agentscope_rx.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.agent import (
    Agent,
    BackgroundHook,
    GracefulShutdown,
    Price,
    ReActAgent,
    Run,
    RunHandle,
    StructuredOutput,
    UsageLimits,
)
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import (
    AgentScopeError,
    ConfigurationError,
    InvalidInputError,
    ModelError,
    ToolError,
    ToolSuspend,
)
from agentscope_rx.events import StreamOptions, fold
from agentscope_rx.hooks import Hook, hook
from agentscope_rx.lazy import import_lazily
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import (
    Approve,
    AudioBlock,
    Base64Source,
    FileBlock,
    FileSource,
    GenerateReason,
    ImageBlock,
    Msg,
    MsgRole,
    Reject,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolChoice
from agentscope_rx.reactive import Flow
from agentscope_rx.session import Checkpoint, InMemorySession, Session
from agentscope_rx.tools import (
    Inject,
    Tool,
    ToolContext,
    Toolkit,
    tool,
)

if TYPE_CHECKING:
    from agentscope_rx.agent import ConversationPool
    from agentscope_rx.agent.user import UserAgent
    from agentscope_rx.knowledge import KnowledgeBase
    from agentscope_rx.long_term_memory import SqliteLongTermMemory
    from agentscope_rx.pipeline import (
        ConditionalPipeline,
        FanOutPipeline,
        GoalLoop,
        Handoffs,
        LoopPipeline,
        MapPipeline,
        MsgHub,
        Pipeline,
        RouterPipeline,
        SequentialPipeline,
        Supervisor,
        fanout_pipeline,
        map_agent,
        sequential_pipeline,
    )
    from agentscope_rx.planning import PlanMode, PlanNotebook, TodoList
    from agentscope_rx.session import JsonSession, SqliteSession, open_session

    __version__: str

# few programs need these, and together they would take as long to import as the rest
_LAZY = {
    "ConversationPool": "agentscope_rx.agent",
    "JsonSession": "agentscope_rx.session",
    "KnowledgeBase": "agentscope_rx.knowledge",
    "MsgHub": "agentscope_rx.pipeline",
    "PlanMode": "agentscope_rx.planning",
    "PlanNotebook": "agentscope_rx.planning",
    "SqliteLongTermMemory": "agentscope_rx.long_term_memory",
    "SqliteSession": "agentscope_rx.session",
    "TodoList": "agentscope_rx.planning",
    "UserAgent": "agentscope_rx.agent.user",
    "open_session": "agentscope_rx.session",
    **dict.fromkeys(
        [
            "ConditionalPipeline",
            "FanOutPipeline",
            "GoalLoop",
            "Handoffs",
            "LoopPipeline",
            "MapPipeline",
            "Pipeline",
            "RouterPipeline",
            "SequentialPipeline",
            "Supervisor",
            "fanout_pipeline",
            "map_agent",
            "sequential_pipeline",
        ],
        "agentscope_rx.pipeline",
    ),
}

__all__ = [
    "Agent",
    "AgentScopeError",
    "Approve",
    "AudioBlock",
    "BackgroundHook",
    "Base64Source",
    "Checkpoint",
    "ConditionalPipeline",
    "ConfigurationError",
    "ConversationPool",
    "ExecutionConfig",
    "FanOutPipeline",
    "FileBlock",
    "FileSource",
    "Flow",
    "GenerateOptions",
    "GenerateReason",
    "GoalLoop",
    "GracefulShutdown",
    "Handoffs",
    "Hook",
    "ImageBlock",
    "InMemoryMemory",
    "InMemorySession",
    "Inject",
    "InvalidInputError",
    "JsonSession",
    "KnowledgeBase",
    "LoopPipeline",
    "MapPipeline",
    "Memory",
    "ModelError",
    "Msg",
    "MsgHub",
    "MsgRole",
    "Pipeline",
    "PlanMode",
    "PlanNotebook",
    "Price",
    "ReActAgent",
    "Reject",
    "RouterPipeline",
    "Run",
    "RunHandle",
    "RuntimeContext",
    "SequentialPipeline",
    "Session",
    "SqliteLongTermMemory",
    "SqliteSession",
    "StreamOptions",
    "StructuredOutput",
    "Supervisor",
    "TextBlock",
    "ThinkingBlock",
    "TodoList",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolError",
    "ToolResultBlock",
    "ToolSuspend",
    "ToolUseBlock",
    "Toolkit",
    "URLSource",
    "UsageLimits",
    "UserAgent",
    "VideoBlock",
    "fanout_pipeline",
    "fold",
    "hook",
    "map_agent",
    "open_session",
    "sequential_pipeline",
    "tool",
]


def __getattr__(name: str) -> object:
    # on demand: reading the package's metadata costs as much as importing half of it
    if name == "__version__":
        from importlib.metadata import version

        return version("agentscope-rx")
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
