"""A coder works until a test passes: the test is a real command, and what it prints is the feedback.

    python examples/goal_loop.py

The model is scripted, so that it runs offline; put `OpenAIChatModel(...)` in its place and it is a real one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from agentscope_rx import ReActAgent
from agentscope_rx.agent import UsageLimits
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.pipeline import CommandCheck, GoalLoop, GoalOutcome
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.backends import LocalBackend
from agentscope_rx.tools.files import FileTools

TEST = "from add import add\nassert add(2, 3) == 5, f'add(2, 3) is {add(2, 3)}'\nprint('all is well')\n"


def write(body: str) -> ToolUseBlock:
    return call("write_file", path="add.py", content=f"def add(a, b):\n    return {body}\n")


async def work_on(folder: Path) -> None:
    (folder / "test_add.py").write_text(TEST)
    backend = LocalBackend(folder)
    model = ScriptedModel(write("a - b"), "I wrote add.", write("sum((a, b))"), "It was the sign. I mended it.")
    coder = ReActAgent("Coder", model, tools=[FileTools(backend=backend, requires_approval=False)])
    check = CommandCheck(sys.executable, "test_add.py", backend=backend)
    loop = GoalLoop(coder, check, max_rounds=5, limits=UsageLimits(model_calls=20, deadline=120))

    reply = await loop.call("Write add.py with a function add(a, b), so that test_add.py passes.")
    outcome = GoalOutcome.of(reply)
    print(f"{outcome.end} after {outcome.rounds} rounds: {reply.text}")
    for request in model.requests:
        last = request.messages[-1].text
        if "<feedback>" in last:
            print(f"feedback: ... {last.split('</feedback>')[0].strip().splitlines()[-1]}")


async def main() -> None:
    with TemporaryDirectory() as folder:
        await work_on(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
