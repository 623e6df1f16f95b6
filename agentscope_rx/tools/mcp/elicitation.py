"""What a server may ask of its client: a person's answer, a model's, the folders that it may work in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

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
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.tools.mcp.call import elicited
from agentscope_rx.tools.mcp.content import block_of
from agentscope_rx.tools.mcp.question import Question
from agentscope_rx.tools.mcp.session import ConnectionOptions, McpSession

if TYPE_CHECKING:
    from agentscope_rx.tools.mcp.client import McpClient

REFUSED = -32600
FAILED = -32603


@dataclass(frozen=True, slots=True)
class Elicitation:
    """What a server asks a person: a form (`schema`), or to visit a page (`url`)."""

    server: str
    message: str
    schema: Mapping[str, object] | None = None
    url: str | None = None


OnElicitation = Callable[[Elicitation], Awaitable[Mapping[str, object] | None]]
"""Answers a question: the content, or None to decline."""


def terms_of(client: McpClient, changed: Callable[[], object]) -> ConnectionOptions:
    """What the client's connections are made with; holds nothing of the client itself."""
    name, handler = client.name, client.on_elicitation

    async def asked(session: McpSession, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        if handler is None:
            return await elicited(session, name, params)
        return await _handled(handler, Question.of(name, params))

    return ConnectionOptions(
        name=name,
        mode=client.mode,
        connect_timeout=client.connect_timeout,
        log_level=client.log_level,
        elicited=asked,
        asks_itself=handler is not None,
        sampling=None if client.sampling is None else _sampling(client.sampling),
        roots=_roots(client.roots) if client.roots else None,
        changed=changed,
    )


async def _handled(handler: OnElicitation, question: Question) -> ElicitResult | ErrorData:
    try:
        content = await handler(Elicitation(question.server, question.message, question.schema, question.url))
    except AgentScopeError as error:
        return ErrorData(code=FAILED, message=str(error))
    if content is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=cast("Any", thaw(content)))


def _roots(folders: Sequence[str]) -> ListRootsFnT:
    found = [Root(uri=_uri(folder), name=folder) for folder in folders]

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=found)

    return roots


def _uri(folder: str) -> Any:
    return folder if "://" in folder else Path(folder).absolute().as_uri()


def _sampling(model: ChatModel) -> SamplingFnT:
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
        gather = ResponseAccumulator()
        try:
            async for response in model.stream(messages, (), options):
                if response.retry is not None and response.retry.discarded:
                    gather.reset()
                gather.feed(response)
        except AgentScopeError as error:
            return ErrorData(code=FAILED, message=f"{type(error).__name__}: {error}")
        text = "".join(block.text for block in gather.blocks() if isinstance(block, TextBlock))
        return CreateMessageResult(role="assistant", content=TextContent(text=text), model=model.model_name)

    return sample


def _message(given: SamplingMessage) -> Msg:
    blocks: list[ContentBlock] = []
    for each in given.content_as_list:
        if not isinstance(each, (TextContent, ImageContent, AudioContent)):
            raise TypeError("Tools are not offered in sampling: only text, images and audio can be sent.")
        blocks.append(block_of(each))
    return Msg.user(blocks) if given.role == "user" else Msg.assistant(blocks, "assistant")
