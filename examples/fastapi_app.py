"""FastAPI: an endpoint that streams a run as server-sent events, and a client that leaves, which stops the run.

Look at: `sse_response(agent.stream(...))`, which is all that the endpoint needs. When the second client closes its
connection after two pieces of text, the run is disposed: its model is not read on, and nothing is paid for in vain.

    python examples/fastapi_app.py                       serves itself, with two clients
    uvicorn examples.fastapi_app:app                     serves; then, elsewhere:
    curl -N http://127.0.0.1:8000/ask --json '{"text": "How was your day?"}'

Without AGENTSCOPE_RX_MODEL (openai:gpt-5-mini, ollama:qwen3, ...) the model plays a script. Needs the extra `service`,
fastapi and uvicorn. `examples/sse_service.py` has runs that go on without a client.
"""

from __future__ import annotations

import asyncio
import os
import socket

import httpx
import uvicorn
from fastapi import FastAPI, Response
from httpx_sse import aconnect_sse
from pydantic import BaseModel
from reactivex import operators as ops

from agentscope_rx import ReActAgent
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.events import PostCallEvent, ReasoningChunkEvent, event_from_json
from agentscope_rx.service import GuardOptions, RequestGuard, answer_error, sse_response
from agentscope_rx.testing import Delay, ScriptedModel

WORDS = "Long, and full of questions. (This is a script.)"


class Question(BaseModel):
    text: str


app = FastAPI()
app.add_middleware(RequestGuard, options=GuardOptions())  # this machine only; GuardOptions has hosts and tokens
app.add_exception_handler(AgentScopeError, answer_error)


@app.post("/ask")
async def ask(question: Question) -> Response:
    """The run's events. An agent for each request: its memory belongs to the request."""
    script = ScriptedModel([step for word in WORDS.split() for step in (f"{word} ", Delay(0.02))])
    agent = ReActAgent("Friday", os.environ.get("AGENTSCOPE_RX_MODEL") or script, "Answer in twenty words.")
    run = agent.stream(question.text).pipe(ops.do_action(on_completed=lambda: print("    (server: it is complete)")))
    return sse_response(run.pipe(ops.finally_action(lambda: print("    (server: the run has ended)"))))


async def client(address: str, question: str, most: int) -> None:
    """Reads a run; leaves after so many pieces of text."""
    print(f"client: {question}")
    pieces = 0
    async with (
        httpx.AsyncClient(base_url=address, timeout=60) as http,
        aconnect_sse(http, "POST", "/ask", json={"text": question}) as source,
    ):
        async for message in source.aiter_sse():
            event = event_from_json(message.data)
            if isinstance(event, ReasoningChunkEvent) and event.text:
                pieces += 1
                print(f"  {event.text!r}")
            elif isinstance(event, PostCallEvent):
                print(f"  reply: {event.message.text.strip()}")
            if pieces == most:
                print("  (client: leaves)")
                break


async def main() -> None:
    """A real server on a free port, and its clients."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        serving = asyncio.create_task(server.serve([listening]))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        await client(address, "How was your day?", most=1000)
        await client(address, "And your night?", most=2)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
