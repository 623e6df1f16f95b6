"""What AgentScope 2's clients send: messages of a user, confirmations of calls, and results of external calls.

Fields that say nothing to an agent, such as times and states, are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Discriminator, Field

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages.approval import Approve, Reject
from agentscope_rx.messages.blocks import (
    AudioBlock,
    FileBlock,
    ImageBlock,
    OutputBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    VideoBlock,
)
from agentscope_rx.messages.msg import Msg, MsgRole
from agentscope_rx.messages.sources import Base64Source, URLSource
from agentscope_rx.models.accumulate import parse_arguments


class IncomingText(BaseModel):
    """A text."""

    type: Literal["text"]
    text: str


class IncomingBase64(BaseModel):
    """Content in base64."""

    type: Literal["base64"]
    data: str
    media_type: str


class IncomingURL(BaseModel):
    """Content at a URL."""

    type: Literal["url"]
    url: str
    media_type: str


class IncomingData(BaseModel):
    """An image, a sound, a video or a file, by its media type."""

    type: Literal["data"]
    source: Annotated[IncomingBase64 | IncomingURL, Discriminator("type")]
    name: str | None = None


IncomingContent = Annotated[IncomingText | IncomingData, Discriminator("type")]


class IncomingMsg(BaseModel):
    """A message of a user: others are the agent's own, in memory."""

    name: str
    role: Literal["user"]
    content: list[IncomingContent] = Field(min_length=1)
    id: str | None = Field(default=None, min_length=1, max_length=200)

    def to_msg(self) -> Msg:
        """The message of our own."""
        msg = Msg(self.name, [_block(each) for each in self.content], MsgRole.USER)
        return msg if self.id is None else msg.replace(id=self.id)


class IncomingCall(BaseModel):
    """A call, whose arguments a person may have edited."""

    id: str
    name: str
    input: str


class IncomingRule(BaseModel):
    """A decision for later calls of a tool: of all, or of those that `rule_content` describes."""

    tool_name: str
    rule_content: str | None = None
    behavior: str


class Confirmation(BaseModel):
    """The answer to one call that waits for approval."""

    confirmed: bool
    tool_call: IncomingCall
    rules: list[IncomingRule] | None = None


class IncomingResult(BaseModel):
    """The result of a call that was made elsewhere."""

    id: str
    name: str
    output: str | list[IncomingContent]
    state: Literal["success", "error", "interrupted", "denied", "running"]


class UserConfirmResult(BaseModel):
    """USER_CONFIRM_RESULT: answers to calls that wait for approval."""

    type: Literal["USER_CONFIRM_RESULT"]
    reply_id: str = Field(min_length=1, max_length=200)
    confirm_results: list[Confirmation] = Field(min_length=1)

    def to_answers(self, pending: Mapping[str, ToolUseBlock]) -> list[Approve | Reject]:
        """The answers; `InvalidInputError` for a call that does not wait, or a rule that cannot be kept."""
        return [_answer(each, _waiting(each.tool_call.id, pending)) for each in self.confirm_results]


class ExternalExecutionResult(BaseModel):
    """EXTERNAL_EXECUTION_RESULT: results of calls that wait for one."""

    type: Literal["EXTERNAL_EXECUTION_RESULT"]
    reply_id: str = Field(min_length=1, max_length=200)
    execution_results: list[IncomingResult] = Field(min_length=1)

    def to_messages(self, pending: Mapping[str, ToolUseBlock]) -> list[Msg]:
        """The results as messages; `InvalidInputError` for a call that does not wait, or a result that is none."""
        return [Msg.tool(_result(each, _waiting(each.id, pending))) for each in self.execution_results]


def _block(part: IncomingText | IncomingData) -> OutputBlock:
    if isinstance(part, IncomingText):
        return TextBlock(part.text)
    kind = part.source.media_type
    source = (
        URLSource(part.source.url) if isinstance(part.source, IncomingURL) else Base64Source(kind, part.source.data)
    )
    whole = kind.partition("/")[0]
    if whole == "image":
        return ImageBlock(source)
    if whole == "audio":
        return AudioBlock(source)
    return VideoBlock(source) if whole == "video" else FileBlock(source, part.name)


def _waiting(id: str, pending: Mapping[str, ToolUseBlock]) -> ToolUseBlock:
    call = pending.get(id)
    if call is None:
        known = ", ".join(pending) or "none"
        raise InvalidInputError(f"The call {id!r:.80} does not wait for this. Those that do: {known:.300}.")
    return call


def _answer(given: Confirmation, call: ToolUseBlock) -> Approve | Reject:
    remember = None
    for rule in given.rules or ():
        if rule.tool_name != call.name or rule.rule_content or rule.behavior != _BEHAVIOR[given.confirmed]:
            raise InvalidInputError(
                f"The rule for {rule.tool_name!r:.80} cannot be kept: a rule is for all calls of {call.name!r:.80}, "
                f"without rule_content, and has the behavior {_BEHAVIOR[given.confirmed]!r}, as this answer."
            )
        remember = "tool"
    if not given.confirmed:
        return Reject(call, remember=remember)
    arguments, problem = parse_arguments(given.tool_call.input)
    if problem is not None:
        raise InvalidInputError(f"The input of the call {call.id!r:.80} is {problem}.")
    return Approve(call, None if arguments == call.input else arguments, remember=remember)


_BEHAVIOR = {True: "allow", False: "deny"}

_KINDS = {
    "error": ToolResultKind.FAILED,
    "interrupted": ToolResultKind.INTERRUPTED,
    "denied": ToolResultKind.REJECTED,
}


def _result(given: IncomingResult, call: ToolUseBlock) -> ToolResultBlock:
    if given.state == "running":
        raise InvalidInputError(f"The result of {call.id!r:.80} is not there yet: its state is 'running'.")
    content: Sequence[IncomingText | IncomingData] = (
        [IncomingText(type="text", text=given.output)] if isinstance(given.output, str) else given.output
    )
    return ToolResultBlock(call.id, call.name, tuple([_block(each) for each in content]), _KINDS.get(given.state))
