"""An agent behind HTTP, streaming its runs as server-sent events; runs go on when a client leaves.

Look at: `create_app(agent_of, on_disconnect="continue")`, which has all the requests below, and `Last-Event-ID`: a
client that comes back gets what it has missed, then the rest live.

    pip install 'agentscope-rx[service]' uvicorn
    uvicorn examples.sse_service:app --timeout-graceful-shutdown 5       # or: python -m examples.sse_service

    curl -N http://127.0.0.1:8000/run --json '{"text": "Weather in Paris?"}'
    curl -N http://127.0.0.1:8000/runs/RUN_ID/events -H 'Last-Event-ID: 7'      # what came after event 7, then live
    curl http://127.0.0.1:8000/runs/RUN_ID/input --json '{"text": "Rome?"}'     # input to the live run
    curl -X POST http://127.0.0.1:8000/runs/RUN_ID/interrupt                    # a normal end
    curl -X DELETE http://127.0.0.1:8000/runs/RUN_ID                            # a hard one

Conversations are kept apart by the header `x-conversation`. Without AGENTSCOPE_RX_MODEL (openai:gpt-5-mini, ...) a
script takes the model's place. With AGENT_TOKEN requests need `-H "authorization: Bearer $AGENT_TOKEN"`; without it
only this machine is answered.
"""

from __future__ import annotations

import os

from starlette.requests import Request

from agentscope_rx import ReActAgent, tool
from agentscope_rx.models import ChatModel, get_model
from agentscope_rx.service import create_app
from agentscope_rx.testing import Delay, ScriptedModel, call


@tool
async def weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: Its name in English.
    """
    return f"Sunny in {city}, 21 degrees."


def model() -> ChatModel:
    """What the environment names, else a script."""
    if name := os.environ.get("AGENTSCOPE_RX_MODEL"):
        return get_model(name)
    words = "It is sunny in Paris, and as warm as one could wish. (This is a script: set AGENTSCOPE_RX_MODEL.)"
    answer = [step for word in words.split() for step in (Delay(0.1), f"{word} ")]
    return ScriptedModel([Delay(0.5), call("weather", city="Paris")], answer, repeat=True)


agents: dict[str, ReActAgent] = {}
"""One for each conversation, for as long as the process lives: a service would bound and store them."""


def agent_of(request: Request) -> ReActAgent:
    """The agent that the request's conversation is with."""
    name = request.headers.get("x-conversation", "default")
    if name not in agents:
        agents[name] = ReActAgent("Friday", model(), "You are a helpful assistant.", tools=[weather])
    return agents[name]


app = create_app(agent_of, on_disconnect="continue", token=os.environ.get("AGENT_TOKEN"))

if __name__ == "__main__":
    import uvicorn

    # without the bound a shutdown would wait for every stream to end by itself
    uvicorn.run(app, timeout_graceful_shutdown=5)
