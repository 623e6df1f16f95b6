"""The callbacks of a connection: how a client handles a server's requests for a person, a model, or the folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from mcp.client.session import ClientRequestContext, ListRootsFnT, SamplingFnT
from mcp_types import (
    AudioContent,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ImageContent,
    ListRootsResult,
    Root,
    SamplingMessage,
    TextContent,
)

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.messages import ContentBlock, Msg, TextBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.models import ChatModel, GenerateOptions
from agentscope_rx.models.accumulate import accumulated
from agentscope_rx.tools.mcp.call import elicit_in_call
from agentscope_rx.tools.mcp.content import block_of
from agentscope_rx.tools.mcp.elicitation import OnElicitation, Question
from agentscope_rx.tools.mcp.session import McpSession

REFUSED = -32600
FAILED = -32603

OnElicit = Callable[[McpSession, ElicitRequestParams], Awaitable[ElicitResult | ErrorData]]


def elicitation_callback(server: str, handler: OnElicitation | None) -> OnElicit:
    """Answers by the handler; without one the call is suspended with the question."""

    async def elicit(session: McpSession, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        if handler is None:
            return await elicit_in_call(session, server, params)
        try:
            content = await handler(Question.of(server, params).elicitation)
        except AgentScopeError as error:
            return ErrorData(code=FAILED, message=str(error))
        if content is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=cast("Any", thaw(content)))

    return elicit


def roots_callback(folders: Sequence[str]) -> ListRootsFnT | None:
    """Lists these folders; None if there are none."""
    if not folders:
        return None
    listed = [Root(uri=_uri(folder), name=folder) for folder in folders]

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=listed)

    return roots


def _uri(folder: str) -> Any:
    return folder if "://" in folder else Path(folder).absolute().as_uri()


def sampling_callback(model: ChatModel | None) -> SamplingFnT | None:
    """Answers by the model; None without a model."""
    if model is None:
        return None

    async def sample(
        context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        try:
            messages = [_message(each) for each in params.messages]
        except TypeError as error:
            return ErrorData(code=REFUSED, message=str(error))
        if params.system_prompt:
            messages.insert(0, Msg.system(params.system_prompt))
        options = GenerateOptions(temperature=params.temperature, max_tokens=params.max_tokens)
        try:
            answer = await accumulated(model.stream(messages, (), options))
        except AgentScopeError as error:
            return ErrorData(code=FAILED, message=f"{type(error).__name__}: {error}")
        text = "".join(block.text for block in answer.blocks() if isinstance(block, TextBlock))
        return CreateMessageResult(role="assistant", content=TextContent(text=text), model=model.model_name)

    return sample


def _message(given: SamplingMessage) -> Msg:
    blocks: list[ContentBlock] = []
    for each in given.content_as_list:
        if not isinstance(each, (TextContent, ImageContent, AudioContent)):
            raise TypeError("Tools are not offered in sampling: only text, images and audio can be sent.")
        blocks.append(block_of(each))
    return Msg.user(blocks) if given.role == "user" else Msg.assistant(blocks, "assistant")
