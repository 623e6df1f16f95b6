"""`POST /v1/responses`: a response continues the conversation that another one left, by `previous_response_id`."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.messages import TRANSIENT, Msg, MsgRole
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.openai.answer import Answer
from agentscope_rx.service.protocols.openai.failures import UnknownResponseError, openai_error
from agentscope_rx.service.protocols.openai.items import messages_of, own_messages
from agentscope_rx.service.protocols.openai.parameters import (
    JsonObject,
    ListOfObjects,
    Parameters,
    output_of,
    read_parameters,
)
from agentscope_rx.service.protocols.openai.response_stream import ResponseStream
from agentscope_rx.service.protocols.openai.stored import StoredResponses
from agentscope_rx.service.protocols.sse import sse_response
from agentscope_rx.service.protocols.whole import WholeResponse


class ResponseRequest(Parameters):
    """The body of a request."""

    input: str | ListOfObjects
    instructions: str | None = None
    previous_response_id: str | None = None
    text: JsonObject | None = None
    stream_options: JsonObject | None = None


async def response(request: Request, host: AgentHost, stored: StoredResponses) -> Response:
    """Answer one request."""
    body = await read_parameters(request, ResponseRequest)
    name, user = host.name_of(body.model), host.user_of(request)
    agent = host.agent(name)
    tools, output = body.client_tools(), output_of(_format(body.text), "text.format")
    memory = InMemoryMemory()
    if body.previous_response_id is not None:
        memory = await stored.load(agent, name, user, body.previous_response_id)
    pending = await agent.pending_calls(memory=memory)
    messages = own_messages(messages_of(body.input, pending), agent.name)
    begin = next((at for at in range(len(messages), 0, -1) if messages[at - 1].role is MsgRole.ASSISTANT), 0)
    instructions = [Msg.system(body.instructions).marked(TRANSIENT)] if body.instructions else []
    system = [each for each in messages[begin:] if each.role is MsgRole.SYSTEM]
    await memory.add([*messages[:begin], *system, *instructions])
    input = [each for each in messages[begin:] if each.role is not MsgRole.SYSTEM]
    if not input:
        raise InvalidInputError("input must end with a message of the user, or with outputs of calls.")
    id = stored.new_id()
    run = host.begin(
        name,
        input,
        memory=memory,
        through=None if body.store is False else lambda events: stored.saving(events, agent, name, user, id, memory),
        context=None if tools is None else RuntimeContext(tools),
        output=output,
    )
    about = _about(id, body)
    made = ResponseStream(about, Answer(structured=output is not None))
    if body.stream:
        return sse_response(run, encoder=made, refused=openai_error)

    def see(event: object) -> None:
        for _ in made.see(event):  # pyright: ignore[reportArgumentType]
            pass

    return WholeResponse(run, see, lambda: JSONResponse(made.body()), openai_error)


async def delete_response(request: Request, host: AgentHost, stored: StoredResponses) -> JSONResponse:
    """Remove the conversation that a response left."""
    id = str(request.path_params["response_id"])
    deleted = [await stored.delete(name, host.user_of(request), id) for name in host.agents]
    if not any(deleted):
        raise UnknownResponseError(id)
    return JSONResponse({"id": id, "object": "response", "deleted": True})


def _format(text: JsonObject | None) -> JsonObject | None:
    if text is None or text.get("format") is None:
        return None
    format = text["format"]
    if not isinstance(format, dict):
        raise InvalidInputError("text.format must be an object.")
    return dict(format)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _about(id: str, body: ResponseRequest) -> dict[str, object]:
    return {
        "id": id,
        "object": "response",
        "created_at": int(time.time()),
        "model": body.model,
        "instructions": body.instructions,
        "previous_response_id": body.previous_response_id,
        "parallel_tool_calls": True,
        "tool_choice": body.tool_choice or "auto",
        "tools": body.tools or [],
        "text": body.text or {"format": {"type": "text"}},
        "store": body.store is not False,
        "metadata": {},
        "temperature": None,
        "top_p": None,
        "max_output_tokens": None,
        "reasoning": None,
        "truncation": "disabled",
        "user": None,
    }
