"""AG-UI: an agent behind the protocol of web front ends; a person edits a call before it runs.

Look at: `ag_ui_routes(host)`, which is all that a front end needs: `HttpAgent` of `@ag-ui/client` speaks to it. The
client below does the same by hand. The call of `send_mail` ends the first run with an interrupt; the next request
answers it, and the run goes on.

    python examples/front_end.py                           serves itself, with a client
    uvicorn examples.front_end:app                        serves

Without AGENTSCOPE_RX_MODEL (openai:gpt-5-mini, ollama:qwen3, ...) the model plays a script. Needs the extra `ag-ui` and
uvicorn.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, cast

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from agentscope_rx import ReActAgent, tool
from agentscope_rx.service import AgentHost, AgUiState, GuardOptions, RequestGuard, ag_ui_routes
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import Inject


@tool(requires_approval=True)
def send_mail(to: str, text: str, state: Annotated[AgUiState, Inject]) -> str:
    """Send a mail."""
    sent = cast("list[str]", state.get("sent", []))
    state.update(sent=[*sent, to])  # the front end shows what was sent
    return f"Sent to {to}: {text}"


SCRIPT = ScriptedModel(
    ["I will write to Ann. ", call("send_mail", to="ann@example.com", text="Hi!")], "It is on its way."
)
agent = ReActAgent("Friday", os.environ.get("AGENTSCOPE_RX_MODEL") or SCRIPT, "Be brief.", tools=[send_mail])
host = AgentHost(agent)  # AgentHost(agent, sessions="threads") keeps the threads


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    async with host:
        yield


app = Starlette(
    routes=ag_ui_routes(host),
    middleware=[Middleware(RequestGuard, options=GuardOptions())],  # this machine only
    lifespan=lifespan,
)


async def ask(http: httpx.AsyncClient, messages: Sequence[Any], run: str, **more: Any) -> dict[str, Any]:
    """One request: prints its events, and returns the last one."""
    body: dict[str, Any] = {"threadId": "t1", "runId": run, "messages": messages, "state": {}, **more}
    last: dict[str, Any] = {}
    async with http.stream("POST", "/ag-ui", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                last = json.loads(line.removeprefix("data: "))
                told = [last[name] for name in ("delta", "toolCallName", "content") if name in last]
                print(f"  {last['type']} {json.dumps(told[0]) if told else ''}".rstrip())
    return last


async def client(address: str) -> None:
    """Says something, and approves the call with another address."""
    question = {"id": "m1", "role": "user", "content": "Say hi to Ann."}
    async with httpx.AsyncClient(base_url=address, timeout=60) as http:
        last = await ask(http, [question], "run-1")
        for asked in last["outcome"].get("interrupts", ()):
            print(f"  asked: {asked['message']}")
            edited = {"to": "ann@example.org", "text": "Hi, Ann!"}
            answer = {"interruptId": asked["id"], "status": "resolved"}
            payload = {"approved": True, "editedArgs": edited}
            await ask(http, [question], "run-2", resume=[{**answer, "payload": payload}])


async def main() -> None:
    """A real server on a free port, and its client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        serving = asyncio.create_task(server.serve([listening]))
        await client(f"http://127.0.0.1:{listening.getsockname()[1]}")
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
