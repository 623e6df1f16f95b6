"""Hello: an agent with one tool, its answer, and the text of an answer while it is written.

Look at: `@tool` (its signature and docstring are what the model reads) and the two last lines, which ask.

    python examples/hello.py                                                without a key: the model plays a script
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/hello.py          a real one: ollama:qwen3, local:smollm2, ...
"""

import os

from agentscope_rx import ReActAgent, tool
from agentscope_rx.testing import ScriptedModel, call


@tool
async def weather(city: str) -> str:
    """Current weather of a city."""
    return f"Sunny in {city}, 21 degrees."


script = ScriptedModel(call("weather", city="Paris"), "It is sunny in Paris.", ["As sunny ", "as before, ", "I think."])
model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
agent = ReActAgent("Friday", model, "You are helpful.", tools=[weather])

print("reply: ", agent.call("How is the weather in Paris?").run().text)
agent.stream("And tomorrow?").text().do(lambda part: print("stream:", part)).run()
