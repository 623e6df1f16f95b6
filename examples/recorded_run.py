"""A run is recorded, shown again, and becomes a test: `record`, `replay` and `RecordedModel`.

Look at: the last line. `RecordedModel` gives the recorded answers, and compares each request with the recorded one; as
the tool says something else now, the run ends with an error that shows the difference.

    python examples/recorded_run.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/recorded_run.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.events import record, replay
from agentscope_rx.testing import RecordedModel, ScriptedModel, call

degrees = 21


@tool
async def weather(city: str) -> str:
    """Current weather of a city."""
    return f"{degrees} degrees in {city}"


def main(log: Path) -> None:
    global degrees
    script = ScriptedModel(call("weather", city="Rome"), ["It is ", "warm ", "in Rome."])
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    record(ReActAgent("Friday", model, tools=[weather]).stream("Weather in Rome?"), log).run()
    print(f"recorded: {len(log.read_text(encoding='utf-8').splitlines())} events")

    replay(log).text().do(lambda part: print(f"replayed: {part!r}")).run()

    again = RecordedModel(log)
    print(f"as a test: {ReActAgent('Friday', again, tools=[weather]).call('Weather in Rome?').run().text}")
    again.assert_complete()

    degrees = 5
    try:
        ReActAgent("Friday", RecordedModel(log), tools=[weather]).call("Weather in Rome?").run()
    except AgentScopeError as error:
        print(f"with another tool: {type(error).__name__}")
    else:
        print("the model has not asked the tool")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder, "run.jsonl"))
