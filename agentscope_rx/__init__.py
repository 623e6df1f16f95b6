"""agentscope_rx: a ReAct agent engine in which everything that takes time is an Observable.

    from agentscope_rx import ReActAgent, tool
    from agentscope_rx.models import OpenAIChatModel

    agent = ReActAgent("Friday", OpenAIChatModel("gpt-5-mini"), "You are helpful.", tools=[...])
    agent.call("hi").run()                # a script; `await agent.call("hi")` in a coroutine
    agent.stream("hi").subscribe(print)   # every event of the run; `async for` pulls them

Models are in `agentscope_rx.models`, events in `agentscope_rx.events`, `Flow` and operators in
`agentscope_rx.reactive`, helpers for tests in `agentscope_rx.testing`.
"""

from agentscope_rx.agent import (
    Agent,
    AgentTool,
    GracefulShutdown,
    InterruptSource,
    Price,
    ReActAgent,
    Run,
    RunStats,
    StatePersistence,
    StructuredOutput,
    Tracer,
    UsageLimits,
)
from agentscope_rx.agent.user import TerminalInput, UserAgent
from agentscope_rx.context import ContextStore, InMemoryContextStore, RuntimeContext
from agentscope_rx.errors import (
    AgentBusyError,
    AgentScopeError,
    AgentShuttingDownError,
    ConfigurationError,
    HookError,
    InvalidInputError,
    ModelError,
    PendingCallsError,
    RunDeadlineError,
    StructuredOutputError,
    ToolError,
    ToolSuspend,
    UsageLimitError,
)
from agentscope_rx.events import StreamOptions, fold
from agentscope_rx.hooks import DROP, Hook, PendingToolRecovery, hook, hook_operator
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import (
    Approve,
    AudioBlock,
    Base64Source,
    ChatUsage,
    FileBlock,
    FileSource,
    FramesSource,
    GenerateReason,
    ImageBlock,
    Msg,
    MsgRole,
    Reject,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolChoice
from agentscope_rx.reactive import Flow, flow
from agentscope_rx.session import InMemorySession, JsonSession, Session
from agentscope_rx.tools import (
    ExternalTool,
    FolderEvictor,
    Inject,
    Rate,
    ResultEvictor,
    ResultLimit,
    Tool,
    ToolContext,
    Toolkit,
    WrapperTool,
    tool,
)

__all__ = [
    "DROP",
    "Agent",
    "AgentBusyError",
    "AgentScopeError",
    "AgentShuttingDownError",
    "AgentTool",
    "Approve",
    "AudioBlock",
    "Base64Source",
    "ChatUsage",
    "ConfigurationError",
    "ContextStore",
    "ExecutionConfig",
    "ExternalTool",
    "FileBlock",
    "FileSource",
    "Flow",
    "FolderEvictor",
    "FramesSource",
    "GenerateOptions",
    "GenerateReason",
    "GracefulShutdown",
    "Hook",
    "HookError",
    "ImageBlock",
    "InMemoryContextStore",
    "InMemoryMemory",
    "InMemorySession",
    "Inject",
    "InterruptSource",
    "InvalidInputError",
    "JsonSession",
    "Memory",
    "ModelError",
    "Msg",
    "MsgRole",
    "PendingCallsError",
    "PendingToolRecovery",
    "Price",
    "Rate",
    "ReActAgent",
    "Reject",
    "ResultEvictor",
    "ResultLimit",
    "Run",
    "RunDeadlineError",
    "RunStats",
    "RuntimeContext",
    "Session",
    "StatePersistence",
    "StreamOptions",
    "StructuredOutput",
    "StructuredOutputError",
    "TerminalInput",
    "TextBlock",
    "ThinkingBlock",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolError",
    "ToolResultBlock",
    "ToolResultKind",
    "ToolSuspend",
    "ToolUseBlock",
    "Toolkit",
    "Tracer",
    "URLSource",
    "UsageLimitError",
    "UsageLimits",
    "UserAgent",
    "VideoBlock",
    "WrapperTool",
    "flow",
    "fold",
    "hook",
    "hook_operator",
    "tool",
]


def __getattr__(name: str) -> str:
    # `__version__` on demand: reading the package's metadata costs as much as importing half of it
    if name == "__version__":
        from importlib.metadata import version

        return version("agentscope-rx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
