"""The routes of AG-UI: one request is one run."""

from __future__ import annotations

from collections.abc import Sequence

from reactivex import operators as ops
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentscope_rx.agent import Agent
from agentscope_rx.context import RuntimeContext
from agentscope_rx.events import Event
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, flow
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.ag_ui.conversing import Threads
from agentscope_rx.service.protocols.ag_ui.failures import ag_ui_error
from agentscope_rx.service.protocols.ag_ui.reading import client_tools, read_input
from agentscope_rx.service.protocols.ag_ui.state import AgUiState
from agentscope_rx.service.protocols.ag_ui.stream import AgUiStream
from agentscope_rx.service.protocols.sse import sse_response


def ag_ui_routes(host: AgentHost, *, prefix: str = "/ag-ui") -> list[Route]:
    """AG-UI 1.0 for the agents of this host. Enter the host in the lifespan of the application.

    | request | answer |
    |---|---|
    | `POST /ag-ui/{agent}` | a run of this agent, as a stream of events |
    | `POST /ag-ui` | the same for the only agent |

    The `threadId` of a request is a stored conversation of its user. Hooks and tools find the request in the context of
    the call: the `RunAgentInput`, with its `context` and `forwarded_props`, and the `AgUiState`.
    """
    threads = Threads(host)

    async def run(request: Request) -> Response:
        try:
            return await _run(request, host, threads)
        except Exception as error:
            return ag_ui_error(error)

    return [
        Route(prefix or "/", run, methods=["POST"]),
        Route(f"{prefix}/{{agent:path}}", run, methods=["POST"]),
    ]


async def _run(request: Request, host: AgentHost, threads: Threads) -> Response:
    name, user = host.name_of(request.path_params.get("agent")), host.user_of(request)
    input = await read_input(request)
    tools, state = client_tools(input), AgUiState(input.state)
    values: list[object] = [input, state] if tools is None else [input, state, tools]
    turn = await threads.turn(name, user, input)
    agent = host.agent(name)
    live = host.begin(
        name,
        turn.input,
        user=user,
        session_id=input.thread_id,
        through=(lambda events: _enqueueing(events, agent, turn.later)) if turn.later else None,
        context=RuntimeContext(*values, user_id=user, session_id=input.thread_id),
        when_busy="error",
    )
    return sse_response(live, encoder=AgUiStream(input, turn.transcript, state), refused=ag_ui_error)


def _enqueueing(events: Flow[Event], agent: Agent, messages: Sequence[Msg]) -> Flow[Event]:
    """The events; when the run has begun, it is given these messages. Signals and cancels as `events`."""
    waiting = [messages]

    def give(event: Event) -> None:
        if waiting and event.type == "pre_call" and not event.depth:
            agent.enqueue(waiting.pop(), run_id=event.run_id)

    return flow(events.pipe(ops.do_action(give)))
