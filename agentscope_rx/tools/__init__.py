"""Tools: functions that a model may call, and the toolkit that holds and runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily
from agentscope_rx.reactive import Rate
from agentscope_rx.tools.approval import ApprovalPolicy, ToolPolicy
from agentscope_rx.tools.arguments import InvalidArgumentsError
from agentscope_rx.tools.background import Background
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.signals import ToolBegun, ToolChunk, ToolEvent, ToolNested, ToolNotice, ToolRetry
from agentscope_rx.tools.client_tools import ClientTools
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.effects import Effects
from agentscope_rx.tools.from_schema import ExternalTool, schema_of, tool_from_schema
from agentscope_rx.tools.function_tool import FunctionTool, tool
from agentscope_rx.tools.groups import ToolGroup
from agentscope_rx.tools.inject import Inject
from agentscope_rx.tools.options import RegisterAllOptions, RegisterOptions
from agentscope_rx.tools.results.evictor import FolderEvictor
from agentscope_rx.tools.results.result_limit import ResultEvictor, ResultLimit
from agentscope_rx.tools.toolkit import Toolkit
from agentscope_rx.tools.wrapper import WrapperTool
from agentscope_rx.tools.wrappers import approving, limited, mapped, only, prefixed, preset, renamed, without

if TYPE_CHECKING:
    from agentscope_rx.tools.questions import UserQuestion, answer_question, ask_user, questions_of

# few agents ask, and to define a tool takes time
_LAZY = {
    "UserQuestion": "agentscope_rx.tools.questions",
    "answer_question": "agentscope_rx.tools.questions",
    "ask_user": "agentscope_rx.tools.questions",
    "questions_of": "agentscope_rx.tools.questions",
}

__all__ = [
    "ApprovalPolicy",
    "Background",
    "ClientTools",
    "Effects",
    "ExternalTool",
    "FolderEvictor",
    "FunctionTool",
    "Inject",
    "InvalidArgumentsError",
    "Rate",
    "RegisterAllOptions",
    "RegisterOptions",
    "ResultEvictor",
    "ResultLimit",
    "Tool",
    "ToolBegun",
    "ToolChunk",
    "ToolContext",
    "ToolEvent",
    "ToolGroup",
    "ToolNested",
    "ToolNotice",
    "ToolPolicy",
    "ToolRetry",
    "Toolkit",
    "UserQuestion",
    "WrapperTool",
    "answer_question",
    "approving",
    "ask_user",
    "limited",
    "mapped",
    "only",
    "prefixed",
    "preset",
    "questions_of",
    "renamed",
    "schema_of",
    "tool",
    "tool_from_schema",
    "without",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
