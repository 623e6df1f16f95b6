"""Messages and their content blocks."""

from agentscope_rx.messages.approval import ApprovalAnswer, Approve, Reject
from agentscope_rx.messages.blocks import (
    AudioBlock,
    ContentBlock,
    FileBlock,
    ImageBlock,
    OutputBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    VideoBlock,
)
from agentscope_rx.messages.citation import Citation, citations_of
from agentscope_rx.messages.history import (
    History,
    Joined,
    call_places,
    closing_results,
    open_calls,
    results_first,
)
from agentscope_rx.messages.marks import COMPRESSED, HIDDEN, TRANSIENT
from agentscope_rx.messages.msg import ChatUsage, GenerateReason, Msg, MsgRole
from agentscope_rx.messages.sources import Base64Source, FileSource, FramesSource, Source, URLSource

__all__ = [
    "COMPRESSED",
    "HIDDEN",
    "TRANSIENT",
    "ApprovalAnswer",
    "Approve",
    "AudioBlock",
    "Base64Source",
    "ChatUsage",
    "Citation",
    "ContentBlock",
    "FileBlock",
    "FileSource",
    "FramesSource",
    "GenerateReason",
    "History",
    "ImageBlock",
    "Joined",
    "Msg",
    "MsgRole",
    "OutputBlock",
    "Reject",
    "Source",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolResultKind",
    "ToolUseBlock",
    "URLSource",
    "VideoBlock",
    "call_places",
    "citations_of",
    "closing_results",
    "open_calls",
    "results_first",
]
